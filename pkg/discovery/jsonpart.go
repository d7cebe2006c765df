package discovery

import (
	"encoding/json"
	"errors"
)

// The functions of this file take JSON apart without copying it. They trust it
// to be valid.

var errNoObject = errors.New("it is not a JSON object")

// objectOf splits a JSON object into its members, as written. Of those with one
// key the last counts.
func objectOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if (&jsonText{src: raw}).peek() != '{' {
		return nil, errNoObject
	}
	fields := make(map[string]json.RawMessage, 4)
	eachMember(raw, func(key string, value json.RawMessage) { fields[key] = value })
	return fields, nil
}

// eachMember calls f with the members of an object, up to where the text ends or
// stops making sense. The last one may be cut.
func eachMember(raw json.RawMessage, f func(key string, value json.RawMessage)) {
	j := &jsonText{src: raw}
	if j.take('{') != nil {
		return
	}
	for first := true; ; first = false {
		if more, err := j.more('}', first); !more || err != nil {
			return
		}
		quoted, err := j.quoted()
		if err != nil || j.take(':') != nil {
			return
		}
		value, err := j.raw()
		if key, bad := unquoteJSON(quoted); bad == nil {
			f(key, value)
		}
		if err != nil {
			return
		}
	}
}

// raw passes over one value and returns it as written. When that is cut, it
// returns the rest.
func (j *jsonText) raw() (json.RawMessage, error) {
	j.peek()
	start := j.at
	err := j.skip()
	if err != nil {
		j.at = len(j.src)
	}
	return j.src[start:j.at:j.at], err
}

// textOf returns a JSON string's text, and nothing for any other value.
func textOf(raw json.RawMessage) string {
	j := &jsonText{src: raw}
	quoted, err := j.quoted()
	if err != nil {
		return ""
	}
	text, _ := unquoteJSON(quoted) // nothing when it is no string after all
	return text
}

// listOf returns the items of a JSON list, as written, and nothing for any other
// value.
func listOf(raw json.RawMessage) []json.RawMessage {
	j := &jsonText{src: raw}
	if j.take('[') != nil {
		return nil
	}
	var list []json.RawMessage
	for first := true; ; first = false {
		if more, err := j.more(']', first); !more || err != nil {
			return list
		}
		item, err := j.raw()
		if err != nil {
			return nil
		}
		list = append(list, item)
	}
}
