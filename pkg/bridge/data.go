package bridge

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxLevels is how many lists and objects may be inside each other in data that
// is passed on as such. Clients read it with parsers that may recurse.
const maxLevels = 64

// printedData returns the JSON that a text is, if that is one object or list;
// else nil.
func printedData(text string) json.RawMessage {
	raw := bytes.TrimSpace([]byte(text))
	if c := firstByte(raw); c != '{' && c != '[' || !legible(raw) {
		return nil
	}
	return raw
}

// legible reports whether raw is JSON that a client can take as data: not nested
// too deep, with no half of a character, and no string with a control character
// that text for agents would not have.
func legible(raw []byte) bool {
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return false
	}
	if _, lone := loneSurrogate(raw); lone {
		return false
	}
	level, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
			if !printableEscape(raw[i-1:]) {
				return false
			}
		case quoted && (c == 0x7f || c == 0xc2 && raw[i+1] < 0xa0):
			return false
		case !quoted && (c == '[' || c == '{'):
			level++
		case !quoted && (c == ']' || c == '}'):
			level--
		}
		if level > maxLevels {
			return false
		}
	}
	return true
}

// printableEscape reports whether what raw begins with stands for more than a
// control character.
func printableEscape(raw []byte) bool {
	switch raw[1] {
	case 'b', 'f':
		return false
	case 'u':
		u, _ := unit(raw)
		return u >= 0xa0 || 0x20 <= u && u < 0x7f || u == '\n' || u == '\t' || u == '\r'
	}
	return true
}
