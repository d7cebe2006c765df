package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/bridged/bridged/pkg/ops"
)

const (
	// glanceTime bounds one look at the status. A daemon answers in milliseconds;
	// past this it hangs, which is worth telling.
	glanceTime = 10 * time.Second
	// shortestInterval keeps a watcher from being the daemon's main load.
	shortestInterval = 100 * time.Millisecond
)

// A watch shows a daemon's status again and again.
type watch struct {
	socket   string
	interval time.Duration
	asJSON   bool
}

func newWatch(socket string, interval time.Duration, asJSON bool) watch {
	return watch{socket, max(interval, shortestInterval), asJSON}
}

// run watches until ctx ends, or whoever sits at the terminal says so. What is no
// terminal gets one block of lines after the other.
func (w watch) run(ctx context.Context, in io.Reader, out io.Writer) error {
	if w.asJSON || !onTerminal(out) {
		return w.print(ctx, out)
	}
	if !onTerminal(in) {
		in = nil // a file has no keys to press: Ctrl-C comes as a signal
	}
	p := tea.NewProgram(&watchScreen{watch: w, ctx: ctx}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	_, err := p.Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}

func onTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && isTerminal(f)
}

// A glance is what one question got.
type glance struct {
	at     time.Time
	status ops.Status
	err    error
}

func (w watch) look(ctx context.Context) glance {
	ctx, cancel := context.WithTimeout(ctx, glanceTime)
	defer cancel()
	s, err := ops.Get(ctx, w.socket)
	return glance{time.Now(), s, err}
}

// trouble says what came instead of a status; there says whether one came before.
func (w watch) trouble(err error, there bool) string {
	switch {
	case !isDial(err):
		return printable(fmt.Sprintf("the daemon does not answer, waiting: %v", err))
	case there:
		return "daemon is gone, waiting"
	}
	return printable(fmt.Sprintf("no daemon answers at %s, waiting", w.socket))
}

// isDial reports whether nobody listens.
func isDial(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// print writes the status until ctx ends, each followed by an empty line, and one
// line when the daemon goes.
func (w watch) print(ctx context.Context, out io.Writer) error {
	told, there := "", false
	for {
		l := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var err error
		if l.err == nil {
			told, there = "", true
			err = w.block(out, l.status)
		} else if text := w.trouble(l.err, there); text != told {
			told = text
			err = w.tell(out, text)
		}
		if err != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.interval):
		}
	}
}

// block writes one status in one piece.
func (w watch) block(out io.Writer, s ops.Status) error {
	var b bytes.Buffer
	if err := printStatus(&b, s, w.asJSON); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := out.Write(b.Bytes())
	return err
}

// tell writes a line that is no status, to stderr where stdout is for programs.
func (w watch) tell(out io.Writer, text string) error {
	if w.asJSON {
		out = os.Stderr
	}
	_, err := fmt.Fprintf(out, "%s\n\n", text)
	return err
}

// A watchScreen is a watch on a terminal: a line about the watch, and the status
// below it, of which the keys move another part into view.
type watchScreen struct {
	watch
	ctx context.Context // that of the program; looks end with it

	width, height int
	top           int       // the first line of the status in view
	lines         []string  // the last status, without the daemon's trouble
	at            time.Time // when that was
	trouble       string    // "" while the daemon answers
	looked        bool
}

// lookAgain is the time to look.
type lookAgain struct{}

func (s *watchScreen) Init() tea.Cmd { return s.ask }

func (s *watchScreen) ask() tea.Msg { return s.look(s.ctx) }

func (s *watchScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return s, s.press(msg.String())
	case lookAgain:
		return s, s.ask
	case glance:
		s.take(msg)
		return s, tea.Tick(s.interval, func(time.Time) tea.Msg { return lookAgain{} })
	}
	return s, nil
}

func (s *watchScreen) press(key string) tea.Cmd {
	page := max(1, s.room()-1)
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "up", "k":
		s.top--
	case "down", "j":
		s.top++
	case "pgup", "b":
		s.top -= page
	case "pgdown", "space":
		s.top += page
	case "home", "g":
		s.top = 0
	case "end", "G":
		s.top = len(s.lines)
	}
	s.top = s.clamp(s.top)
	return nil
}

// room is how many lines of the status fit.
func (s *watchScreen) room() int { return max(1, s.height-2) }

func (s *watchScreen) clamp(top int) int { return max(0, min(top, len(s.lines)-s.room())) }

func (s *watchScreen) take(l glance) {
	s.looked = true
	if l.err != nil {
		s.trouble = s.watch.trouble(l.err, s.lines != nil)
		return
	}
	var b bytes.Buffer
	if err := printStatus(&b, l.status, false); err != nil {
		s.trouble = err.Error()
		return
	}
	s.trouble, s.at, s.lines = "", l.at, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func (s *watchScreen) View() tea.View {
	v := tea.NewView(strings.Join(s.draw(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "bridged status"
	return v
}

// draw returns the screen's lines, none wider than it. What is old is faint.
func (s *watchScreen) draw() []string {
	lines := []string{ansi.NewStyle().Bold().Styled(s.fit(s.headline())), ""}
	top := s.clamp(s.top)
	for _, line := range s.lines[top:min(len(s.lines), top+s.room())] {
		line = s.fit(line)
		if s.trouble != "" {
			line = ansi.NewStyle().Faint().Styled(line)
		}
		lines = append(lines, line)
	}
	return lines
}

func (s *watchScreen) fit(line string) string { return ansi.Truncate(line, s.width, "…") }

func (s *watchScreen) headline() string {
	switch {
	case !s.looked:
		return "asking the daemon"
	case s.trouble != "" && s.lines == nil:
		return s.trouble
	case s.trouble != "":
		return fmt.Sprintf("%s; this was at %s", s.trouble, s.at.Format(time.TimeOnly))
	}
	text := s.at.Format(time.TimeOnly) + "; q ends"
	if hidden := len(s.lines) - s.room(); hidden > 0 {
		text += fmt.Sprintf(", %d more lines: arrows", hidden)
	}
	return text + fmt.Sprintf(", every %s", s.interval)
}
