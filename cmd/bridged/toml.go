package main

import (
	"strconv"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/spf13/pflag"
)

// The types of TOML that a key may take, as bits.
const (
	tomlText = 1 << iota
	tomlWhole
	tomlFraction
)

// fromTOML sets v to what a key has in the configuration file, as it stands
// there, if that is of one of the kinds. The decoder adds file and line to the
// error. All keys go through it: the decoder's own way sets a number without
// asking what it means to v.
func fromTOML(raw []byte, v pflag.Value, kinds int) error {
	text, kind := scalar(raw)
	if kind&kinds == 0 {
		return unstable.NewParserError(raw, "%s is no %s", raw, v.Type())
	}
	if err := v.Set(text); err != nil {
		return unstable.NewParserError(raw, "%s", err)
	}
	return nil
}

// scalar returns a value's text and kind, 0 for what is neither text nor number.
func scalar(raw []byte) (text string, kind int) {
	switch x := parseTOML(raw).(type) {
	case string:
		return x, tomlText
	case int64:
		return strconv.FormatInt(x, 10), tomlWhole
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64), tomlFraction
	}
	return "", 0
}

// parseTOML returns a value of the configuration file, nil if it is none.
func parseTOML(raw []byte) any {
	var doc struct{ V any }
	if err := toml.Unmarshal(append([]byte("V = "), raw...), &doc); err != nil {
		return nil
	}
	return doc.V
}

// UnmarshalTOML takes text or a whole number of bytes.
func (b *byteSize) UnmarshalTOML(raw []byte) error { return fromTOML(raw, b, tomlText|tomlWhole) }

// UnmarshalTOML takes text or a number of seconds.
func (d *duration) UnmarshalTOML(raw []byte) error {
	return fromTOML(raw, d, tomlText|tomlWhole|tomlFraction)
}

// UnmarshalTOML takes text or a number of seconds.
func (p *patience) UnmarshalTOML(raw []byte) error {
	return fromTOML(raw, p, tomlText|tomlWhole|tomlFraction)
}

// UnmarshalTOML takes text or a number of seconds.
func (d *delay) UnmarshalTOML(raw []byte) error {
	return fromTOML(raw, d, tomlText|tomlWhole|tomlFraction)
}

// UnmarshalTOML takes true or false.
func (t *toggle) UnmarshalTOML(raw []byte) error {
	on, ok := parseTOML(raw).(bool)
	if !ok {
		return unstable.NewParserError(raw, "%s is neither true nor false", raw)
	}
	*t = toggle(on)
	return nil
}

// UnmarshalTOML takes text or a whole number of bytes.
func (s *share) UnmarshalTOML(raw []byte) error { return fromTOML(raw, s, tomlText|tomlWhole) }

// UnmarshalTOML takes a whole number.
func (c *count) UnmarshalTOML(raw []byte) error { return fromTOML(raw, c, tomlWhole) }

// UnmarshalTOML takes a number.
func (c *cores) UnmarshalTOML(raw []byte) error { return fromTOML(raw, c, tomlWhole|tomlFraction) }

// UnmarshalTOML takes text.
func (w *word) UnmarshalTOML(raw []byte) error { return fromTOML(raw, w, tomlText) }

// UnmarshalTOML takes an array of texts.
func (w *wordList) UnmarshalTOML(raw []byte) error {
	list, ok := parseTOML(raw).([]any)
	if !ok {
		return unstable.NewParserError(raw, "%s is no %s", raw, w.Type())
	}
	*w = wordList{}
	for _, v := range list {
		text, ok := v.(string)
		if !ok || text == "" {
			return unstable.NewParserError(raw, "%s: a list holds texts that are not empty", raw)
		}
		*w = append(*w, text)
	}
	return nil
}
