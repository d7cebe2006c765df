package enginetest

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// echoProgram answers each line with itself, until stdin ends.
const echoProgram = `
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
`

var streamBehaviours = []behaviour{
	{"lines go in and come back", testEcho},
	{"control bytes, binary and long lines pass unchanged", testBytes},
	{"output written right after the start is not lost", testEarlyOutput},
	{"what was written before the start arrives", testEarlyInput},
	{"after a half-close all output and the exit code arrive", testHalfClose},
	{"much output on both files arrives whole", testMuchOutput},
	{"a closed stream fails and does not hang", testClosedStream},
	{"two streams get the same output", testTwoStreams},
	{"a second attach finds stdin as the engine says", testSecondAttach},
	{"an exec has streams of its own", testExec},
	{"an exec that can't be is told", testBadExec},
}

func testEcho(l *lab) {
	r := l.run(echoProgram)
	for i := range 20 {
		r.ask(fmt.Sprint("line ", i))
	}
}

func testBytes(l *lab) {
	var all strings.Builder
	for b := range 256 {
		if b != '\n' {
			all.WriteByte(byte(b))
		}
	}
	r := l.run(echoProgram)
	r.ask("\x03\x04\x10\x11\x1a and \x10\x11 again")
	r.ask("\x01\x00\x00\x00\x00\x00\x00\x05like a header")
	r.ask(all.String())
	r.ask(strings.Repeat("x", 100<<10))
	r.ask("")
	// Detach keys count where they come alone.
	for _, key := range []string{"\x10", "\x11", "\x03", "\x04"} {
		r.write(key)
		time.Sleep(20 * time.Millisecond) // each is a read of its own
	}
	r.write("\n")
	if got, want := r.line(), "\x10\x11\x03\x04"; got != want {
		l.Errorf("control bytes one by one came back as %q, want %q", got, want)
	}
	x := l.exec(r.id, "python3", "-u", "-c", echoProgram)
	for _, key := range []string{"\x10", "\x11"} {
		x.write(key)
		time.Sleep(20 * time.Millisecond)
	}
	x.write("\n")
	if got, want := x.line(), "\x10\x11"; got != want {
		l.Errorf("control bytes one by one came back from an exec as %q, want %q", got, want)
	}
}

// earlyRuns is how often the race between attach and start is run.
const earlyRuns = 24

func testEarlyOutput(l *lab) {
	programs := []struct {
		program, stdout, stderr string
		code                    int
	}{
		{"print('READY')", "READY\n", "", 0},
		{"import sys; sys.exit('sorry')", "", "sorry\n", 1},
	}
	inParallel(4, earlyRuns, func(i int) {
		want := programs[i%len(programs)]
		r := l.tryRun(want.program)
		if r == nil {
			return
		}
		stdout, err := io.ReadAll(r.lines)
		exit, waitErr := l.e.Wait(l.ctx, r.id)
		if err != nil || waitErr != nil {
			l.Errorf("run %d: reading: %v, Wait: %v", i, err, waitErr)
		}
		if got := string(stdout); got != want.stdout {
			l.Errorf("run %d: stdout = %q, want %q", i, got, want.stdout)
		}
		if got := r.stderr.String(); got != want.stderr {
			l.Errorf("run %d: stderr = %q, want %q", i, got, want.stderr)
		}
		if exit.Code != want.code {
			l.Errorf("run %d: exit code %d, want %d", i, exit.Code, want.code)
		}
		l.remove(r.id)
	})
}

// tryRun is run for a goroutine that is not the test's: it returns nil after an
// error.
func (l *lab) tryRun(program string) *running {
	id, err := l.e.Create(l.ctx, l.python(program))
	if err != nil {
		l.Errorf("Create: %v", err)
		return nil
	}
	l.Cleanup(func() { l.removeLate(id) })
	r := &running{l: l, id: id}
	s, err := l.e.Attach(l.ctx, id, &r.stderr)
	if err != nil {
		l.Errorf("Attach: %v", err)
		return nil
	}
	r.use(s)
	if err := l.e.Start(l.ctx, id); err != nil {
		l.Errorf("Start: %v", err)
		return nil
	}
	return r
}

