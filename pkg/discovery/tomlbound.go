package discovery

import (
	"bytes"
	"fmt"
)

// maxTOMLKeys bounds the keys of a document, and the headers of tables. The
// decoder's time grows with their square.
const maxTOMLKeys = 3000

// boundTOML refuses texts that are small but would keep the decoder busy for
// long: deep ones, very many keys and very many values. It counts what looks
// like structure, also in texts.
func boundTOML(src []byte) error {
	if err := nestingOf(src); err != nil {
		return err
	}
	keys, headers, values, line := 0, 0, 0, 0
	for text := range bytes.Lines(src) {
		line++
		text = bytes.TrimLeft(text, " \t")
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		if text[0] == '[' {
			headers++
		}
		keys += assignments(text)
		values += bytes.Count(text, []byte{','})
		if keys > maxTOMLKeys || headers > maxTOMLKeys {
			return &lineError{line, fmt.Sprintf("more than %d keys or tables", maxTOMLKeys)}
		}
		if values > maxNodes {
			return &lineError{line, fmt.Sprintf("more than %d values", maxNodes)}
		}
	}
	return nil
}

// assignments counts the runs of = on a line.
func assignments(text []byte) int {
	n := 0
	for i, c := range text {
		if c == '=' && (i == 0 || text[i-1] != '=') {
			n++
		}
	}
	return n
}
