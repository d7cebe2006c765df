package sandbox

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/parser"
)

// A terminal is what a [decoder] drives.
type terminal interface {
	// print takes text without control characters other than tabs.
	print(text string)
	// control takes one of the control characters below 0x20, or DEL.
	control(c byte)
	// escape takes a sequence that moves or erases: its last byte, and its
	// first parameter, missing if it has none. Control sequences (CSI) come
	// with csi set.
	escape(csi bool, command byte, param int)
}

// missing stands for a parameter that is not there.
const missing = -1

// A decoder takes a stream of text apart for a terminal. It may be cut
// anywhere between characters: nothing of an unfinished sequence is held but
// its state. The zero value is at the start of a stream.
type decoder struct {
	to     terminal
	parser *ansi.Parser // nil before the first sequence
}

// write takes the next piece of the stream.
func (d *decoder) write(text string) {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, string(utf8.RuneError))
	}
	for text != "" {
		n := 0
		if d.ground() {
			n = visible(text)
		}
		switch {
		case n > 0:
			d.to.print(text[:n])
		case d.ground() && text[0] == '\n': // the common case
			d.to.control('\n')
			n = 1
		default:
			d.advance(text[0])
			n = 1
		}
		text = text[n:]
	}
}

// reset forgets an unfinished sequence.
func (d *decoder) reset() {
	if d.parser != nil {
		d.parser.Reset()
	}
}

func (d *decoder) ground() bool {
	return d.parser == nil || d.parser.State() == parser.GroundState
}

// advance takes one byte that may belong to a sequence. Text in a string, such
// as a window's title, is passed over. A newline ends a string, so that one
// that is never ended hides one line and not the rest.
func (d *decoder) advance(c byte) {
	if d.parser == nil {
		d.start()
	}
	switch d.parser.State() {
	case parser.OscStringState, parser.DcsStringState, parser.SosStringState, parser.PmStringState, parser.ApcStringState:
		if c >= utf8.RuneSelf {
			return // the parser takes some of these for controls of eight bits
		}
		if c == '\n' {
			d.parser.Reset()
		}
	}
	d.parser.Advance(c)
}

func (d *decoder) start() {
	d.parser = &ansi.Parser{}
	d.parser.SetParamsSize(8)
	d.parser.SetDataSize(1) // nobody looks at it; 0 would mean no bound
	d.parser.SetHandler(ansi.Handler{
		Print: func(r rune) {
			if isC1(r) {
				d.to.print(escaped(r))
				return
			}
			d.to.print(string(r))
		},
		Execute: func(c byte) {
			if c != ansi.ESC { // two in a row
				d.to.control(c)
			}
		},
		HandleEsc: func(cmd ansi.Cmd) {
			if cmd.Intermediate() == 0 {
				d.to.escape(false, cmd.Final(), missing)
			}
		},
		HandleCsi: func(cmd ansi.Cmd, params ansi.Params) {
			if cmd.Intermediate() == 0 && cmd.Prefix() == 0 {
				n, _, _ := params.Param(0, missing)
				d.to.escape(true, cmd.Final(), n)
			}
		},
	})
}

// visible returns the length of the text at the start of s that no terminal
// takes for anything else: up to a control character other than a tab.
func visible(s string) int {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < 0x20 && c != '\t', c == 0x7f:
			return i
		case c == 0xc2 && i+1 < len(s) && s[i+1] < 0xa0:
			return i
		}
	}
	return len(s)
}

// plain reports whether s is text and lines, and nothing else.
func plain(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for {
		n := visible(s)
		if n == len(s) {
			return true
		}
		if s[n] != '\n' {
			return false
		}
		s = s[n+1:]
	}
}

// isC1 reports whether r is a control character above DEL.
func isC1(r rune) bool { return r >= 0x80 && r < 0xa0 }

// escaped shows a control character as Python does.
func escaped(r rune) string {
	if r == '\r' {
		return `\r`
	}
	return fmt.Sprintf(`\x%02x`, r)
}

// Clean returns text as an agent may see it: without the sequences that
// colour it, and with other control characters escaped. It is for text that
// was not written to a terminal; there nothing is written over.
func Clean(text string) string {
	if plain(text) {
		return text
	}
	var t page
	d := decoder{to: &t}
	d.write(strings.ReplaceAll(text, "\r\n", "\n"))
	return t.b.String()
}

// A page is a terminal on which nothing moves.
type page struct{ b strings.Builder }

func (p *page) print(text string) { p.b.WriteString(text) }

func (p *page) control(c byte) {
	if c == '\n' || c == '\t' {
		p.b.WriteByte(c)
		return
	}
	p.b.WriteString(escaped(rune(c)))
}

func (p *page) escape(bool, byte, int) {}
