package sandbox

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// shown plays pieces of one stream to a screen and returns what is left of
// them in the end.
func shown(pieces ...string) string {
	s := newScreen()
	r := NewRecord(64 << 20)
	for _, p := range pieces {
		r.Add(s.update(Output{Stream: Stdout, Text: p}))
	}
	return joined(r.Take())
}

func joined(pieces []Output) string {
	var b strings.Builder
	for _, o := range pieces {
		b.WriteString(o.Text)
	}
	return b.String()
}

var screenCases = []struct{ name, in, want string }{
	{"plain text stays", "a\n\tb  \nc", "a\n\tb  \nc"},
	{"text of other alphabets stays", "漢字 é 🚀 \u202e \u200d e\u0301\n", "漢字 é 🚀 \u202e \u200d e\u0301\n"},
	{"DOS line ends are line ends", "a  \r\nb\r\n", "a  \nb\n"},
	{"a bar shows its last state", "\r 0%|   | 0/3\r33%|#  | 1/3\r100%|###| 3/3\ndone\n", "100%|###| 3/3\ndone\n"},
	{"a shorter text leaves the rest of a longer one", "hello world\rHELLO", "HELLO world"},
	{"spaces that wipe are not shown", "\r100 of 100\rok         \nnext", "ok\nnext"},
	{"spaces that were meant are shown", "a   \nb", "a   \nb"},
	{"a bar that wipes itself leaves nothing", "\r50%|##  |\r          \rdone", "done"},
	{"a bar that wipes itself and ends", "x\n\r50%|##  |\r          \r", "x\n"},
	{"a line is erased to its end", "hello\r\x1b[Kbye", "bye"},
	{"a line is erased from its start", "hello\x1b[3D\x1b[1K\n", "   lo\n"},
	{"a line is erased whole", "hello\x1b[2K\rbye", "bye"},
	{"a return at the end changes nothing", "hello\r", "hello"},
	{"a spinner turns", "|\b/\b-\b\\ done", "\\ done"},
	{"overstruck text is written once", "N\bNA\bA", "NA"},
	{"backspaces stop at the start", "a\b\b\bb", "b"},
	{"colours are left out", "\x1b[1;31mred\x1b[0m \x1b[38;5;208mx\x1b[38:2::1:2:3my\x1b[m", "red xy"},
	{"a title is left out", "\x1b]0;title ✓\x07a\x1b]2;t\x1b\\b", "ab"},
	{"a link keeps its text", "\x1b]8;;http://x.example/\x1b\\here\x1b]8;;\x1b\\", "here"},
	{"device strings are left out", "\x1bP1$r0m\x1b\\a\x1b_G\u2713;x\x1b\\b\x1b^x\x1b\\c\x1bXy\x1b\\d", "abcd"},
	{"two-byte sequences are left out", "\x1b(B\x1b=a\x1b>\x1b7b\x1b8", "ab"},
	{"modes are left out", "\x1b[?25la\x1b[?2004hb\x1b[!p", "ab"},
	{"an unfinished sequence is left out", "a\x1b[38;5", "a"},
	{"a string without an end hides one line", "a\x1b]0;oops\nb\n", "a\nb\n"},
	{"control characters are escaped", "\x00\x01\x07\x0b\x0c\x0e\x18\x1a\x7f", `\x00\x01\x07\x0b\x0c\x0e\x18\x1a\x7f`},
	{"control characters of eight bits are escaped", "\u0085\u009b31m", `\x85\x9b31m`},
	{"escape twice is left out", "\x1b\x1b[mx", "x"},
	{"nested bars", "\router 0%\n\rinner 0%\x1b[A\n\rinner 50%\x1b[A\router 50%\n\rinner 99%\x1b[A\n\n", "outer 50%\ninner 99%\n"},
	{"a nested bar that wipes itself", "\router 0%\n\rinner 9%\r        \r\x1b[A\router 99%\nend\n", "outer 99%\nend\n"},
	{"lines are drawn again after going up", "a\nb\nc\n\x1b[3A\x1b[2Kx\n\x1b[2Ky\n\x1b[2Kz\n", "x\ny\nz\n"},
	{"what is below is erased", "a\nb\nc\x1b[2A\r\x1b[Jx\n", "x\n"},
	{"what is below is erased, and written anew", "a\nb\nc\x1b[2A\x1b[J\nd", "a\nd"},
	{"going up stops at the top", "a\x1b[99A\rb", "b"},
	{"going down stops at the bottom", "a\x1b[9B\rb", "b"},
	{"columns", "abc\x1b[1GX\x1b[5GY\x1b[2DZ\x1b[2CW", "XbcZY W"},
	{"lines up and down", "a\nb\x1b[Fx\x1b[Ey", "x\ny"},
	{"a jump to the corner begins a line", "one\x1b[H\x1b[2Jtwo\n\x1b[Hthree", "one\ntwo\nthree"},
	{"numbers without bounds", "a\x1b[99999999999999999999Cb\x1b[99999999999999999999Dc", "c" + strings.Repeat(" ", maxRow-2) + "b"},
	{"wide characters", "漢漢漢 5%\ra 10%    ", "a 10%"},
	{"wide over narrow", "abcdefghi\r漢漢漢 5%", "漢漢漢 5%"},
	{"half a wide character", "漢字\rx", "x 字"},
	{"marks stay on their characters", "e\u0301a\rxe\u0301", "xe\u0301"},
	{"tabs are columns", "\tx\rabc", "abc     x"},
}

