package register

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonc is JSON, with comments and trailing commas where a file has them.
type jsonc struct{}

func (jsonc) listed() bool { return false }

var hujsonLine = regexp.MustCompile(`line (\d+), column \d+: (.*)`)

func (jsonc) decode(text string) (map[string]any, error) {
	if strings.TrimSpace(text) == "" {
		return map[string]any{}, nil
	}
	plain, err := hujson.Standardize(closed(text))
	if err != nil {
		if m := hujsonLine.FindStringSubmatch(err.Error()); m != nil {
			return nil, &lineError{m[1], m[2]}
		}
		return nil, &lineError{"1", err.Error()}
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil || tree == nil {
		return nil, &lineError{"1", "the document is not an object"}
	}
	return tree, nil
}

// closed ends a comment in the last line, which hujson wants.
func closed(text string) []byte {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text)
}

func (jsonc) quoted(text string) []string { return []string{jsonString(text)} }

// jsonString writes a text without the escapes that only HTML needs.
func jsonString(text string) string { return jsonScalar(text) }

func jsonScalar(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // what was decoded encodes; the check of the edit would tell
	return strings.TrimSuffix(b.String(), "\n")
}

func jsonValue(v any) string {
	switch v := v.(type) {
	case string:
		return jsonString(v)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = jsonValue(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		return table(v, ": ")
	}
	return jsonScalar(v)
}

// table writes a map on one line.
func table(m map[string]any, equals string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v := jsonValue(m[k])
		if inner, ok := m[k].(map[string]any); ok {
			v = table(inner, equals)
		}
		parts = append(parts, jsonString(k)+equals+v)
	}
	if len(parts) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// A layout is how a JSON text is laid out.
type layout struct {
	unit, eol string
}

var firstIndent = regexp.MustCompile(`\n([ \t]+)["/]`)

func layoutOf(text string) layout {
	l := layout{"  ", lineEnd(text)}
	if m := firstIndent.FindStringSubmatch(text); m != nil {
		l.unit = m[1]
	}
	return l
}

// object writes the members of an object, on lines of their own or, when inline,
// on one. A member is written by a function that gets its indentation.
func (l layout) object(indent string, inline bool, members ...func(indent string) string) string {
	inner := indent + l.unit
	parts := make([]string, len(members))
	for i, m := range members {
		parts[i] = m(inner)
	}
	if inline {
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "{" + l.eol + inner + strings.Join(parts, ","+l.eol+inner) + l.eol + indent + "}"
}

// entry writes keys, the last of them with an entry as its value.
func (l layout) entry(keys []string, fields []field, indent string, inline bool) string {
	var members []func(string) string
	if len(keys) > 1 {
		members = append(members, func(in string) string { return l.entry(keys[1:], fields, in, inline) })
	} else {
		for _, f := range fields {
			members = append(members, func(string) string { return jsonString(f.key) + ": " + jsonValue(f.value) })
		}
	}
	return jsonString(keys[0]) + ": " + l.object(indent, inline, members...)
}

func (jsonc) add(text string, key []string, name string, fields []field) (string, int, error) {
	l, keys := layoutOf(text), append(slices.Clone(key), name)
	if strings.TrimSpace(text) == "" {
		whole := func(in string) string { return l.entry(keys, fields, in, false) }
		return l.object("", false, whole) + l.eol, len(key), nil
	}
	way, err := jsonWay(text, key)
	if err != nil {
		return "", 0, err
	}
	last, made := way[len(way)-1], len(key)+1-len(way)
	if last.null {
		at := indentOf(text, last.v.StartOffset)
		rest := func(in string) string { return l.entry(keys[len(way)-1:], fields, in, false) }
		return text[:last.v.StartOffset] + l.object(at, false, rest) + text[last.v.EndOffset:], made, nil
	}
	return l.insert(text, last, func(indent string, inline bool) string {
		return l.entry(keys[len(way)-1:], fields, indent, inline)
	}), made, nil
}

// A step is an object on the way to the servers, or a null in its place.
type step struct {
	v    hujson.Value
	obj  *hujson.Object
	at   int // of the member in the object before
	null bool
}

// jsonWay returns the objects on the way to the servers, from the root on, as
// far as they are there. Of equal keys the last counts.
func jsonWay(text string, key []string) ([]step, error) {
	root, err := hujson.Parse(closed(text))
	if err != nil {
		return nil, err
	}
	obj, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errTwisted
	}
	way := []step{{v: root, obj: obj}}
	for _, k := range key {
		members := way[len(way)-1].obj.Members
		at := jsonMember(members, k)
		if at < 0 {
			return way, nil
		}
		next := step{v: members[at].Value, at: at}
		if next.obj, ok = next.v.Value.(*hujson.Object); !ok {
			next.null = next.v.Value.Kind() == 'n'
			if !next.null {
				return nil, errTwisted
			}
			return append(way, next), nil
		}
		way = append(way, next)
	}
	return way, nil
}

func jsonMember(members []hujson.ObjectMember, key string) int {
	for i, m := range slices.Backward(members) {
		if name, ok := m.Name.Value.(hujson.Literal); ok && name.String() == key {
			return i
		}
	}
	return -1
}

// insert puts a member behind the last one of an object, and behind the comments
// that follow it.
func (l layout) insert(text string, s step, member func(indent string, inline bool) string) string {
	brace := s.v.EndOffset - 1
	comments := strings.TrimRight(string(s.obj.AfterExtra), " \t\r\n")
	at := brace - len(s.obj.AfterExtra) + len(comments)
	outer := indentOf(text, brace)
	if len(s.obj.Members) == 0 {
		inline := comments == "" && strings.TrimSpace(text) != "{}" && !strings.Contains(text, "\n")
		if inline {
			return text[:at] + member("", true) + text[brace:]
		}
		end := text[at:brace]
		if !strings.Contains(end, "\n") {
			outer = indentOf(text, s.v.StartOffset)
			end = l.eol + outer
		}
		indent := outer + l.unit
		return text[:at] + l.eol + indent + member(indent, false) + end + text[brace:]
	}
	last := s.obj.Members[len(s.obj.Members)-1]
	comma, trailing := ",", ""
	if last.Value.AfterExtra != nil {
		comma, trailing = "", ","
	}
	before := string(last.Name.BeforeExtra)
	if !strings.Contains(before, "\n") && !strings.Contains(string(s.obj.AfterExtra), "\n") {
		return text[:last.Value.EndOffset] + comma + text[last.Value.EndOffset:at] + " " + member("", true) + trailing + text[at:]
	}
	indent := outer + l.unit
	if strings.Contains(before, "\n") {
		indent = before[strings.LastIndexAny(before, "\n/")+1:]
	}
	if strings.TrimLeft(indent, " \t") != "" {
		indent = outer + l.unit
	}
	return text[:last.Value.EndOffset] + comma + text[last.Value.EndOffset:at] + l.eol + indent + member(indent, false) + trailing + text[at:]
}

func (jsonc) span(text string, key []string, name string) (int, int, error) {
	way, err := jsonWay(text, append(slices.Clone(key), name))
	if err != nil || len(way) != len(key)+2 {
		return 0, 0, errTwisted
	}
	v := way[len(way)-1].v
	return v.StartOffset, v.EndOffset, nil
}

func (jsonc) remove(text string, key []string, name string, made int) (string, error) {
	way, err := jsonWay(text, append(slices.Clone(key), name))
	if err != nil || len(way) != len(key)+2 {
		return "", errTwisted
	}
	at := len(way) - 1
	for at > 1 && made > 0 && len(way[at-1].obj.Members) == 1 && blank(way[at-1].obj.AfterExtra) {
		at, made = at-1, made-1
	}
	return cutMember(text, way[at-1], way[at].at), nil
}

func blank(extra hujson.Extra) bool { return strings.TrimSpace(string(extra)) == "" }

// cutMember takes a member out with its comma, and the comma before it if there
// is none behind. Comments stay.
func cutMember(text string, s step, i int) string {
	members := s.obj.Members
	m := members[i]
	gap := string(m.Name.BeforeExtra)
	start := m.Name.StartOffset - (len(gap) - len(strings.TrimRight(gap, " \t\r\n")))
	end := m.Value.EndOffset
	isLast := i == len(members)-1
	if !isLast || m.Value.AfterExtra != nil {
		end += len(m.Value.AfterExtra) + 1
	}
	if len(members) == 1 && blank(m.Name.BeforeExtra) && blank(s.obj.AfterExtra) {
		end = s.v.EndOffset - 1
	}
	if !isLast || i == 0 || m.Value.AfterExtra != nil {
		return text[:start] + text[end:]
	}
	comma := members[i-1].Value.EndOffset + len(members[i-1].Value.AfterExtra)
	return text[:comma] + text[comma+1:start] + text[end:]
}
