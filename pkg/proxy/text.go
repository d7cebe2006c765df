package proxy

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// repairText makes a line valid UTF-8: bytes of other code pages and escapes
// of half a character become U+FFFD. A line without faults is returned as it
// is.
func repairText(line []byte) []byte {
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if !bytes.Contains(line, []byte(`\ud`)) && !bytes.Contains(line, []byte(`\uD`)) {
		return line
	}
	return pairSurrogates(line)
}

// pairSurrogates replaces escapes such as \ud83d that have no other half.
func pairSurrogates(line []byte) []byte {
	for i := 0; i < len(line)-1; i++ {
		if line[i] != '\\' {
			continue
		}
		switch kind := surrogate(line[i:]); {
		case kind == 0:
			i++ // an escape of two bytes or of a whole character
		case kind == 'h' && surrogate(line[min(i+6, len(line)):]) == 'l':
			i += 11
		default:
			copy(line[i:], `\ufffd`)
			i += 5
		}
	}
	return line
}

// surrogate says whether text begins with the escape of a high ('h') or low
// ('l') half of a character; 0 means neither.
func surrogate(text []byte) byte {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' || text[2]|0x20 != 'd' {
		return 0
	}
	switch c := text[3] | 0x20; {
	case text[3] == '8' || text[3] == '9' || c == 'a' || c == 'b':
		return 'h'
	case c >= 'c' && c <= 'f':
		return 'l'
	}
	return 0
}

// oneLine returns JSON text without the line ends that it may have between its
// tokens.
func oneLine(raw json.RawMessage) (json.RawMessage, error) {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw, nil
	}
	var b bytes.Buffer
	b.Grow(len(raw))
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// isObject reports whether valid JSON text is an object.
func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}
