package sandbox

import "strings"

// Bounds on the part of a stream that can still change. A terminal has some
// fifty rows of a few hundred columns; nothing reaches what has scrolled off.
const (
	maxRows = 64
	maxRow  = 4 << 10  // columns, and bytes while a row is only appended to
	maxLive = 32 << 10 // bytes of all rows
)

// end is the column behind a row's last character.
const end = -1

// screens are those of stdout and of stderr. They are apart, unlike in a
// terminal, so that a bar on one does not wipe out what the other says.
type screens [2]*screen

// update takes a piece of output, and returns what it changes.
func (s *screens) update(o Output) Output {
	at := &s[o.Stream-Stdout]
	if *at == nil {
		*at = newScreen()
	}
	return (*at).update(o)
}

// A screen is the terminal of one stream. It turns what is written into the
// text that a reader has before him in the end: progress bars in their last
// state, without colours, with control characters escaped. Text that needs
// none of that is passed on as it is. How a stream is cut into pieces makes no
// difference.
type screen struct {
	decoder decoder
	rows    []row  // those that can still change; never empty
	at      int    // the cursor's row
	col     int    // the cursor's column, or end
	cells   []cell // the cursor's row taken apart; nil while it was only appended to
	live    int    // bytes of the rows' texts

	// What has happened since the last update.
	out  strings.Builder // text to show
	back int64           // bytes shown before that out replaces
	redo bool            // a row in out was shown before, so all behind it go there too
}

// A row is a line, or a part of a long one. The text of the cursor's row is
// out of date while it is taken apart.
type row struct {
	text    string
	wrapped bool // the next row goes on with the same line
	redrawn bool // something was written over; spaces at its end are what was wiped

	// What was shown of it, at the last update.
	shown   int  // bytes of its text
	ended   bool // and a newline
	changed bool // since then, other than by what was appended
}

func newScreen() *screen {
	s := &screen{}
	s.clear()
	s.decoder.to = s
	return s
}

// clear starts anew behind all that was shown.
func (s *screen) clear() {
	s.decoder.reset()
	s.rows, s.at, s.col, s.cells, s.live = []row{{}}, 0, end, nil, 0
}

// update takes a piece of the stream, and returns what it changes.
func (s *screen) update(o Output) Output {
	if o.Cut > 0 && !s.goesOn(o.Text) {
		s.clear() // the start of what follows is missing
	}
	if s.appending() && s.decoder.ground() && plain(o.Text) {
		s.follow(o.Text)
		o.Back = 0
		return o
	}
	s.decoder.write(o.Text)
	o.Text, o.Back = s.changes()
	return o
}

// goesOn reports whether text, before which something is missing, is another
// state of the bar in the cursor's row.
func (s *screen) goesOn(text string) bool {
	s.decoder.reset()
	return strings.HasPrefix(text, "\r") && s.rows[s.at].redrawn
}

// appending reports whether text would go behind all that is there.
func (s *screen) appending() bool {
	return s.at == len(s.rows)-1 && s.behind()
}

// behind reports whether the cursor is at the end of a row that was only
// appended to.
func (s *screen) behind() bool {
	return s.cells == nil && (s.col == end || (s.col == 0 && s.rows[s.at].text == ""))
}

// follow keeps up with plain text that is shown as it is.
func (s *screen) follow(text string) {
	from := len(text)
	for range maxRows + 1 {
		if from = strings.LastIndexByte(text[:from], '\n'); from < 0 {
			break
		}
	}
	if from >= 0 { // the rest fills the screen
		s.clear()
		text = text[from+1:]
	}
	s.decoder.write(text)
	s.changes()
}

// changes returns what is to be shown since the last time, and how many bytes
// shown before that replaces.
func (s *screen) changes() (text string, back int64) {
	for i := range s.rows {
		s.show(i)
	}
	text, back = s.out.String(), s.back
	s.out.Reset()
	s.back, s.redo = 0, false
	return text, back
}

