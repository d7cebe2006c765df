package register

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	yamllib "github.com/goccy/go-yaml"
)

// yaml is YAML in block style, where the servers are a map, or a list of maps
// with names. It is edited by lines.
type yaml struct {
	list bool
}

func (y yaml) listed() bool { return y.list }

func (yaml) decode(text string) (map[string]any, error) {
	tree := map[string]any{}
	err := yamllib.Unmarshal([]byte(text), &tree)
	if err == nil && tree == nil { // a blank text
		tree = map[string]any{}
	}
	if err == nil {
		return tree, nil
	}
	var at yamllib.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		return nil, &lineError{strconv.Itoa(at.GetToken().Position.Line), at.GetMessage()}
	}
	return nil, &lineError{"1", err.Error()}
}

func (yaml) quoted(text string) []string {
	return []string{jsonString(text), "'" + strings.ReplaceAll(text, "'", "''") + "'", text}
}

// A block is where the servers' lines are.
type block struct {
	key, keyEnd int // the line of the key
	start, end  int // the lines below it, without comments and blank lines behind
	indent      string
	none        bool // the key has no value, or an empty one
}

var emptyValue = regexp.MustCompile(`^\s*(\{\s*\}|\[\s*\]|null|~)?\s*(#.*)?$`)

// block finds the servers of a text. It is nil if there is no such key.
func (y yaml) block(text, key string) (*block, error) {
	for at := 0; at < len(text); at = lineAfter(text, at) {
		line := strings.TrimRight(text[at:lineAfter(text, at)], "\r\n")
		value, ok := strings.CutPrefix(line, key+":")
		if !ok {
			continue
		}
		if !emptyValue.MatchString(value) {
			return nil, errTwisted
		}
		b := &block{key: at, keyEnd: lineAfter(text, at)}
		b.start, b.end = b.keyEnd, b.keyEnd
		y.fill(text, b)
		return b, nil
	}
	return nil, nil
}

// fill finds the end of a block: the first line that is indented like its key.
func (y yaml) fill(text string, b *block) {
	b.none = true
	for at := b.start; at < len(text); at = lineAfter(text, at) {
		line := text[at:lineAfter(text, at)]
		body := strings.TrimSpace(line)
		indent := indentOf(text, at)
		item := y.list && (strings.HasPrefix(body, "- ") || body == "-")
		if body != "" && !strings.HasPrefix(body, "#") {
			if indent == "" && !item {
				return
			}
			if b.none {
				b.indent, b.none = indent, false
			}
		}
		if body != "" && (!strings.HasPrefix(body, "#") || !b.none && len(indent) > len(b.indent)) {
			b.end = lineAfter(text, at)
		}
	}
}

func (y yaml) add(text string, key []string, name string, fields []field) (string, int, error) {
	eol := lineEnd(text)
	b, err := y.block(text, key[0])
	if err != nil {
		return "", 0, err
	}
	if b == nil {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += eol
		}
		return text + key[0] + ":" + eol + y.lines("  ", eol, name, fields), 1, nil
	}
	if b.none {
		rest := text[b.key+len(key[0])+1 : b.keyEnd]
		if at := strings.IndexAny(rest, "{[~n"); at >= 0 && (strings.IndexByte(rest, '#') < 0 || at < strings.IndexByte(rest, '#')) {
			rest = strings.TrimLeft(regexp.MustCompile(`^\s*(\{\s*\}|\[\s*\]|null|~)[ \t]*`).ReplaceAllString(rest, " "), " ")
			if strings.TrimSpace(rest) != "" {
				rest = " " + rest
			}
		}
		if !strings.HasSuffix(rest, "\n") {
			rest += eol
		}
		return text[:b.key] + key[0] + ":" + rest + y.lines("  ", eol, name, fields) + text[b.keyEnd:], 0, nil
	}
	head := text[:b.end]
	if !strings.HasSuffix(head, "\n") {
		head += eol
	}
	return head + y.lines(b.indent, eol, name, fields) + text[b.end:], 0, nil
}

// lines writes an entry.
func (y yaml) lines(indent, eol, name string, fields []field) string {
	var b strings.Builder
	if y.list {
		b.WriteString(indent + "- name: " + yamlValue(name) + eol)
	} else {
		b.WriteString(indent + yamlValue(name) + ":" + eol)
	}
	for _, f := range fields {
		b.WriteString(indent + "  " + yamlValue(f.key) + ": " + yamlValue(f.value) + eol)
	}
	return b.String()
}

var plainScalar = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*$`)

// yamlValue writes a text plainly if nothing in it could mean something else.
func yamlValue(v any) string {
	text, ok := v.(string)
	if ok && plainScalar.MatchString(text) && !reservedScalar[strings.ToLower(text)] {
		return text
	}
	return jsonValue(v)
}

var reservedScalar = map[string]bool{"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "null": true, "y": true, "n": true}

func (y yaml) span(text string, key []string, name string) (int, int, error) {
	b, err := y.block(text, key[0])
	if err != nil || b == nil || b.none {
		return 0, 0, errTwisted
	}
	start := -1
	for at := b.start; at < b.end; at = lineAfter(text, at) {
		body := strings.TrimSpace(text[at:lineAfter(text, at)])
		if indentOf(text, at) != b.indent || body == "" {
			continue
		}
		if start >= 0 {
			return start, at, nil
		}
		if y.starts(text, at, b, name) {
			start = at
		}
	}
	if start < 0 {
		return 0, 0, errTwisted
	}
	return start, b.end, nil
}

// starts reports whether the entry that begins at a line has a name.
func (y yaml) starts(text string, at int, b *block, name string) bool {
	if !y.list {
		line := strings.TrimSpace(text[at:lineAfter(text, at)])
		key, _, _ := strings.Cut(line, ":")
		return strings.Trim(key, `"'`) == name
	}
	end := lineAfter(text, at)
	for end < b.end && (len(indentOf(text, end)) > len(b.indent) || strings.TrimSpace(text[end:lineAfter(text, end)]) == "") {
		end = lineAfter(text, end)
	}
	var items []map[string]any
	if err := yamllib.Unmarshal([]byte(text[at:end]), &items); err != nil || len(items) != 1 {
		return false
	}
	return items[0]["name"] == name
}

func (y yaml) remove(text string, key []string, name string, made int) (string, error) {
	start, end, err := y.span(text, key, name)
	if err != nil {
		return "", err
	}
	edited := text[:start] + text[end:]
	b, err := y.block(edited, key[0])
	if err != nil || b == nil || !b.none {
		return edited, err
	}
	if made > 0 {
		return edited[:b.key] + edited[b.keyEnd:], nil
	}
	// A key without a value would be null, where the agent wants servers.
	none := " {}"
	if y.list {
		none = " []"
	}
	at := b.key + len(key[0]) + 1
	if strings.TrimSpace(strings.SplitN(edited[at:b.keyEnd], "#", 2)[0]) != "" {
		return edited, nil
	}
	return edited[:at] + none + edited[at:], nil
}
