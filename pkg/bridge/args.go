package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxServers bounds the servers of one call.
	maxServers = 64
	// maxServerName bounds a server's name, in bytes.
	maxServerName = 256
	// maxTimeout keeps a timeout within what a time.Duration holds.
	maxTimeout = 365 * 24 * time.Hour
	// maxSessionName bounds a session's name, in characters.
	maxSessionName = 64
)

// args are the arguments of run_python.
type args struct {
	code    string
	servers []string
	timeout time.Duration // 0 if the agent gave none
	reset   bool          // start over in a fresh sandbox
	session string        // "" is the default one
	notices []string      // what was made of arguments that were not quite right
	tokens  int           // what the result may cost, which the agent does not say
	data    bool          // the result is told as data, and so is the value; no argument of the agent's

	again *mcp.MultiRoundTripParams // what a call brings that is made again; nil for others
}

// parseArgs reads the arguments, which a model wrote, with as much tolerance as
// leaves no doubt about what was meant. An error tells the model what to change.
//
// maxCode is in bytes. A timeout may be as long as it likes here: what caps it
// is the sandbox's session, which knows the configuration.
func parseArgs(raw json.RawMessage, maxCode int) (args, error) {
	members, err := argMembers(raw)
	if err != nil {
		return args{}, err
	}
	var a args
	if a.reset, err = parseReset(members["reset"]); err != nil {
		return args{}, err
	}
	if _, ok := members["code"]; !ok && a.reset {
		members["code"] = json.RawMessage(`""`)
	}
	if a.code, err = parseCode(members, maxCode); err != nil {
		return args{}, err
	}
	if a.servers, err = parseServers(members["servers"]); err != nil {
		return args{}, err
	}
	if err := a.setTimeout(members["timeout"]); err != nil {
		return args{}, err
	}
	if a.session, err = parseSession(members["session"]); err != nil {
		return args{}, err
	}
	for _, name := range []string{"code", "servers", "timeout", "reset", "session"} {
		delete(members, name)
	}
	if len(members) > 0 {
		a.notices = append(a.notices, fmt.Sprintf("ignored unknown arguments %s; run_python takes code, servers, timeout, reset and session", quoteNames(members)))
	}
	return a, nil
}

// argMembers takes the arguments object apart. Some agents send it as a string.
func argMembers(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var inner string
	if firstByte(raw) == '"' && json.Unmarshal(raw, &inner) == nil {
		raw = json.RawMessage(inner)
	}
	var members map[string]json.RawMessage
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf(`the arguments must be an object such as {"code":"print(1)"}, not %s`, kindOf(raw))
	}
	for name, v := range members {
		if string(v) == "null" {
			delete(members, name)
		}
	}
	return members, nil
}

func parseCode(members map[string]json.RawMessage, limit int) (string, error) {
	raw, ok := members["code"]
	if !ok && len(members) > 0 {
		return "", fmt.Errorf(`the argument "code" is missing (a string of Python); got %s`, quoteNames(members))
	}
	if !ok {
		return "", fmt.Errorf(`the argument "code" is missing (a string of Python)`)
	}
	if len(raw) > 6*limit+2 { // not even if every byte were escaped
		return "", tooLong(len(raw), limit)
	}
	var code string
	if err := json.Unmarshal(raw, &code); err != nil {
		return "", fmt.Errorf(`the argument "code" must be a string of Python, not %s`, kindOf(raw))
	}
	if len(code) > limit {
		return "", tooLong(len(code), limit)
	}
	if esc, ok := loneSurrogate(raw); ok {
		return "", fmt.Errorf(`the code holds the lone surrogate %s, which is no character; send the whole character, or write '\%s' as an escape inside a Python string`, esc, esc)
	}
	code = strings.ReplaceAll(strings.TrimPrefix(code, "\ufeff"), "\r\n", "\n")
	if at := strings.IndexByte(code, 0); at >= 0 {
		return "", fmt.Errorf(`the code holds a NUL character in line %d; write it as \x00 inside a Python string`, 1+strings.Count(code[:at], "\n"))
	}
	return code, nil
}

