package toon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how many objects and arrays may be inside each other.
const MaxDepth = 256

var errDeep = fmt.Errorf("it has more than %d levels", MaxDepth)

// A kind is what a value is.
type kind uint8

const (
	literal kind = iota // null, true or false
	number
	text
	array
	object
)

// A value is one of JSON's. An object has no key twice.
type value struct {
	kind   kind
	text   string // of a literal, a number in its one form, or a string
	items  []value
	record record
}

type member struct {
	key    string
	quoted bool // in TOON
	value  value
}

func (v value) primitive() bool { return v.kind < array }

// A record is the members of an object, in order.
type record struct {
	members []member
	index   map[string]int // nil while there are few
}

// few is up to how many members are looked through one by one.
const few = 12

// find returns the place of a key, -1 if there is none.
func (r *record) find(key string) int {
	if r.index != nil {
		if i, ok := r.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range r.members {
		if r.members[i].key == key {
			return i
		}
	}
	return -1
}

// add appends a member whose key is new.
func (r *record) add(m member) {
	r.members = append(r.members, m)
	if r.index != nil {
		r.index[m.key] = len(r.members) - 1
	} else if len(r.members) > few {
		r.index = make(map[string]int, 2*len(r.members))
		for i := range r.members {
			r.index[r.members[i].key] = i
		}
	}
}

// parseJSON reads one JSON value, which must be all of data.
func parseJSON(data []byte) (value, error) {
	switch {
	case !utf8.Valid(data):
		return value{}, errors.New("it is not UTF-8")
	case !json.Valid(data):
		return value{}, errors.New("it is not JSON")
	case loneSurrogate(data):
		return value{}, errors.New("a string holds half a surrogate pair")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	r := jsonReader{d}
	v, err := r.next(0)
	if err != nil {
		return value{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return value{}, errors.New("there is more than one value")
	}
	return v, nil
}

// loneSurrogate reports whether valid JSON escapes half a character, which
// decoding would replace.
func loneSurrogate(data []byte) bool {
	high := false // the escape just before is the first half of a pair
	for i := 0; i < len(data); {
		var u uint64
		step := 1
		if data[i] == '\\' {
			step = 2
			if data[i+1] == 'u' {
				u, _ = strconv.ParseUint(string(data[i+2:i+6]), 16, 16)
				step = 6
			}
		}
		low := 0xDC00 <= u && u < 0xE000
		if high != low {
			return true
		}
		high = 0xD800 <= u && u < 0xDC00
		i += step
	}
	return high
}

// A jsonReader makes values of tokens.
type jsonReader struct{ d *json.Decoder }

// next reads a value that is inside of depth others.
func (r jsonReader) next(depth int) (value, error) {
	t, err := r.d.Token()
	if err != nil {
		return value{}, err
	}
	switch t := t.(type) {
	case nil:
		return value{kind: literal, text: "null"}, nil
	case bool:
		return value{kind: literal, text: strconv.FormatBool(t)}, nil
	case string:
		return value{kind: text, text: t}, nil
	case json.Number:
		s, ok := canonical(string(t))
		if !ok {
			return value{}, fmt.Errorf("the number %.40s is out of range", t)
		}
		return value{kind: number, text: s}, nil
	}
	if depth == MaxDepth {
		return value{}, errDeep
	}
	if t == json.Delim('[') {
		return r.array(depth + 1)
	}
	return r.object(depth + 1)
}

func (r jsonReader) array(depth int) (value, error) {
	v := value{kind: array}
	for r.d.More() {
		item, err := r.next(depth)
		if err != nil {
			return value{}, err
		}
		v.items = append(v.items, item)
	}
	_, err := r.d.Token()
	return v, err
}

func (r jsonReader) object(depth int) (value, error) {
	var o record
	for r.d.More() {
		t, err := r.d.Token()
		if err != nil {
			return value{}, err
		}
		key, _ := t.(string)
		if o.find(key) >= 0 {
			return value{}, fmt.Errorf("an object has the key %.40q twice", key)
		}
		v, err := r.next(depth)
		if err != nil {
			return value{}, err
		}
		o.add(member{key: key, value: v})
	}
	_, err := r.d.Token()
	return value{kind: object, record: o}, err
}

// A jsonWriter writes values as compact JSON, up to limit bytes.
type jsonWriter struct {
	buf   bytes.Buffer
	enc   *json.Encoder
	limit int
}

var errLarge = errors.New("the JSON is larger than allowed")

// marshal returns v as JSON of at most limit bytes.
func marshal(v value, limit int) ([]byte, error) {
	w := &jsonWriter{limit: limit}
	w.enc = json.NewEncoder(&w.buf)
	w.enc.SetEscapeHTML(false)
	if err := w.value(v); err != nil {
		return nil, err
	}
	return w.buf.Bytes(), nil
}

func (w *jsonWriter) value(v value) error {
	if w.buf.Len() > w.limit {
		return errLarge
	}
	switch v.kind {
	case text:
		return w.string(v.text)
	case array:
		return w.array(v.items)
	case object:
		return w.object(v.record.members)
	}
	w.buf.WriteString(v.text)
	return nil
}

func (w *jsonWriter) string(s string) error {
	if err := w.enc.Encode(s); err != nil {
		return err
	}
	w.buf.Truncate(w.buf.Len() - 1) // the newline
	return nil
}

func (w *jsonWriter) array(items []value) error {
	w.buf.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			w.buf.WriteByte(',')
		}
		if err := w.value(item); err != nil {
			return err
		}
	}
	w.buf.WriteByte(']')
	return nil
}

func (w *jsonWriter) object(members []member) error {
	w.buf.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			w.buf.WriteByte(',')
		}
		if err := w.string(m.key); err != nil {
			return err
		}
		w.buf.WriteByte(':')
		if err := w.value(m.value); err != nil {
			return err
		}
	}
	w.buf.WriteByte('}')
	return nil
}
