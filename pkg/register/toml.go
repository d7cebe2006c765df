package register

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	tomllib "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// toml is TOML, where each server is a table.
type toml struct{}

func (toml) listed() bool { return false }

func (toml) decode(text string) (map[string]any, error) {
	tree := map[string]any{}
	err := tomllib.Unmarshal([]byte(text), &tree)
	if d, ok := errors.AsType[*tomllib.DecodeError](err); ok {
		row, _ := d.Position()
		return nil, &lineError{strconv.Itoa(row), strings.TrimPrefix(d.Error(), "toml: ")}
	}
	if err != nil {
		return nil, &lineError{"1", err.Error()}
	}
	return tree, nil
}

func (toml) quoted(text string) []string { return []string{jsonString(text), "'" + text + "'"} }

// add appends a table: that is valid wherever the others are, unless they are in
// an inline table, which the check of the edit refuses.
func (toml) add(text string, key []string, name string, fields []field) (string, int, error) {
	eol := lineEnd(text)
	gap := ""
	if text != "" {
		gap = eol
		if !strings.HasSuffix(text, "\n") {
			gap += eol
		}
	}
	var b strings.Builder
	b.WriteString(text + gap + "[" + strings.Join(key, ".") + "." + tomlName(name) + "]" + eol)
	for _, f := range fields {
		b.WriteString(tomlName(f.key) + " = " + tomlValue(f.value) + eol)
	}
	return b.String(), 0, nil
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlName(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return jsonString(name)
}

func tomlValue(v any) string {
	if m, ok := v.(map[string]any); ok {
		return table(m, " = ")
	}
	return jsonValue(v)
}

// span covers the lines from the table's header to its last value, and those of
// its sub-tables if they follow.
func (toml) span(text string, key []string, name string) (int, int, error) {
	want := append(append([]string{}, key...), name)
	var p unstable.Parser
	p.Reset([]byte(text))
	start, end, inside := -1, -1, false
	for p.NextExpression() {
		e := p.Expression()
		names, first, last := tomlKey(e)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			inside = len(names) >= len(want) && strings.Join(names[:len(want)], "\x00") == strings.Join(want, "\x00")
			if inside && start >= 0 && strings.TrimSpace(text[end:lineStart(text, first)]) != "" {
				return 0, 0, errTwisted // in several places
			}
		case unstable.KeyValue:
			last = max(last, int(e.Raw.Offset+e.Raw.Length)-1)
		}
		if inside && len(names) > 0 {
			if start < 0 {
				start = lineStart(text, first)
			}
			end = lineAfter(text, last)
		}
	}
	if p.Error() != nil || start < 0 {
		return 0, 0, errTwisted
	}
	return start, end, nil
}

// tomlKey returns an expression's key, and the offsets of its first and last
// bytes.
func tomlKey(e *unstable.Node) (names []string, first, last int) {
	if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable && e.Kind != unstable.KeyValue {
		return nil, 0, 0
	}
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if names == nil {
			first = int(n.Raw.Offset)
		}
		last = int(n.Raw.Offset+n.Raw.Length) - 1
		names = append(names, string(n.Data))
	}
	return names, first, last
}

func (t toml) remove(text string, key []string, name string, _ int) (string, error) {
	start, end, err := t.span(text, key, name)
	if err != nil {
		return "", err
	}
	head, tail := text[:start], text[end:]
	eol := lineEnd(text)
	if cut, ok := strings.CutSuffix(head, eol+eol); ok && (tail == "" || strings.HasPrefix(tail, eol)) {
		head = cut + eol
	}
	return head + tail, nil
}
