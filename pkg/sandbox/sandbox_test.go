package sandbox

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// hang is how long nothing in these tests takes.
const hang = time.Minute

// localOptions launch the real harness as a process of this machine, which
// can't be attested.
func localOptions(t testing.TB) Options {
	t.Helper()
	spec := runtime.DefaultSpec("python")
	spec.Env = map[string]string{"HOME": t.TempDir(), "MPLCONFIGDIR": t.TempDir(), "TMPDIR": t.TempDir()}
	return Options{
		Spec: spec, Boot: images.Boot(), Payload: images.Payload(), Relay: images.Relay(), Grace: DefaultGrace,
		attest: func(*Posture, runtime.Spec) ([]string, error) { return nil, nil },
	}
}

func launchLocal(t testing.TB) *Sandbox {
	t.Helper()
	e := enginetest.NewMemory(t, enginetest.Options{})
	e.AddImage("python", nil)
	s, err := Launch(t.Context(), e, localOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		expectNothing(t, e)
	})
	return s
}

func output(res Result) string {
	var b strings.Builder
	for _, o := range res.Output {
		b.WriteString(o.Text)
	}
	return b.String()
}

func TestRunKeepsVariables(t *testing.T) {
	s := launchLocal(t)
	s.Run(context.Background(), request("x = 20"), nil)
	res := s.Run(context.Background(), request("print('hi')\nx + 1"), nil)
	if res.Status != StatusOK || res.Value != "21" || output(res) != "hi\n" {
		t.Errorf("got %+v, want value 21 and output hi", res)
	}
}

func TestRunStreamsOutputAndPictures(t *testing.T) {
	s := launchLocal(t)
	early := make(chan Output, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==" // one pixel
	code := "class P:\n    def _repr_png_(self): return '" + picture + "'\ndisplay(P())\nimport time\nprint('early')\ntime.sleep(600)"
	result := make(chan Result)
	go func() { result <- s.Run(ctx, request(code), func(o Output) { early <- o }) }()
	for want := "early\n"; want != ""; { // print writes the end of a line apart
		o := <-early
		rest, ok := strings.CutPrefix(want, o.Text)
		if !ok || o.Stream != Stdout {
			t.Fatalf("got output %+v while the code runs, want early", o)
		}
		want = rest
	}
	cancel()
	res := <-result
	data, err := base64.StdEncoding.DecodeString(picture)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Rich{{"image/png", data}}, res.Rich); diff != "" {
		t.Errorf("pictures (-want +got):\n%s", diff)
	}
	if res.Status != StatusInterrupted || res.StateLost != "" || res.Error == nil || res.Error.Type != "KeyboardInterrupt" {
		t.Errorf("got %+v, want it interrupted", res)
	}
}

func TestRunAtItsTimeLimit(t *testing.T) {
	tests := []struct{ name, code, lost string }{
		{"plain code", "import time; time.sleep(600)", ""},
		{"a top-level await", "import asyncio; await asyncio.sleep(600)", ""},
		{"a loop in C that ignores interrupts", "max(range(10**12))", "did not stop within 3s of being interrupted"},
		{"code that catches everything", "import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass", "did not stop within 3s"},
		// The harness has both ways into a sleep.
		{"signals that are blocked", "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGURG])\ntime.sleep(600)", "did not stop within 3s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := launchLocal(t)
			s.Run(t.Context(), request("x = 1"), nil)
			limit := 200 * time.Millisecond
			if tt.lost != "" {
				limit = 5 * time.Second // code that is interrupted before it gets there does stop
			}
			res := s.Run(t.Context(), Request{Code: tt.code, Timeout: limit}, nil)
			if res.Status != StatusTimeout || (res.StateLost == "") != (tt.lost == "") {
				t.Errorf("got status %s and state lost %q, want %s and %q", res.Status, res.StateLost, StatusTimeout, tt.lost)
			}
			expectContains(t, "state lost", res.StateLost, tt.lost)
			if tt.lost != "" {
				return
			}
			if res := s.Run(t.Context(), request("x"), nil); res.Value != "1" {
				t.Errorf("got %+v after the interrupt, want value 1", res)
			}
		})
	}
}

func TestRunThatEndsItsProcess(t *testing.T) {
	tests := []struct{ code, lost string }{
		{"os._exit(7)", "Python ended with exit code 7"},
		{"os.kill(os.getpid(), signal.SIGKILL)", "Python was ended by SIGKILL"},
		{"os.abort()", "Python was ended by SIGABRT"},
		{"import ctypes; ctypes.string_at(0)", "Python was ended by SIGSEGV"},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			s := launchLocal(t)
			res := s.Run(t.Context(), request("import os, signal; print('last words'); "+tt.code), nil)
			if res.Status != StatusLost || res.StateLost != tt.lost {
				t.Errorf("got status %s and state lost %q, want %s and %q", res.Status, res.StateLost, StatusLost, tt.lost)
			}
			expectContains(t, "output", output(res), "last words\n")
			for _, o := range res.Output {
				if o.Background {
					t.Errorf("got %+v as background output", o)
				}
			}
		})
	}
}

func TestRunWhoseCodeIsTooLongForAFrame(t *testing.T) {
	s := launchLocal(t)
	res := s.Run(t.Context(), request(strings.Repeat("\x01", maxFrame/6+1)), nil)
	if res.Status != StatusError || res.StateLost != "" {
		t.Errorf("got %+v, want an error that loses nothing", res)
	}
	if res := s.Run(t.Context(), request("1+1"), nil); res.Value != "2" {
		t.Errorf("got %+v, want value 2", res)
	}
}

func TestRunWithEndlessOutputIsBounded(t *testing.T) {
	s := launchLocal(t)
	res := s.Run(t.Context(), Request{Code: "while True: print('y' * 1000)", Timeout: 3 * time.Second}, nil)
	if res.Status != StatusTimeout || res.StateLost != "" || res.Cut == 0 {
		t.Errorf("got status %s, state lost %q, %d bytes cut", res.Status, res.StateLost, res.Cut)
	}
	if n := len(output(res)); n > maxRunOutput {
		t.Errorf("got %d bytes of output, want at most %d", n, maxRunOutput)
	}
}

func TestStderrOfAnInterpreterThatCannotStart(t *testing.T) {
	e := enginetest.NewMemory(t, enginetest.Options{})
	e.AddImage("python", nil)
	o := localOptions(t)
	o.Boot = "import sys; print('no module named zlib', file=sys.stderr); sys.exit(3)"
	_, err := Launch(t.Context(), e, o)
	if err == nil {
		t.Fatal("the launch worked")
	}
	expectContains(t, "error", err.Error(), "ended with exit code 3; it said: no module named zlib")
	expectNothing(t, e)
}
