package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxDepth bounds how deep arguments may be nested where a rule looks at them.
const maxDepth = 200

// parseArgs reads arguments the one way in which nobody reads them otherwise: a
// name that stands twice in an object is an error, since servers differ in
// which of the two counts. Whole numbers are int64 or uint64 where they fit,
// and all others float64.
func parseArgs(raw json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := parseValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows them")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("they are no JSON object")
	}
	return object, nil
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("they are no JSON: %w", err)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("they are nested more than %d deep", maxDepth)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return parseList(d, depth)
		}
		return parseObject(d, depth)
	case json.Number:
		return number(t), nil
	}
	return token, nil
}

func parseList(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		v, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

func parseObject(d *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("they are no JSON: %w", err)
		}
		name, _ := token.(string) // the decoder lets nothing else stand here
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("the name %q stands twice in one object", clip(name, 60))
		}
		if object[name], err = parseValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

func number(n json.Number) any {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u
	}
	f, _ := n.Float64() // past its range it is infinite, which compares as it should
	return f
}