func TestScreen(t *testing.T) {
	for _, row := range screenCases {
		t.Run(row.name, func(t *testing.T) {
			if got := shown(row.in); got != row.want {
				t.Errorf("%q: got %q, want %q", row.in, got, row.want)
			}
			checkPieces(t, row.in)
		})
	}
}

// checkPieces holds a screen to what is true of any stream.
func checkPieces(t *testing.T, in string) {
	t.Helper()
	whole := shown(in)
	for _, r := range whole {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			t.Fatalf("%q: got %q, which has a control character", in, whole)
		}
	}
	if plain(in) && whole != in {
		t.Fatalf("got %q, want the same plain text %q", whole, in)
	}
	if len(in) < 500 {
		if got := shown(strings.Split(in, "")...); got != whole {
			t.Fatalf("%q: in single characters: got %q, want %q", in, got, whole)
		}
	}
	for range 4 {
		pieces := pieces(in, 6+len(in)/100)
		if got := shown(pieces...); got != whole {
			t.Fatalf("%q: got %q, want %q", pieces, got, whole)
		}
	}
}

// pieces cuts s between characters, anywhere, into pieces of about size.
func pieces(s string, size int) []string {
	var out []string
	from := 0
	for i := range s {
		if rand.IntN(size) == 0 {
			out = append(out, s[from:i])
			from = i
		}
	}
	return append(out, s[from:])
}

func FuzzScreen(f *testing.F) {
	for _, row := range screenCases {
		f.Add(row.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if utf8.ValidString(in) { // frames hold nothing else
			checkPieces(t, in)
		}
	})
}

// Streams of any length, from all that a terminal understands.
func TestScreenOfRandomStreams(t *testing.T) {
	words := []string{
		"word", "漢", "🚀", "e\u0301", " ", "   ", "\t", "\n", "\n", "\r", "\b", "\x1b[A", "\x1b[2B", "\x1b[K", "\x1b[1K", "\x1b[2K",
		"\x1b[J", "\x1b[3G", "\x1b[4C", "\x1b[2D", "\x1b[E", "\x1b[F", "\x1b[H", "\x1bM", "\x1b[31m", "\x1b]0;t\x07", "\x00", "\u009b",
		strings.Repeat("long ", 900), strings.Repeat("line\n", 80), strings.Repeat("漢", 3000),
	}
	for range 60 {
		var b strings.Builder
		for range rand.IntN(80) {
			b.WriteString(words[rand.IntN(len(words))])
		}
		checkPieces(t, b.String())
	}
}

// Text that needs nothing is text that nobody touches.
func TestScreenLeavesLongTextAlone(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("x", 10*maxRow), strings.Repeat("漢", 10*maxRow), strings.Repeat("\n", 10*maxRows),
		strings.Repeat(strings.Repeat("y", 100)+"\n", 1000), strings.Repeat("e"+strings.Repeat("\u0301", 50), 100),
	} {
		checkPieces(t, text)
	}
}

func TestScreenKeepsLittle(t *testing.T) {
	s := newScreen()
	for _, text := range []string{
		strings.Repeat("x", 1<<20), strings.Repeat("\n", 1<<20), "\r" + strings.Repeat("y", 1<<20),
		"\x1b]0;" + strings.Repeat("t", 1<<20), "\x1b\\\x1b[" + strings.Repeat("1;", 1<<20), "m", "\ra" + strings.Repeat("\u0301", 1<<20),
	} {
		s.update(Output{Stream: Stdout, Text: text})
		size := len(s.cells)
		for _, r := range s.rows {
			size += len(r.text)
		}
		if size > 8*maxLive || len(s.rows) > maxRows {
			t.Errorf("after %q…: it holds %d bytes in %d rows", text[:8], size, len(s.rows))
		}
	}
}