// inParallel calls do for 0 to n-1, at most width at a time.
func inParallel(width, n int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

func testEarlyInput(l *lab) {
	r := l.attach(l.create(l.python(echoProgram)))
	r.write("early\n")
	if err := l.e.Start(l.ctx, r.id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	if got := r.line(); got != "early" {
		l.Errorf("line = %q, want early", got)
	}
}

func testHalfClose(l *lab) {
	info, err := l.e.Info(l.ctx)
	if err != nil {
		l.Fatalf("Info: %v", err)
	}
	read := "sys.stdin.buffer.read()"
	if !info.StdinOnce {
		read = "sys.stdin.buffer.read(1)" // the end does not come
	}
	r := l.run(`
import sys, time
got = ` + read + `
time.sleep(0.1) # until the half-close has come
sys.stdout.buffer.write(b"a" * (1 << 20))
sys.stdout.buffer.flush()
sys.exit(5 if got == b"x" else 6)
`)
	r.write("x")
	r.closeWrite()
	if got := len(r.rest()); got != 1<<20 {
		l.Errorf("%d bytes of output, want %d", got, 1<<20)
	}
	if got, want := l.wait(r.id), (runtime.Exit{Code: 5}); got != want {
		l.Errorf("exit = %+v, want %+v", got, want)
	}
	if _, err := r.stream.Write([]byte("y")); err == nil {
		l.Errorf("Write after CloseWrite succeeded")
	}
}

func testMuchOutput(l *lab) {
	r := l.run(`
import sys
for i in range(100):
    sys.stdout.write("o" * 100000)
    sys.stderr.write("e" * 10000)
    sys.stderr.flush()
    sys.stdout.flush()
`)
	stdout := r.rest()
	if got, want := strings.Count(stdout, "o"), 10000000; got != want || len(stdout) != want {
		l.Errorf("stdout has %d o's in %d bytes, want %d", got, len(stdout), want)
	}
	stderr := r.stderr.String()
	if got, want := strings.Count(stderr, "e"), 1000000; got != want || len(stderr) != want {
		l.Errorf("stderr has %d e's in %d bytes, want %d", got, len(stderr), want)
	}
}

func testClosedStream(l *lab) {
	r := l.run(echoProgram)
	r.ask("a")
	done := make(chan error, 1)
	go func() {
		_, err := r.stream.Read(make([]byte, 1))
		done <- err
	}()
	r.close()
	select {
	case err := <-done:
		if err == nil {
			l.Errorf("Read of a closed stream got a byte")
		}
	case <-l.ctx.Done():
		l.Fatalf("Read of a closed stream hangs")
	}
	if _, err := r.stream.Write([]byte("b\n")); err == nil {
		l.Errorf("Write to a closed stream succeeded")
	}
	_ = r.stream.Close() // a second one does no harm
}

func testTwoStreams(l *lab) {
	a := l.run(echoProgram)
	a.ask("only a")
	b := l.attach(a.id)
	a.write("both\n")
	for name, r := range map[string]*running{"first": a, "second": b} {
		if got := r.line(); got != "both" {
			l.Errorf("the %s stream got %q, want both", name, got)
		}
	}
}

// tickProgram echoes until stdin ends, and then ticks for ever.
const tickProgram = echoProgram + `
import time
while True:
    sys.stdout.buffer.write(b"tick\n") # at once: print writes the line's end by itself
    sys.stdout.buffer.flush()
    time.sleep(0.05)
`

func testSecondAttach(l *lab) {
	info, err := l.e.Info(l.ctx)
	if err != nil {
		l.Fatalf("Info: %v", err)
	}
	first := l.run(tickProgram)
	first.ask("hello")
	first.close()

	second := l.attach(first.id)
	if !info.StdinOnce {
		second.ask("again")
		return
	}
	if got := second.line(); got != "tick" {
		l.Errorf("line after the first stream's end = %q, want tick", got)
	}
}

func testExec(l *lab) {
	r := l.run(echoProgram)
	x := l.exec(r.id, "python3", "-c", "import sys; print(sys.stdin.read().upper(), end=''); sys.exit('bye')")
	x.write("abc\x10\x11")
	x.closeWrite()
	if got, want := x.rest(), "ABC\x10\x11"; got != want {
		l.Errorf("stdout of the exec = %q, want %q", got, want)
	}
	if got, want := x.stderr.String(), "bye\n"; got != want {
		l.Errorf("stderr of the exec = %q, want %q", got, want)
	}
	r.ask("the container is unharmed")
}

func testBadExec(l *lab) {
	id := l.create(l.python(echoProgram))
	if s, err := l.e.Exec(l.ctx, id, runtime.Command{Argv: []string{"python3"}}, nil); err == nil {
		_ = s.Close()
		l.Errorf("Exec in a container that was not started succeeded")
	} else if !isRefusal(err) {
		l.Errorf("Exec in a container that was not started: %v, want a refusal", err)
	}
	if err := l.e.Start(l.ctx, id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	// Some engines refuse and others end the stream; none may hang.
	s, err := l.e.Exec(l.ctx, id, runtime.Command{Argv: []string{"/no/such/program"}}, nil)
	if err != nil {
		return
	}
	_, _ = io.ReadAll(s)
	_ = s.Close()
}
