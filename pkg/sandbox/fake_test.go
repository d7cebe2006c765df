package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// A fakeHarness plays the harness's side of the stream, well or badly.
type fakeHarness struct {
	ctx    context.Context // ends when the container is killed
	in     *bufio.Reader
	out    io.Writer
	stderr io.Writer
	nonce  string
}

// fakeEngine returns an engine whose containers are play, which returns the
// exit code.
func fakeEngine(t testing.TB, play func(h *fakeHarness) int) *enginetest.Memory {
	t.Helper()
	return enginetest.NewMemory(t, enginetest.Options{
		Run: func(ctx context.Context, _ runtime.Spec, stdin io.Reader, stdout, stderr io.Writer) int {
			return play(&fakeHarness{ctx: ctx, in: bufio.NewReader(stdin), out: stdout, stderr: stderr})
		},
	})
}

// fakeOptions launch what fakeEngine plays.
func fakeOptions() Options {
	return Options{
		Spec: runtime.DefaultSpec(enginetest.MemoryImage), Boot: "boot", Payload: []byte("payload"),
		attest: func(*Posture, runtime.Spec) ([]string, error) { return nil, nil },
	}
}

// launchFake launches a sandbox whose harness is polite until it is ready and
// then is play.
func launchFake(t testing.TB, play func(h *fakeHarness) int) (*Sandbox, *enginetest.Memory) {
	t.Helper()
	e := fakeEngine(t, func(h *fakeHarness) int {
		h.start()
		return play(h)
	})
	s, err := Launch(t.Context(), e, fakeOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		expectNothing(t, e)
	})
	return s, e
}

// expectNothing fails the test if the engine holds anything.
func expectNothing(t testing.TB, e *enginetest.Memory) {
	t.Helper()
	if c := e.Counts(); c.Present != 0 || c.Running != 0 || c.OpenStreams != 0 {
		t.Errorf("the engine is left with %d containers (%d running) and %d streams", c.Present, c.Running, c.OpenStreams)
	}
}

// start takes the payload and shakes hands.
func (h *fakeHarness) start() {
	h.boot()
	h.hello()
	h.frame() // config
	h.line(`{"t":"ready","imports":{}}`)
}

// boot takes what boot.py would.
func (h *fakeHarness) boot() {
	var size int64
	line, err := h.in.ReadString('\n')
	if err != nil {
		return
	}
	if _, err := fmt.Sscanf(line, "bridged-boot %s %d", &h.nonce, &size); err != nil {
		panic(fmt.Sprintf("boot line %q: %v", line, err))
	}
	_, _ = io.CopyN(io.Discard, h.in, size) // a killed container reads io.EOF
}

func (h *fakeHarness) hello() {
	h.line(`{"t":"hello","nonce":%q,"protocol":1,"python":"3.13.5","posture":{}}`, h.nonce)
}

// line writes one line, if anybody still listens.
func (h *fakeHarness) line(format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	_, _ = io.WriteString(h.out, text+"\n")
}

// A toHarness is any frame of the daemon's.
type toHarness struct {
	T, Code string
	Told    map[string]string
	Run, ID int64
	Acked   int64
	Result  json.RawMessage
	Error   *replyError
}

// frame reads the daemon's next frame; false when stdin has ended.
func (h *fakeHarness) frame() (toHarness, bool) {
	line, err := h.in.ReadBytes('\n')
	if err != nil {
		return toHarness{}, false
	}
	var f toHarness
	if err := json.Unmarshal(line, &f); err != nil {
		panic(fmt.Sprintf("the daemon sent %q: %v", line, err))
	}
	return f, true
}

// until reads the daemon's frames up to one of a type.
func (h *fakeHarness) until(kind string) (toHarness, bool) {
	for {
		f, ok := h.frame()
		if !ok || f.T == kind {
			return f, ok
		}
	}
}

// done ends a run well.
func (h *fakeHarness) done(run int64) {
	h.line(`{"t":"done","run":%d,"status":"ok"}`, run)
}

// interpreter is a polite harness whose language has these words: "sleep"
// (until interrupted), "ignore" (interrupts), "die" (with code 7), "call" (an
// rpc), "number" (of the run), "told" (of "x"), and any other, which is its own
// value.
func interpreter(h *fakeHarness) int {
	var id int64
	for {
		f, ok := h.until("run")
		if !ok {
			return 0
		}
		switch f.Code {
		case "sleep":
			h.until("interrupt")
			h.line(`{"t":"done","run":%d,"status":"interrupted","error":{"type":"KeyboardInterrupt"}}`, f.Run)
		case "ignore":
			h.until("nothing")
		case "die":
			h.line(`{"t":"end","code":7}`)
			return 7
		case "call":
			id++
			h.line(`{"t":"rpc","id":%d,"method":"m","params":{}}`, id)
			h.until("reply")
			h.done(f.Run)
		case "number":
			h.line(`{"t":"done","run":%d,"status":"ok","value":"%d"}`, f.Run, f.Run)
		case "told":
			h.line(`{"t":"done","run":%d,"status":"ok","value":%q}`, f.Run, f.Told["x"])
		default:
			h.line(`{"t":"done","run":%d,"status":"ok","value":%q}`, f.Run, f.Code)
		}
	}
}

// rpcFunc is a function as an [RPC].
type rpcFunc func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

func (f rpcFunc) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return f(ctx, method, params)
}

// request is code with a time limit that a test should never reach.
func request(code string) Request { return Request{Code: code, Timeout: time.Minute} }

func expectContains(t testing.TB, what, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("got %s %q, want it to contain %q", what, text, want)
	}
}
