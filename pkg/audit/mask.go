package audit

import (
	"encoding/json"
	"strings"
)

// hidden stands where a secret was.
const hidden = "[hidden]"

// secretParts are what a name has in it whose value is likely to be a secret,
// written without case, hyphens and underscores.
var secretParts = strings.Fields(`password passwd passphrase secret token apikey accesskey privatekey
	authorization credential cookie sessionid clientkey signingkey connectionstring`)

// secretNames are names that are likely to be one as a whole.
var secretNames = strings.Fields("auth pwd pass pin otp pat jwt bearer")

var squeeze = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// looksSecret reports whether a parameter's name says that its value is a
// secret. Numbers of tokens are none.
func looksSecret(name string, value any) bool {
	name = squeeze.Replace(strings.ToLower(name))
	if _, number := value.(json.Number); number && strings.Contains(name, "token") {
		return false
	}
	for _, part := range secretParts {
		if strings.Contains(name, part) {
			return true
		}
	}
	for _, whole := range secretNames {
		if name == whole {
			return true
		}
	}
	return false
}

// A hider takes secrets out of a JSON value.
type hider struct {
	mask   *strings.Replacer // may be nil
	byName bool
}

// value returns v without secrets. v may be changed.
func (h hider) value(v any) any {
	switch v := v.(type) {
	case string:
		return h.text(v)
	case []any:
		for i := range v {
			v[i] = h.value(v[i])
		}
		return v
	case map[string]any:
		return h.object(v)
	}
	return v
}

func (h hider) object(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for name, value := range m {
		if h.byName && looksSecret(name, value) {
			value = hidden
		} else {
			value = h.value(value)
		}
		out[h.text(name)] = value
	}
	return out
}

func (h hider) text(s string) string {
	if h.mask == nil {
		return s
	}
	return h.mask.Replace(s)
}
