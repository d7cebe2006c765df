package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// A bar that earlier code left running is one bar, whatever run it comes with,
// and those who follow a run see what its result has.
func TestBackgroundBarsAreOneBarOverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := launchFake(t, func(h *fakeHarness) int {
			first, _ := h.until("run")
			h.printed(first.Run, "\r10%")
			h.done(first.Run)
			for i := range 1000 {
				h.printed(0, fmt.Sprintf("\r%d bytes", i))
			}
			second, _ := h.until("run")
			h.printed(second.Run, "mine\n")
			h.printed(first.Run, "\r1000 bytes\n")
			h.done(second.Run)
			return interpreter(h)
		})
		if got := joined(s.Run(t.Context(), request("one"), nil).Output); got != "10%" {
			t.Errorf("the first run: got %q", got)
		}
		synctest.Wait()
		live := NewRecord(1 << 20)
		res := s.Run(t.Context(), request("two"), func(o Output) { live.Add(o) })
		want := []Output{{Stream: Stdout, Text: "mine\n"}, {Stream: Stdout, Text: "1000 bytes\n", Background: true}}
		if diff := cmp.Diff(want, res.Output); diff != "" {
			t.Errorf("the second run (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(res.Output, live.Take()); diff != "" {
			t.Errorf("followed live (-result +live):\n%s", diff)
		}
	})
}

// printed sends what a run wrote to stdout.
func (h *fakeHarness) printed(run int64, text string) {
	h.line(`{"t":"output","run":%d,"parts":[[1,%q]]}`, run, text)
}

func TestWhatIsSaidOfARunIsClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := launchFake(t, func(h *fakeHarness) int {
			f, _ := h.until("run")
			const red = `\u001b[31mred\u001b[0m\r\u0000`
			h.line(`{"t":"done","run":%d,"status":"error","value":"%s","notices":["%s"],"error":{"type":"%s","message":"%s","traceback":"%s"}}`,
				f.Run, red, red, red, red, red)
			return interpreter(h)
		})
		res := s.Run(t.Context(), request("code"), nil)
		got := append(res.Notices, res.Value, res.Error.Type, res.Error.Message, res.Error.Traceback)
		if want := strings.Repeat(`red\r\x00 `, 5); strings.Join(got, " ")+" " != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestARecordKeepsHeadAndTail(t *testing.T) {
	const size, half, lines = 20_000, 10_000, 2000
	r, s := NewRecord(size), newScreen()
	for i := range lines {
		r.Add(s.update(Output{Stream: Stdout + i/500%2, Text: fmt.Sprintf("line %04d 漢\n", i)}))
	}
	for i := range 100 {
		r.Add(s.update(Output{Stream: Stdout, Text: fmt.Sprintf("\rbar %04d", i)}))
	}
	out := r.Take()
	text, cut := joined(out), int64(0)
	for _, o := range out {
		cut += o.Cut
	}
	if total := int64(len(text)) + cut; total != lines*14+8 || len(text) > size || len(text) < half {
		t.Errorf("got %d bytes kept of %d, want at most %d of %d", len(text), total, size, lines*14+8)
	}
	if !utf8.ValidString(text) || !strings.HasPrefix(text, "line 0000 漢\nline 0001") || !strings.HasSuffix(text, "line 1999 漢\nbar 0099") {
		t.Errorf("the ends are %q and %q", text[:20], text[len(text)-20:])
	}
	if left := r.Take(); len(left) != 0 {
		t.Errorf("%d pieces are left", len(left))
	}
}

// However a flood comes, the bound holds, and every byte is there or counted.
func TestARecordIsBounded(t *testing.T) {
	for _, row := range []struct{ pieces, size int }{{1, 1 << 20}, {10, 100_000}, {100_000, 1}, {1000, 333}} {
		r := NewRecord(64 << 10)
		for i := range row.pieces {
			r.Add(Output{Stream: Stdout + i%2, Text: strings.Repeat("漢", row.size)})
		}
		var cut int64
		kept, out := 0, r.Take()
		for _, o := range out {
			cut += o.Cut
			kept += len(o.Text)
		}
		if total := int64(kept) + cut; total != int64(3*row.pieces*row.size) || kept+pieceCost*len(out) > 65<<10 {
			t.Errorf("%d pieces of %d: %d bytes in %d pieces, %d in all", row.pieces, row.size, kept, len(out), total)
		}
	}
}

func TestRetract(t *testing.T) {
	for _, row := range []struct {
		name    string
		pieces  []Output
		o       Output
		want    []Output
		missing int64
	}{
		{"the end of the last piece", []Output{{Stream: 1, Text: "abc"}}, Output{Stream: 1, Back: 2}, []Output{{Stream: 1, Text: "a"}}, 0},
		{"a whole piece", []Output{{Stream: 1, Text: "abc"}}, Output{Stream: 1, Back: 3}, []Output{}, 0},
		{"pieces of other streams stay", []Output{{Stream: 1, Text: "a"}, {Stream: 2, Text: "x"}, {Stream: 1, Text: "b"}, {Stream: 2, Text: "y"}, {Stream: 1, Text: "z", Background: true}},
			Output{Stream: 1, Back: 2}, []Output{{Stream: 2, Text: "xy"}, {Stream: 1, Text: "z", Background: true}}, 0},
		{"nothing from before a cut", []Output{{Stream: 1, Text: "a"}, {Stream: 1, Text: "b", Cut: 5}}, Output{Stream: 1, Back: 2},
			[]Output{{Stream: 1, Text: "a"}, {Stream: 1, Cut: 5}}, 1},
		{"more than there is", []Output{{Stream: 1, Text: "a"}}, Output{Stream: 1, Back: 9}, []Output{}, 8},
	} {
		t.Run(row.name, func(t *testing.T) {
			left, missing := Retract(row.pieces, row.o)
			if diff := cmp.Diff(row.want, left); diff != "" || missing != row.missing {
				t.Errorf("%d bytes missing, want %d; pieces (-want +got):\n%s", missing, row.missing, diff)
			}
		})
	}
}
