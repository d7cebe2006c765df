package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// What of a value's layout is for people: the depth down to which it is
// indented, and how many times as long as without that it may be.
const (
	maxSpread = 32
	maxBlow   = 4
)

// maxVersion is above all versions: what reads JSON holds those exactly.
const maxVersion = 1 << 53

// A Memory is what was saved under a key.
type Memory struct {
	Key      string
	Value    json.RawMessage // any JSON, without blanks
	Metadata json.RawMessage // a JSON object, likewise
	Created  time.Time
	Updated  time.Time
	Version  int64  // rises with each save; never used twice for a key while its history is kept
	Bytes    int    // of its file
	Name     string // of its file
	// Stamp is another for each state of the file, also if a person has changed it
	// and left the version as it was.
	Stamp string

	rest []member // what else the file holds, in order
}

// A member is one of an object's.
type member struct {
	name  string
	value json.RawMessage
}

// parse reads a file. What is missing in one that was written by hand, or by the
// seed project, gets the value that it most likely has. changed is the time of
// the file's last change.
func parse(name string, text []byte, changed time.Time) (Memory, error) {
	m := Memory{Bytes: len(text), Name: name, Created: changed, Updated: changed, Version: 1}
	members, err := split(text)
	if err != nil {
		m.Key = keyFor(name, members)
		return m, err
	}
	has := map[string]json.RawMessage{}
	for _, x := range members {
		has[x.name] = compact(x.value)
	}
	for _, x := range members {
		switch x.name {
		case "key", "value", "metadata", "created", "updated", "created_at", "updated_at", "version":
		default:
			m.rest = append(m.rest, x)
		}
	}
	m.Key = keyFor(name, members)
	m.Value, m.Metadata = has["value"], has["metadata"]
	if m.Value == nil {
		return m, errors.New(`it has no "value"`)
	}
	if len(m.Metadata) == 0 || m.Metadata[0] != '{' {
		m.Metadata = json.RawMessage("{}")
	}
	m.Created = moment(m.Created, has["created"], has["created_at"])
	m.Updated = moment(m.Updated, has["updated"], has["updated_at"])
	var version int64
	if json.Unmarshal(has["version"], &version) == nil && version > 0 && version < maxVersion {
		m.Version = version
	}
	m.Stamp = fmt.Sprintf("%d-%08x", m.Version, crc32.ChecksumIEEE(text))
	return m, nil
}

// split takes an object apart. With an error it returns what came before.
func split(text []byte) ([]member, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("line %d: it is no text in UTF-8", line(text, firstInvalid(text)))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var members []member
	if start, err := d.Token(); err != nil {
		return nil, where(text, err)
	} else if start != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return members, where(text, err)
		}
		name, _ := token.(string) // else the decoder would have objected
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return members, where(text, err)
		}
		members = append(members, member{name, value})
	}
	if _, err := d.Token(); err != nil {
		return members, where(text, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return members, fmt.Errorf("line %d: something follows the end of the object", line(text, d.InputOffset()))
	}
	return members, nil
}

func firstInvalid(text []byte) int64 {
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return int64(at)
}

// where says in which line a text is no JSON. The error is the decoder's, which
// does not know.
func where(text []byte, err error) error {
	var whole json.RawMessage
	e, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &whole))
	switch {
	case !ok:
		return err
	case e.Error() == "unexpected end of JSON input":
		return errors.New("it ends in the middle")
	}
	return fmt.Errorf("line %d: %w", line(text, e.Offset), e)
}

func line(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte("\n"))
}

// compact is valid JSON without blanks.
func compact(value json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return value
	}
	return b.Bytes()
}

// keyFor is the key of a file, also of one that is broken behind it.
func keyFor(name string, members []member) string {
	for _, x := range members {
		var key string
		if x.name == "key" && json.Unmarshal(x.value, &key) == nil && claims(name, key) {
			return key
		}
	}
	return keyOf(name)
}

// moment is the first of values that is a time: a text, or seconds since 1970 as
// the seed project has them.
func moment(t time.Time, values ...json.RawMessage) time.Time {
	for _, v := range values {
		var text string
		var seconds float64
		if json.Unmarshal(v, &text) == nil {
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
				return at.UTC()
			}
		} else if json.Unmarshal(v, &seconds) == nil && seconds > 0 && seconds < 1e11 {
			return time.UnixMicro(int64(seconds * 1e6)).UTC()
		}
	}
	return t.UTC()
}

// text is the memory as its file holds it.
func (m *Memory) text() ([]byte, error) {
	key, err := quoted(m.Key)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	members := []member{
		{"key", key}, {"value", m.Value}, {"metadata", m.Metadata},
		{"created", stamp(m.Created)}, {"updated", stamp(m.Updated)}, {"version", fmt.Appendf(nil, "%d", m.Version)},
	}
	for i, x := range append(members, m.rest...) {
		name, err := quoted(x.name)
		if err != nil {
			return nil, err
		}
		b.WriteString([]string{"{\n  ", ",\n  "}[min(i, 1)])
		b.Write(name)
		b.WriteString(": ")
		if err := spread(&b, x.value); err != nil {
			return nil, err
		}
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

func stamp(t time.Time) json.RawMessage {
	return json.RawMessage(`"` + t.UTC().Format("2006-01-02T15:04:05.000000Z") + `"`)
}

// quoted is a text in JSON, with its characters as they are.
func quoted(text string) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return nil, fmt.Errorf("writing a text: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// spread writes a value over several lines, unless most of that would be
// indentation.
func spread(b *bytes.Buffer, value json.RawMessage) error {
	if depth(value) <= maxSpread {
		start := b.Len()
		if err := json.Indent(b, value, "  ", "  "); err != nil {
			return fmt.Errorf("writing a value: %w", err)
		}
		if b.Len()-start <= maxBlow*len(value)+4096 {
			return nil
		}
		b.Truncate(start)
	}
	if err := json.Compact(b, value); err != nil {
		return fmt.Errorf("writing a value: %w", err)
	}
	return nil
}

// depth is how deep a value is nested.
func depth(value []byte) int {
	deepest, now, text := 0, 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// readable is a JSON value without blanks, and with its characters as they are
// where a person can read them. It has the same meaning to every reader.
func readable(value json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return nil, fmt.Errorf("reading a value: %w", err)
	}
	text := b.Bytes()
	if !bytes.Contains(text, []byte(`\u`)) {
		return text, nil
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			out = append(out, text[i])
			i++
			continue
		}
		r, size := unquote(text[i:])
		if size > 2 && isReadable(r) {
			out = utf8.AppendRune(out, r)
		} else {
			out = append(out, text[i:i+size]...)
		}
		i += size
	}
	return out, nil
}

// isReadable reports whether a character may stand for itself. Those that can't
// be seen, or turn others around, stay escaped, as do those that JSON escapes.
func isReadable(r rune) bool {
	switch {
	case r < 0xa0, 0xd800 <= r && r < 0xe000, r == utf8.RuneError, r == 0xfeff, r == 0x61c:
		return false
	case 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f:
		return false
	}
	return true
}

// unquote reads the escape that valid JSON begins with, and returns how many
// bytes it has. Two that are the halves of one character are one.
func unquote(text []byte) (rune, int) {
	r, ok := hexRune(text)
	if !ok {
		return 0, 2
	}
	if utf16.IsSurrogate(r) && len(text) >= 12 {
		if low, ok := hexRune(text[6:]); ok {
			if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
				return whole, 12
			}
		}
	}
	return r, 6
}

func hexRune(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range text[2:6] {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if c < 'A' {
			digit = int(c - '0')
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}
