package discovery

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// The functions of this file say in Python's words where a value is and what it
// is.

// holder returns the path of an object with a key, or nothing when it is not
// the one that was told: the library can mix up the paths of neighbours there.
func (x *explainer) holder(at []string, key string) []string {
	if fields, ok := x.at(at).(map[string]any); ok {
		if _, ok := fields[key]; ok {
			return at
		}
	}
	return nil
}

// at returns the part of the value that a path leads to.
func (x *explainer) at(path []string) any {
	v := x.value
	for _, step := range path {
		v = inside(v, step)
	}
	return v
}

func inside(v any, step string) any {
	switch in := v.(type) {
	case map[string]any:
		return in[step]
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(in) {
			return in[i]
		}
	}
	return nil
}

// path writes a path as Python does.
func (x *explainer) path(steps []string) string {
	var b strings.Builder
	v := x.value
	for _, step := range steps {
		if _, ok := v.([]any); ok {
			b.WriteString("[" + step + "]")
		} else {
			b.WriteString("[" + strconv.Quote(clip(step)) + "]")
		}
		v = inside(v, step)
	}
	return b.String()
}

// list joins what would be allowed.
func list(texts []string) string {
	var b strings.Builder
	for i, text := range texts {
		switch {
		case b.Len() > maxAllowed:
			fmt.Fprintf(&b, " or %d others", len(texts)-i)
			return b.String()
		case i > 0 && i == len(texts)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(clip(text))
	}
	return b.String()
}

// number writes an exact number the way people do.
func number(r *big.Rat) string {
	if r.IsInt() {
		return clip(r.Num().String())
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// literalOf writes a JSON value the way Python does, if it is a scalar.
func literalOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "something else"
	}
	if text := pythonLiteral(raw); text != "" {
		return text
	}
	return clip(string(raw))
}

// pythonNames are Python's names for JSON's types.
var pythonNames = map[string]string{
	"null": "None", "boolean": "bool", "integer": "int", "number": "float", "string": "str", "array": "list", "object": "dict",
}

func pythonTypeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case string:
		return "str"
	case []any:
		return "list"
	case map[string]any:
		return "dict"
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "float"
		}
	}
	return "int"
}