func TestScreenBeginsAnewAfterACut(t *testing.T) {
	s := newScreen()
	r := NewRecord(1 << 20)
	for _, o := range []Output{
		{Stream: Stdout, Text: "\r10%|#"}, {Stream: Stdout, Text: "\x1b]0;t"}, {Stream: Stdout, Cut: 1000, Text: " 98%|\r99%|###"},
	} {
		r.Add(s.update(o))
	}
	want := []Output{{Stream: Stdout, Text: "10%|#"}, {Stream: Stdout, Cut: 1000, Text: "99%|###"}}
	if diff := cmp.Diff(want, r.Take()); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
}

func TestABarGoesOnAfterACut(t *testing.T) {
	s := newScreen()
	r := NewRecord(1 << 20)
	for _, o := range []Output{
		{Stream: Stdout, Text: "begin\n\r10%|#  |"}, {Stream: Stdout, Text: "\r20%|#"}, {Stream: Stdout, Cut: 1000, Text: "\r98%|##"}, {Stream: Stdout, Cut: 10, Text: "\r99%|###|"},
	} {
		r.Add(s.update(o))
	}
	want := []Output{{Stream: Stdout, Text: "begin\n"}, {Stream: Stdout, Cut: 1010, Text: "99%|###|"}}
	if diff := cmp.Diff(want, r.Take()); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
}

// A bar on stderr stands where it was drawn last, so that prints on stdout
// come in the order in which they were made, and unbroken.
func TestBarsGoWithTheLinesBetween(t *testing.T) {
	var s screens
	r := NewRecord(1 << 20)
	for i := range 4 {
		r.Add(s.update(Output{Stream: Stderr, Text: fmt.Sprintf("\r%d/3 steps", i)}))
		if i < 3 {
			r.Add(s.update(Output{Stream: Stdout, Text: fmt.Sprintf("working %d\n", i)}))
		}
	}
	r.Add(s.update(Output{Stream: Stderr, Text: "\n"}))
	want := []Output{{Stream: Stdout, Text: "working 0\nworking 1\nworking 2\n"}, {Stream: Stderr, Text: "3/3 steps\n"}}
	if diff := cmp.Diff(want, r.Take()); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
}

func TestPartialLinesOfTwoStreamsStayInOrder(t *testing.T) {
	var s screens
	r := NewRecord(1 << 20)
	for i, text := range []string{"a", "b", "c\n", "d\n"} {
		r.Add(s.update(Output{Stream: Stdout + i%2, Text: text}))
	}
	if got := joined(r.Take()); got != "abc\nd\n" {
		t.Errorf("got %q, want the pieces as they came", got)
	}
}

// A flood of bars costs what its frames cost, and leaves one line.
func TestManyBarsLeaveOneLine(t *testing.T) {
	s := newScreen()
	r := NewRecord(1 << 20)
	for i := 0; i < 300_000; {
		var frame strings.Builder
		for range 3000 {
			fmt.Fprintf(&frame, "\r%d%%", i)
			i++
		}
		r.Add(s.update(Output{Stream: Stdout, Text: frame.String()}))
	}
	if diff := cmp.Diff([]Output{{Stream: Stdout, Text: "299999%"}}, r.Take()); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
}

func TestClean(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"plain text stays", "'a'\n\tb é 漢", "'a'\n\tb é 漢"},
		{"colours are left out", "\x1b[31mred\x1b[0m\x1b]0;t\x07", "red"},
		{"nothing is written over", "a\rb\bc\x1b[2K\x1b[Ad", `a\rb\x08cd`},
		{"DOS line ends are line ends", "a\r\nb", "a\nb"},
		{"controls are escaped", "\x00\x1b\u009b", `\x00\x9b`},
		{"bytes that are no text are replaced", "a\xffb", "a\ufffdb"},
	} {
		if got := Clean(row.in); got != row.want {
			t.Errorf("%s: %q: got %q, want %q", row.name, row.in, got, row.want)
		}
	}
}

func BenchmarkScreen(b *testing.B) {
	for _, row := range []struct{ name, text string }{
		{"plain", strings.Repeat("a line of plain text, of some length\n", 1000)},
		{"one line", strings.Repeat("x", 64<<10)},
		{"coloured", strings.Repeat("\x1b[32ma line\x1b[0m of text, of some length\n", 1000)},
		{"bars", strings.Repeat("\r 50%|█████████████████▌               | 50/100 [00:00<00:00, 3.4it/s]", 500)},
	} {
		b.Run(row.name, func(b *testing.B) {
			s := newScreen()
			b.SetBytes(int64(len(row.text)))
			b.ReportAllocs()
			for b.Loop() {
				s.update(Output{Stream: Stdout, Text: row.text})
			}
		})
	}
}