func tooLong(n, limit int) error {
	return fmt.Errorf("the code has %d bytes and the limit is %d; send data in parts that the session keeps, or read it with a server", n, limit)
}

// loneSurrogate finds an escaped half of a surrogate pair in a valid JSON
// string, which decoding would replace with U+FFFD.
func loneSurrogate(raw []byte) (string, bool) {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		u, ok := unit(raw[i:])
		if !ok {
			i++ // the escaped character
			continue
		}
		if 0xD800 <= u && u < 0xDC00 {
			if low, ok := unit(raw[min(i+6, len(raw)):]); ok && 0xDC00 <= low && low < 0xE000 {
				i += 11
				continue
			}
		}
		if 0xD800 <= u && u < 0xE000 {
			return string(raw[i : i+6]), true
		}
		i += 5
	}
	return "", false
}

// unit returns the UTF-16 unit that raw begins with as an escape.
func unit(raw []byte) (uint64, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	u, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return u, err == nil
}

// parseServers reads a list of names; one name, names with commas and a list
// inside a string are understood.
func parseServers(raw json.RawMessage) ([]string, error) {
	if raw == nil {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			return checkServers(strings.Split(text, ","))
		}
		raw = json.RawMessage(text)
	}
	var names []string
	if err := json.Unmarshal(raw, &names); err != nil {
		return nil, fmt.Errorf(`the argument "servers" must be a list of names such as ["github"], not %s`, kindOf(raw))
	}
	return checkServers(names)
}

func checkServers(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		name = strings.TrimSpace(name)
		if len(name) > maxServerName {
			return nil, fmt.Errorf("a server's name has %d bytes; the limit is %d", len(name), maxServerName)
		}
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
		if len(out) > maxServers {
			return nil, fmt.Errorf("a call loads at most %d servers; load more in the next", maxServers)
		}
	}
	return out, nil
}

// setTimeout reads seconds, as a number or a string of one.
func (a *args) setTimeout(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	text := strings.Trim(string(raw), `"`)
	secs, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "s"), 64)
	if err != nil && !math.IsInf(secs, 0) || math.IsNaN(secs) {
		return fmt.Errorf(`the argument "timeout" must be a number of seconds, not %s`, brief(string(raw)))
	}
	if secs <= 0 {
		return fmt.Errorf(`the argument "timeout" must be more than 0 seconds, not %s; leave it out for the default`, brief(text))
	}
	secs = min(secs, maxTimeout.Seconds())
	a.timeout = max(time.Duration(secs*float64(time.Second)), time.Millisecond)
	return nil
}

// parseReset reads a boolean, or a string of one.
func parseReset(raw json.RawMessage) (bool, error) {
	switch strings.ToLower(strings.Trim(string(raw), `"`)) {
	case "true", "1":
		return true, nil
	case "", "false", "0":
		return false, nil
	}
	return false, fmt.Errorf(`the argument "reset" must be true or false, not %s`, brief(string(raw)))
}

// parseSession reads a name, or a number as one.
func parseSession(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "", nil
	}
	name := string(raw)
	if c := firstByte(raw); c != '-' && (c < '0' || c > '9') && json.Unmarshal(raw, &name) != nil {
		return "", fmt.Errorf(`the argument "session" must be a name such as "analysis", not %s`, kindOf(raw))
	}
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n > maxSessionName {
		return "", fmt.Errorf(`the argument "session" has %d characters and the limit is %d; use a short name such as "analysis"`, n, maxSessionName)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return "", fmt.Errorf(`the argument "session" holds %U, which can't be printed; use a short name such as "analysis"`, r)
		}
	}
	return name, nil
}

// kindOf names what a JSON value is.
func kindOf(raw json.RawMessage) string {
	switch c := firstByte(bytes.TrimSpace(raw)); c {
	case '{':
		return "an object"
	case '[':
		return "a list of something else"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case 0:
		return "nothing"
	}
	return "a number"
}

func quoteNames(members map[string]json.RawMessage) string {
	names := slices.Sorted(maps.Keys(members))
	const most = 8
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	for i, n := range names {
		names[i] = strconv.Quote(brief(n))
	}
	return strings.Join(names, ", ") + more
}

// brief shortens what an agent sent to what an error can quote.
func brief(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
