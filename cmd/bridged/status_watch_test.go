package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"github.com/bridged/bridged/pkg/ops"
)

// watchTime bounds what takes a moment.
const watchTime = 60 * time.Second

// childSocket has the test program be `bridged status --watch`, since the signal
// of a terminal that changes its size goes to a program of its own.
const childSocket = "BRIDGED_TEST_WATCH"

func TestMain(m *testing.M) {
	if os.Getenv(childSocket) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// An opsDaemon answers for a daemon, and can go and come back.
type opsDaemon struct {
	socket string
	client atomic.Value // string: the one session's
	cancel context.CancelFunc
	done   chan error
}

func newOpsDaemon(t *testing.T) *opsDaemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "bridged") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // it is a folder for temporary files
	d := &opsDaemon{socket: filepath.Join(dir, "mcp.sock")}
	d.client.Store("first-agent")
	return d
}

func (d *opsDaemon) start(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("unix", opsPath(d.socket))
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(context.Background())
	t.Cleanup(d.cancel)
	d.done = make(chan error, 1)
	go func() { d.done <- ops.Serve(ctx, ln, ops.Handler(d.status, nil)) }()
}

func (d *opsDaemon) stop(t *testing.T) {
	t.Helper()
	d.cancel()
	if err := <-d.done; err != nil {
		t.Error(err)
	}
}

func (d *opsDaemon) status() ops.Status {
	client, _ := d.client.Load().(string)
	return ops.Status{
		Schema: ops.SchemaVersion, Version: "1.2.3", Started: time.Now(), Ready: true,
		Pool:     ops.Pool{Target: 2, Max: 8, Limit: strings.Repeat("very ", 60) + "wide"},
		Sessions: []ops.Session{{ID: "abc", Client: client, Since: time.Now()}},
	}
}

// A terminal is a pseudo terminal with a program in it, and what it shows.
type terminal struct {
	t    *testing.T
	file *os.File // our end
	done chan error

	mu     sync.Mutex // guards the screen
	screen *vt.Emulator
	said   bytes.Buffer // every byte
}

// watchIn runs `bridged status --watch` in a terminal of its own.
func watchIn(t *testing.T, d *opsDaemon, width, height int) *terminal {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "status", "--watch", "--interval", "100ms")
	cmd.Env = append(os.Environ(), childSocket+"=1", "BRIDGED_SOCKET="+d.socket, "TERM=xterm-256color")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	if err != nil {
		t.Fatal(err)
	}
	w := &terminal{t: t, file: file, done: make(chan error, 1), screen: vt.NewEmulator(width, height)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(w, file) // it ends with an error once the program is gone
	}()
	go func() { _, _ = io.Copy(file, w.screen) }() // what a terminal answers to questions
	go func() {
		err := cmd.Wait()
		<-read
		w.done <- err
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		_ = file.Close()       // likewise
		// The screen's own Close may not meet a Read.
		if pipe, ok := w.screen.InputPipe().(io.Closer); ok {
			_ = pipe.Close() // it is memory
		}
	})
	return w
}

func (w *terminal) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said.Write(p)
	return w.screen.Write(p)
}

func (w *terminal) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.screen.String()
}

// until waits for a text on the screen.
func (w *terminal) until(text string) {
	w.t.Helper()
	for end := time.Now().Add(watchTime); !strings.Contains(w.text(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%q does not come; the screen is\n%s", text, w.text())
		}
	}
}

