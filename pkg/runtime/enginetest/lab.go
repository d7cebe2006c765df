package enginetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// hangTime bounds one behaviour's test, on the slowest machine.
const hangTime = 2 * time.Minute

// labelLab marks the containers of one lab.
const labelLab = "io.bridged.enginetest"

// A lab is one behaviour's test: an engine, and a label that tells the test's
// own containers from others.
type lab struct {
	testing.TB
	e     runtime.Engine
	image string
	label string
	ctx   context.Context
}

func newLab(t *testing.T, e runtime.Engine, image string) *lab {
	ctx, cancel := context.WithTimeout(t.Context(), hangTime)
	t.Cleanup(cancel)
	return &lab{TB: t, e: e, image: image, label: string(newID()[:16]), ctx: ctx}
}

// python is a spec whose first process runs program.
func (l *lab) python(program string) runtime.Spec {
	spec := runtime.DefaultSpec(l.image)
	spec.Cmd = []string{"python3", "-u", "-c", program}
	spec.Labels = map[string]string{labelLab: l.label}
	return spec
}

// create makes a container that is removed when the test ends.
func (l *lab) create(spec runtime.Spec) runtime.ID {
	l.Helper()
	id, err := l.e.Create(l.ctx, spec)
	if err != nil {
		l.Fatalf("Create: %v", err)
	}
	l.Cleanup(func() { l.removeLate(id) })
	return id
}

func (l *lab) removeLate(id runtime.ID) {
	ctx, cancel := context.WithTimeout(context.Background(), hangTime)
	defer cancel()
	if err := l.e.Remove(ctx, id); err != nil {
		l.Errorf("Remove at the end: %v", err)
	}
}

func (l *lab) remove(id runtime.ID) {
	l.Helper()
	if err := l.e.Remove(l.ctx, id); err != nil {
		l.Errorf("Remove: %v", err)
	}
}

// run creates, attaches and starts.
func (l *lab) run(program string) *running {
	l.Helper()
	r := l.attach(l.create(l.python(program)))
	if err := l.e.Start(l.ctx, r.id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	return r
}

// attach attaches to a container.
func (l *lab) attach(id runtime.ID) *running {
	l.Helper()
	r := &running{l: l, id: id}
	s, err := l.e.Attach(l.ctx, id, &r.stderr)
	if err != nil {
		l.Fatalf("Attach: %v", err)
	}
	r.use(s)
	return r
}

// exec runs argv in a container.
func (l *lab) exec(id runtime.ID, argv ...string) *running {
	l.Helper()
	r := &running{l: l, id: id}
	s, err := l.e.Exec(l.ctx, id, runtime.Command{Argv: argv}, &r.stderr)
	if err != nil {
		l.Fatalf("Exec: %v", err)
	}
	r.use(s)
	return r
}

func (l *lab) wait(id runtime.ID) runtime.Exit {
	l.Helper()
	exit, err := l.e.Wait(l.ctx, id)
	if err != nil {
		l.Fatalf("Wait: %v", err)
	}
	return exit
}

func (l *lab) list(labels map[string]string) []runtime.Container {
	l.Helper()
	rows, err := l.e.List(l.ctx, labels)
	if err != nil {
		l.Fatalf("List: %v", err)
	}
	return rows
}

// checkEmpty removes what the test made and looks whether anything is left.
func (l *lab) checkEmpty() {
	mine := map[string]string{labelLab: l.label}
	for _, c := range l.list(mine) {
		l.remove(c.ID)
	}
	if left := l.list(mine); len(left) > 0 {
		l.Errorf("%d containers are left after Remove: %v", len(left), left)
	}
}

// A running is a container or an exec session with a stream to it.
type running struct {
	l      *lab
	id     runtime.ID
	stream runtime.Stream
	lines  *bufio.Reader
	stderr buffer
}

// use takes the stream, which is closed when the test ends, and at once when
// the test hangs.
func (r *running) use(s runtime.Stream) {
	r.stream = s
	r.lines = bufio.NewReaderSize(s, 1<<20)
	stop := context.AfterFunc(r.l.ctx, func() { _ = s.Close() })
	r.l.Cleanup(func() {
		stop()
		_ = s.Close()
	})
}

func (r *running) write(text string) {
	r.l.Helper()
	if _, err := io.WriteString(r.stream, text); err != nil {
		r.l.Fatalf("Write: %v", err)
	}
}

func (r *running) line() string {
	r.l.Helper()
	line, err := r.lines.ReadString('\n')
	if err != nil {
		r.l.Fatalf("reading a line: %v, after %q and stderr %q", err, line, r.stderr.String())
	}
	return strings.TrimSuffix(line, "\n")
}

// rest reads stdout to its end.
func (r *running) rest() string {
	r.l.Helper()
	text, err := io.ReadAll(r.lines)
	if err != nil {
		r.l.Fatalf("reading to the end: %v, after %d bytes and stderr %q", err, len(text), r.stderr.String())
	}
	return string(text)
}

// ask writes a line and wants it back.
func (r *running) ask(line string) {
	r.l.Helper()
	r.write(line + "\n")
	if got := r.line(); got != line {
		r.l.Fatalf("%d bytes came back for %d: %.80q", len(got), len(line), got)
	}
}

func (r *running) closeWrite() {
	r.l.Helper()
	if err := r.stream.CloseWrite(); err != nil {
		r.l.Fatalf("CloseWrite: %v", err)
	}
}

func (r *running) close() {
	r.l.Helper()
	if err := r.stream.Close(); err != nil {
		r.l.Fatalf("Close: %v", err)
	}
}

// isRefusal reports whether err is the engine's own word.
func isRefusal(err error) bool {
	var refused *runtime.EngineError
	return errors.As(err, &refused)
}

// A buffer is a bytes.Buffer that several goroutines may use.
type buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
