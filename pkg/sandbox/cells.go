package sandbox

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// maxCell bounds the marks that may stand on one character, in bytes.
const maxCell = 32

// A cell is one column of a row. A wide character has its text in the first
// of its cells, and none in the rest.
type cell string

// edit takes the cursor's row apart, if it is not yet.
func (s *screen) edit() {
	if s.cells == nil {
		s.cells = []cell{}
		for i, text := 0, s.rows[s.at].text; i < len(text); {
			_, n := utf8.DecodeRuneInString(text[i:])
			s.put(len(s.cells), text[i:i+n])
			i += n
		}
	}
	if s.col == end {
		s.col = len(s.cells)
	}
}

// column returns the cursor's column.
func (s *screen) column() int {
	if s.col == end {
		s.edit()
	}
	return s.col
}

// overwrite writes text at the cursor, as much as fits into its row, and
// returns how much that was.
func (s *screen) overwrite(text string) int {
	s.edit()
	for i := 0; i < len(text); {
		_, n := utf8.DecodeRuneInString(text[i:])
		if s.col >= maxRow {
			return i
		}
		s.col = s.put(s.col, text[i:i+n])
		i += n
	}
	return len(text)
}

// put writes a character at a column, over what is there, and returns the
// column behind it.
func (s *screen) put(col int, char string) int {
	width := s.width(col, char)
	if width == 0 && s.mark(col, char) {
		return col
	}
	width = max(width, 1)
	for len(s.cells) < col {
		s.cells = append(s.cells, " ")
	}
	if col < len(s.cells) {
		s.rows[s.at].changed, s.rows[s.at].redrawn = true, true
		s.split(col)
		s.split(col + width)
	}
	for i := range width {
		c := cell("")
		if i == 0 {
			c = cell(char)
		}
		if col+i < len(s.cells) {
			s.cells[col+i] = c
			continue
		}
		s.cells = append(s.cells, c)
	}
	return col + width
}

// width returns how many columns a character takes.
func (s *screen) width(col int, char string) int {
	switch {
	case char == "\t":
		return 8 - col%8
	case len(char) == 1:
		return 1
	}
	return ansi.StringWidthWc(char)
}

// mark puts a mark, such as an accent, on the character before a column.
func (s *screen) mark(col int, char string) bool {
	at := min(col, len(s.cells)) - 1
	for at > 0 && s.cells[at] == "" {
		at--
	}
	if at < 0 || col > len(s.cells) || len(s.cells[at])+len(char) > maxCell {
		return false
	}
	if col < len(s.cells) {
		s.rows[s.at].changed = true
	}
	s.cells[at] += cell(char)
	return true
}

// split makes blanks of a wide character that goes over a column's left edge.
func (s *screen) split(col int) {
	if col >= len(s.cells) || s.cells[col] != "" {
		return
	}
	from := col
	for s.cells[from] == "" {
		from--
	}
	for i := from; i < len(s.cells) && (i == from || s.cells[i] == ""); i++ {
		s.cells[i] = " "
	}
}

// eraseLine wipes the cursor's row: 0 from the cursor on, 1 up to and with it,
// 2 all.
func (s *screen) eraseLine(part int) {
	if part <= 0 && s.col == end {
		return
	}
	s.edit()
	from, to := 0, len(s.cells)
	switch {
	case part <= 0:
		from = min(s.col, len(s.cells))
	case part == 1:
		to = min(s.col+1, len(s.cells))
	case part > 2:
		return
	}
	if from == to {
		return
	}
	s.rows[s.at].changed, s.rows[s.at].redrawn = true, true
	s.split(from)
	s.split(to)
	for i := from; i < to; i++ {
		s.cells[i] = " "
	}
	if to == len(s.cells) {
		s.cells = slices.Delete(s.cells, from, to)
	}
}

// join puts a row together, without the blanks that wiping leaves at its end.
func join(cells []cell, redrawn bool) string {
	var b strings.Builder
	for _, c := range cells {
		b.WriteString(string(c))
	}
	if redrawn {
		return strings.TrimRight(b.String(), " ")
	}
	return b.String()
}
