package toon

import "strings"

// A line is one that is not blank.
type line struct {
	number int // from 1
	depth  int
	text   string // after its indent
	blanks int    // blank lines above it, in all
}

// scan takes a text apart.
func (d *decoder) scan(text string) error {
	number, blanks := 0, 0
	for raw := range strings.SplitSeq(text, "\n") {
		number++
		rest := strings.TrimLeft(strings.TrimSuffix(raw, "\r"), " ")
		if trim(rest) == "" {
			blanks++
			continue
		}
		spaces := len(raw) - len(strings.TrimLeft(raw, " "))
		l := line{number: number, depth: spaces / d.indent, text: rest, blanks: blanks}
		switch {
		case d.lenient:
			l.text = strings.TrimLeft(rest, " \t")
		case rest[0] == '\t':
			return l.fault("a tab in the indent")
		case spaces%d.indent != 0:
			return l.fault("an indent of %d spaces, which is no multiple of %d", spaces, d.indent)
		}
		d.lines = append(d.lines, l)
	}
	return nil
}