// show adds to the changes what is new of a row.
func (s *screen) show(i int) {
	r := &s.rows[i]
	text := r.text
	if i == s.at && s.cells != nil {
		text = join(s.cells, r.redrawn)
	}
	ends := i < len(s.rows)-1 && !r.wrapped
	grown := len(text) > r.shown || ends && !r.ended
	shrunk := len(text) < r.shown || r.ended && (!ends || len(text) > r.shown)
	if !grown && !shrunk && !r.changed && !s.redo {
		return
	}
	if s.redo || shrunk || r.changed {
		s.back += r.weight()
		r.shown, r.ended = 0, false
	}
	s.redo = true
	s.out.WriteString(text[r.shown:])
	if ends && !r.ended {
		s.out.WriteByte('\n')
	}
	r.shown, r.ended, r.changed = len(text), ends, false
}

// weight returns the bytes that were shown of a row.
func (r row) weight() int64 {
	if r.ended {
		return int64(r.shown) + 1
	}
	return int64(r.shown)
}

// print writes text at the cursor.
func (s *screen) print(text string) {
	for text != "" {
		n := 0
		if s.behind() {
			n = s.append(text)
		} else {
			n = s.overwrite(text)
		}
		if text = text[n:]; text != "" {
			s.down(true)
		}
	}
}

// append puts text at the end of the cursor's row, as much as fits, and
// returns how much that was.
func (s *screen) append(text string) int {
	r := &s.rows[s.at]
	text = prefix(text, maxRow-len(r.text))
	r.text += text
	s.live += len(text)
	s.col = end
	return len(text)
}

// down moves the cursor to the start of the next row, because of a newline or
// because its row is full.
func (s *screen) down(full bool) {
	s.leave()
	if s.at == len(s.rows)-1 {
		s.rows[s.at].wrapped = full
		s.rows = append(s.rows, row{})
		for len(s.rows) > maxRows || (s.live > maxLive && len(s.rows) > 2) {
			s.scroll()
		}
	}
	s.at++
	s.col = 0
}

// scroll lets go of the first row: it can't change any more.
func (s *screen) scroll() {
	s.show(0)
	s.live -= len(s.rows[0].text)
	s.rows = s.rows[1:]
	s.at--
}

// leave puts the cursor's row together again.
func (s *screen) leave() {
	if s.cells == nil {
		return
	}
	r := &s.rows[s.at]
	s.live -= len(r.text)
	r.text = join(s.cells, r.redrawn)
	s.live += len(r.text)
	s.cells = nil
}

// control handles a control character.
func (s *screen) control(c byte) {
	switch c {
	case '\n':
		s.down(false)
	case '\r':
		s.col = 0
	case '\b':
		s.move(s.column() - 1)
	case '\t':
		s.print("\t")
	default:
		s.print(escaped(rune(c)))
	}
}

// escape handles a sequence. What is not about where text stands is passed
// over. So is what counts from the screen's corner, but for a jump there:
// it begins a new row, since nobody knows where the corner is.
func (s *screen) escape(csi bool, command byte, param int) {
	n := min(max(param, 1), maxRow)
	switch {
	case !csi && command == 'M', csi && command == 'A':
		s.vertical(-n, s.column())
	case csi && command == 'B':
		s.vertical(n, s.column())
	case csi && command == 'E':
		s.vertical(n, 0)
	case csi && command == 'F':
		s.vertical(-n, 0)
	case !csi && (command == 'D' || command == 'E'):
		s.down(false)
	case csi && command == 'C':
		s.move(s.column() + n)
	case csi && command == 'D':
		s.move(s.column() - n)
	case csi && (command == 'G' || command == '`'):
		s.move(n - 1)
	case csi && (command == 'H' || command == 'f'):
		s.fresh()
	case csi && command == 'K':
		s.eraseLine(param)
	case csi && command == 'J' && param <= 0:
		s.eraseLine(0)
		s.eraseBelow()
	}
}

// move puts the cursor into a column of its row.
func (s *screen) move(col int) { s.col = min(max(col, 0), maxRow-1) }

// vertical moves the cursor up or down, within the rows that there are.
func (s *screen) vertical(by, col int) {
	s.leave()
	s.at = min(max(s.at+by, 0), len(s.rows)-1)
	s.move(col)
}

// fresh moves the cursor to an empty last row.
func (s *screen) fresh() {
	s.leave()
	s.at = len(s.rows) - 1
	if s.rows[s.at].text != "" {
		s.down(false)
	}
}

// eraseBelow removes the rows below the cursor's.
func (s *screen) eraseBelow() {
	for _, r := range s.rows[s.at+1:] {
		s.back += r.weight()
		s.live -= len(r.text)
	}
	s.rows = s.rows[:s.at+1]
}
