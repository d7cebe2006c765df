package register

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// A syntax edits the text of config files. Texts have no byte order mark.
type syntax interface {
	// decode returns the text's values. Blank text has none. The error says the line.
	decode(text string) (map[string]any, error)

	// add inserts an entry behind the others. made counts the keys of the path
	// that were not there.
	add(text string, key []string, name string, fields []field) (edited string, made int, err error)

	// remove takes an entry out, and of the path as many keys as made says,
	// from its end, once they are empty.
	remove(text string, key []string, name string, made int) (edited string, err error)

	// span tells where an entry's text is.
	span(text string, key []string, name string) (start, end int, err error)

	// quoted lists the ways in which a text may be written.
	quoted(text string) []string

	// listed reports whether the servers are a list of entries with names,
	// and not a map.
	listed() bool
}

// errTwisted is an entry that is written in a way that is not edited.
var errTwisted = errors.New("the servers are written in a way that cannot be edited safely; edit the file by hand")

// entries returns the servers of a decoded file by name.
func entries(s syntax, tree map[string]any, key []string) (map[string]any, error) {
	var at any = tree
	for i, k := range key {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is no table of settings", strings.Join(key[:i], "."))
		}
		if at = m[k]; at == nil {
			return nil, nil
		}
	}
	if m, ok := at.(map[string]any); ok && !s.listed() {
		return m, nil
	}
	list, ok := at.([]any)
	if !ok || !s.listed() {
		return nil, fmt.Errorf("%s does not hold servers in the form that the agent reads", strings.Join(key, "."))
	}
	return byName(list), nil
}

func byName(list []any) map[string]any {
	found := map[string]any{}
	for _, item := range list {
		m, _ := item.(map[string]any)
		if name, ok := m["name"].(string); ok {
			found[name] = item
		}
	}
	return found
}

// differOnly checks that an edit changed nothing but one entry: want is its new
// value, nil for none.
func differOnly(s syntax, key []string, before, after, name string, want any) error {
	old, err := s.decode(before)
	if err != nil {
		return err
	}
	edited, err := s.decode(after)
	if err != nil {
		return fmt.Errorf("%w (the edited text would not parse: %v)", errTwisted, err)
	}
	found, err := entries(s, edited, key)
	if err != nil {
		return fmt.Errorf("%w (%v)", errTwisted, err)
	}
	if !same(found[name], want) {
		return fmt.Errorf("%w (the entry would not be what it should)", errTwisted)
	}
	if a, b := without(old, key, name), without(edited, key, name); !same(a, b) && !reflect.DeepEqual(a, b) {
		return fmt.Errorf("%w (other settings would change)", errTwisted)
	}
	return nil
}

// without returns the tree without an entry, and without what is empty on the
// way to it. The tree is changed.
func without(tree map[string]any, key []string, name string) map[string]any {
	way := []map[string]any{tree}
	for _, k := range key[:len(key)-1] {
		m, ok := way[len(way)-1][k].(map[string]any)
		if !ok {
			break
		}
		way = append(way, m)
	}
	if last := way[len(way)-1]; len(way) == len(key) {
		cut(last, key[len(key)-1], name)
	}
	for i, m := range slices.Backward(way) {
		if v := m[key[i]]; empty(v) {
			delete(m, key[i])
		}
	}
	return tree
}

func cut(m map[string]any, key, name string) {
	switch v := m[key].(type) {
	case map[string]any:
		delete(v, name)
	case []any:
		m[key] = slices.DeleteFunc(v, func(item any) bool {
			e, _ := item.(map[string]any)
			return e["name"] == name
		})
	}
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// valueOf is an entry as decode returns it.
func valueOf(s syntax, name string, fields []field) map[string]any {
	m := map[string]any{}
	if s.listed() {
		m["name"] = name
	}
	for _, f := range fields {
		m[f.key] = f.value
	}
	return m
}

// commandOf returns what an entry starts.
func commandOf(entry any) string {
	m, _ := entry.(map[string]any)
	for _, k := range []string{"command", "cmd"} {
		switch v := m[k].(type) {
		case string:
			return v
		case []any:
			if len(v) > 0 {
				command, _ := v[0].(string)
				return command
			}
		case map[string]any: // an older way of Zed's
			command, _ := v["path"].(string)
			return command
		}
	}
	if inner, ok := m["transport"].(map[string]any); ok { // Cline's
		return commandOf(inner)
	}
	return ""
}

// isShim reports whether a command is a shim, wherever it lies.
func isShim(command string) bool {
	base := filepath.Base(strings.ReplaceAll(command, `\`, "/"))
	return strings.TrimSuffix(base, ".exe") == "bridge-shim"
}

// lineEnd returns how a text's lines end.
func lineEnd(text string) string {
	if at := strings.IndexByte(text, '\n'); at > 0 && text[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lineStart returns the offset of the first byte in an offset's line.
func lineStart(text string, at int) int { return strings.LastIndexByte(text[:at], '\n') + 1 }

// lineAfter returns the offset of the first byte behind an offset's line.
func lineAfter(text string, at int) int {
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// indentOf returns the blanks that an offset's line starts with.
func indentOf(text string, at int) string {
	line := text[lineStart(text, at):]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