func (w *terminal) resize(width, height int) {
	w.t.Helper()
	w.mu.Lock()
	w.screen.Resize(width, height)
	w.mu.Unlock()
	if err := pty.Setsize(w.file, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *terminal) press(keys string) {
	w.t.Helper()
	if _, err := w.file.WriteString(keys); err != nil {
		w.t.Fatal(err)
	}
}

func (w *terminal) ended() {
	w.t.Helper()
	select {
	case err := <-w.done:
		if err != nil {
			w.t.Errorf("the program ended with %v", err)
		}
	case <-time.After(watchTime):
		w.t.Fatalf("the program does not end; the screen is\n%s", w.text())
	}
}

func TestWatchRedrawsATerminal(t *testing.T) {
	d := newOpsDaemon(t)
	w := watchIn(t, d, 100, 20)
	w.until("no daemon answers at " + opsPath(d.socket)[:20])
	d.start(t)
	w.until("first-agent")
	d.client.Store("second-agent\x1b[31m\nname")
	w.until(`second-agent\x1b[31m\nname`)
	if strings.Contains(w.text(), "first-agent") {
		t.Errorf("the old status is still there:\n%s", w.text())
	}
	d.stop(t)
	w.until("daemon is gone, waiting; this was at")
	d.client.Store("third-agent")
	d.start(t)
	w.until("third-agent")
	w.until("q ends")
	if strings.Contains(w.text(), "gone") {
		t.Errorf("it says that the daemon is gone:\n%s", w.text())
	}
	w.resize(40, 6)
	w.until("more lines: arrows")
	for _, line := range strings.Split(w.text(), "\n") {
		if strings.HasPrefix(line, "servers") {
			t.Errorf("more lines than the terminal has:\n%s", w.text())
		}
	}
	w.press("\x1b[F") // End
	w.until("servers")
	w.resize(200, 20)
	w.until("very very very very very very very very very very very very")
	w.press("q")
	w.ended()
	if alternate := w.screen.IsAltScreen(); alternate || !strings.Contains(w.said.String(), "\x1b[?1049h") {
		t.Errorf("left on the alternate screen: %t; it said %q", alternate, w.said.String())
	}
	if n := strings.Count(w.said.String(), "\x1b[2J"); n > 4 {
		t.Errorf("the screen was cleared %d times: it flickers", n)
	}
}

func TestWatchEndsOnCtrlC(t *testing.T) {
	d := newOpsDaemon(t)
	d.start(t)
	w := watchIn(t, d, 80, 24)
	w.until("first-agent")
	w.press("\x03")
	w.ended()
}

// A blocks collects what a watch prints, and ends it after some blocks.
type blocks struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *blocks) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *blocks) until(t *testing.T, ok func(text string) bool) {
	t.Helper()
	for end := time.Now().Add(watchTime); ; time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		text := b.text.String()
		b.mu.Unlock()
		if ok(text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it does not come; printed was\n%s", text)
		}
	}
}

func TestWatchPrintsBlocks(t *testing.T) {
	d := newOpsDaemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out blocks
	ended := make(chan error, 1)
	go func() { ended <- newWatch(opsPath(d.socket), 0, false).run(ctx, nil, &out) }()
	out.until(t, func(text string) bool { return strings.HasPrefix(text, "no daemon answers at ") })
	d.start(t)
	out.until(t, func(text string) bool {
		return strings.Count(text, "run; `bridged servers` tells more\n\nbridged ") > 2
	})
	d.stop(t)
	// It may go while it is asked.
	gone := regexp.MustCompile(`tells more\n\n(the daemon does not answer, waiting: [^\n]+\n\n)?daemon is gone, waiting\n\n$`)
	out.until(t, gone.MatchString)
	d.start(t)
	out.until(t, func(text string) bool { return strings.Contains(text, "daemon is gone, waiting\n\nbridged ") })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWatchPrintsJSON(t *testing.T) {
	d := newOpsDaemon(t)
	d.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- newWatch(opsPath(d.socket), 0, true).run(ctx, nil, out) }()
	for dec, n := json.NewDecoder(r), 0; n < 3; n++ {
		var s ops.Status
		if err := dec.Decode(&s); err != nil || s.Version != "1.2.3" {
			t.Fatalf("status %d is %+v, %v", n, s, err)
		}
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }() // until the pipe is closed; one more may be on its way
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = r.Close() // that of a pipe never fails
}

func TestIntervalIsForWatch(t *testing.T) {
	cmd := rootCommand()
	cmd.SetArgs([]string{"status", "--interval", "1s"})
	t.Setenv("BRIDGED_SOCKET", filepath.Join(t.TempDir(), "x", "mcp.sock"))
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "add --watch") {
		t.Errorf("got %v, want advice", err)
	}
}
