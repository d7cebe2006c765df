package main

import (
	"fmt"
	"io"
	"time"
)

// A progress shows the steps of a long operation: one line that changes on a
// terminal, a line per step and some percentages elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	step     string
	percent  int64
	shown    time.Time
	open     bool // a line without its end is on the terminal
}

func newProgress(w io.Writer, terminal bool) *progress {
	return &progress{w: w, terminal: terminal, percent: -1}
}

// report is a runtime.Progress.
func (p *progress) report(step string, done, total int64) {
	percent := int64(-1)
	if total > 0 {
		percent = 100 * done / total
	}
	fresh := step != p.step
	if !fresh && !p.due(percent) {
		return
	}
	p.step, p.percent, p.shown = step, percent, time.Now()
	p.print(step, percent, done)
}

// due reports whether a step that goes on is worth another line.
func (p *progress) due(percent int64) bool {
	if p.terminal {
		return time.Since(p.shown) > 100*time.Millisecond
	}
	return percent/10 != p.percent/10
}

func (p *progress) print(step string, percent, done int64) {
	text := step
	switch {
	case percent >= 0:
		text = fmt.Sprintf("%s: %d%%", step, percent)
	case done > 0:
		text = fmt.Sprintf("%s: %d MB", step, done/1e6)
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%.120s", text)
		p.open = true
		return
	}
	fmt.Fprintln(p.w, text)
}

// end leaves the terminal on a fresh line.
func (p *progress) end() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}
