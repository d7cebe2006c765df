package discovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
)

// maxJSONDepth bounds the nesting of a value that is decoded.
const maxJSONDepth = 1000

var (
	errJSON     = errors.New("it is no JSON")
	errJSONDeep = errors.New("it is nested too deep")
	errJSONEnd  = errors.New("the text ends too early")
)

// A jsonText is JSON that is read from the start. It is for texts that mostly
// are valid and may be large: long strings are passed over at the speed of
// memory, and nothing is decoded before somebody asks for it. Errors are found
// where they matter to the reader, which is not everywhere.
type jsonText struct {
	src []byte
	at  int
}

// peek passes over white space and returns the byte after it, or 0 at the end.
func (j *jsonText) peek() byte {
	for ; j.at < len(j.src); j.at++ {
		switch c := j.src[j.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// end returns an error when there is nothing more.
func (j *jsonText) end() error {
	if j.at >= len(j.src) {
		return errJSONEnd
	}
	return nil
}

// take passes over a byte that must come next.
func (j *jsonText) take(c byte) error {
	if j.peek() != c {
		return cmp.Or(j.end(), errJSON)
	}
	j.at++
	return nil
}

// more reports whether there is another item before the closing bracket, which
// it passes over when there is none. first is true before the first item.
func (j *jsonText) more(closing byte, first bool) (bool, error) {
	switch c := j.peek(); {
	case c == closing:
		j.at++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		j.at++
		return true, nil
	}
	return false, cmp.Or(j.end(), errJSON)
}

// quoted returns the string that starts here, in its quotes and as written.
func (j *jsonText) quoted() ([]byte, error) {
	if j.peek() != '"' {
		return nil, cmp.Or(j.end(), errJSON)
	}
	start := j.at
	for i := start + 1; ; {
		n := bytes.IndexByte(j.src[i:], '"')
		if n < 0 {
			return nil, errJSONEnd
		}
		i += n + 1
		if escapes := i - 2; j.src[escapes] != '\\' || !oddBackslashes(j.src[start+1:escapes+1]) {
			j.at = i
			return j.src[start:i], nil
		}
	}
}

// oddBackslashes reports whether the last byte escapes what follows.
func oddBackslashes(text []byte) bool {
	n := len(text) - len(bytes.TrimRight(text, `\`))
	return n%2 == 1
}

// bare returns the number or word that starts here.
func (j *jsonText) bare() []byte {
	start := j.at
	for j.at < len(j.src) && !isDelimiter(j.src[j.at]) {
		j.at++
	}
	return j.src[start:j.at]
}

// skip passes over one value. Only brackets and strings matter to it.
func (j *jsonText) skip() error {
	open := 0
	for {
		switch j.peek() {
		case 0:
			return errJSONEnd
		case '"':
			if _, err := j.quoted(); err != nil {
				return err
			}
		case '{', '[':
			open++
			j.at++
		case '}', ']':
			open--
			j.at++
		case ',', ':':
			j.at++
		default:
			if len(j.bare()) == 0 {
				return errJSON
			}
		}
		if open <= 0 {
			return nil
		}
	}
}

// unquoteJSON decodes a string.
func unquoteJSON(quoted []byte) (text string, err error) {
	inner := quoted[1 : len(quoted)-1]
	plain := true
	for _, c := range inner {
		if c == '\\' || c < ' ' || c >= 0x80 {
			plain = false
			break
		}
	}
	if plain {
		return string(inner), nil
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
}

// decodeExact decodes one JSON value, with numbers as they are written.
func decodeExact(raw json.RawMessage) (any, error) {
	j := &jsonText{src: raw}
	v, err := j.value(0)
	if j.peek(); err == nil && j.at < len(raw) {
		err = errJSON
	}
	return v, err
}

func (j *jsonText) value(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, errJSONDeep
	}
	switch c := j.peek(); c {
	case 0:
		return nil, errJSONEnd
	case '"':
		text, err := j.quoted()
		if err != nil {
			return nil, err
		}
		return unquoteJSON(text)
	case '{':
		return j.object(depth)
	case '[':
		return j.array(depth)
	}
	return scalar(j.bare())
}

func scalar(word []byte) (any, error) {
	switch string(word) {
	case "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	if len(word) == 0 || word[0] != '-' && (word[0] < '0' || word[0] > '9') || !json.Valid(word) {
		return nil, errJSON
	}
	return json.Number(word), nil
}

func (j *jsonText) object(depth int) (any, error) {
	j.at++
	fields := map[string]any{}
	for first := true; ; first = false {
		more, err := j.more('}', first)
		if !more || err != nil {
			return fields, err
		}
		quoted, err := j.quoted()
		if err != nil {
			return nil, err
		}
		key, err := unquoteJSON(quoted)
		if err != nil {
			return nil, err
		}
		if err := j.take(':'); err != nil {
			return nil, err
		}
		if fields[key], err = j.value(depth + 1); err != nil {
			return nil, err
		}
	}
}

func (j *jsonText) array(depth int) (any, error) {
	j.at++
	items := []any{}
	for first := true; ; first = false {
		more, err := j.more(']', first)
		if !more || err != nil {
			return items, err
		}
		item, err := j.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
}
