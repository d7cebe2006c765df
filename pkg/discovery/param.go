package discovery

import (
	"encoding/json"
	"strings"
)

const (
	// maxDefault and maxEnum bound the JSON of a default and of an enumeration
	// that docs repeat; maxEnumValues bounds its values.
	maxDefault    = 1 << 10
	maxEnum       = 4 << 10
	maxEnumValues = 200

	// maxLimitText bounds the value of a keyword that a description repeats.
	maxLimitText = 60
)

// A Param is one argument of a tool.
type Param struct {
	Name        string // as it goes over the wire
	Alias       string // as Python writes it; unique among the tool's
	Type        string // in Python's words, such as list[str]
	Description string
	Required    bool
	Default     string            // as Python writes it; empty means none is known
	Value       json.RawMessage   // the default as JSON; nil means none is known
	Enum        []json.RawMessage // the values that may be passed; nil means any of the type
}

// describe takes in what a parameter's schema says beside its type: as it is
// written, and with its reference followed.
func (p *Param) describe(written, followed object) {
	pick := func(key string) json.RawMessage {
		if raw, ok := written[key]; ok {
			return raw
		}
		return followed[key]
	}
	p.Description = textOf(pick("description"))
	if raw := pick("default"); len(raw) <= maxDefault {
		p.Default, p.Value = pythonLiteral(raw), raw
	}
	if raw := pick("enum"); len(raw) <= maxEnum {
		if list := listOf(raw); len(list) <= maxEnumValues {
			p.Enum = list
		}
	}
	if limits := limitsOf(followed); limits != "" {
		p.Description = strings.TrimSpace(p.Description + " (" + limits + ")")
	}
}

// limitKeys are the keywords that a description repeats, as people say them.
var limitKeys = []struct {
	key, words string
	text       bool // its value is a text, or else a number
}{
	{"format", "format ", true}, {"pattern", "matches ", true},
	{"minimum", "at least ", false}, {"exclusiveMinimum", "more than ", false},
	{"maximum", "at most ", false}, {"exclusiveMaximum", "less than ", false}, {"multipleOf", "a multiple of ", false},
	{"minLength", "min length ", false}, {"maxLength", "max length ", false},
	{"minItems", "min items ", false}, {"maxItems", "max items ", false},
}

// limitsOf says in a few words which values of its type a schema allows.
func limitsOf(fields object) string {
	var out []string
	for _, k := range limitKeys {
		raw := fields[k.key]
		if len(raw) == 0 || len(raw) > maxLimitText {
			continue
		}
		text := string(raw)
		if k.text {
			text = textOf(raw)
		}
		if text != "" && (k.text || isCountable(raw)) && !strings.ContainsAny(text, "\r\n") {
			out = append(out, k.words+text)
		}
	}
	return strings.Join(out, ", ")
}

// isCountable reports whether raw is a number that limits anything: some
// libraries write the largest whole number of JavaScript for none.
func isCountable(raw json.RawMessage) bool {
	return (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') && !strings.HasSuffix(string(raw), "9007199254740991")
}
