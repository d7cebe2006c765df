package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// startTimeout bounds a launch, warm imports included. A warm image is
	// ready in about a second; past this the sandbox is dead, not slow.
	startTimeout = 60 * time.Second

	// removeTimeout bounds the removal of a container, which must go on
	// after the caller has given up.
	removeTimeout = 15 * time.Second

	// exitTimeout bounds the wait for the engine to say how a container
	// ended once its stream has.
	exitTimeout = 3 * time.Second

	// maxJunk is how many lines that are no frames a sandbox may send.
	// Hostile code can write to the stream; a harness writes none, but for
	// one when it is killed in the middle of a frame.
	maxJunk = 64

	// defaultOutput is how much a run may print, in bytes, before the middle
	// is cut.
	defaultOutput = 1 << 20

	// writeQueue bounds the frames that wait to be written to a sandbox.
	writeQueue = 16

	// sendTimeout is how long a sandbox may leave its stdin unread while
	// frames wait. C code that holds Python's global lock can take its time.
	sendTimeout = 60 * time.Second
)

// Options say how sandboxes are launched.
type Options struct {
	Spec    runtime.Spec
	Boot    string   // program that takes the harness from stdin
	Payload []byte   // the harness
	Imports []string // done before a sandbox is ready; one that fails is left out
	Output  int      // bytes a run may print before the middle is cut; 0 means 1 MiB
	Logger  zerolog.Logger

	// Abandon is told about each container that could not be removed, so that
	// it can be once the engine is back. It must not block; nil drops them.
	Abandon func(runtime.ID)

	// attest stands in for the comparison with the Spec in tests, whose
	// sandboxes are not in containers.
	attest func(*Posture, runtime.Spec) ([]string, error)
}

// A Sandbox is one container with a live harness in it. Runs in it come one
// at a time; all methods may be called from several goroutines.
type Sandbox struct {
	ID       string // random, also in the container's labels
	Python   string // version
	Degraded []string
	Posture  *Posture
	Created  time.Time

	engine    runtime.Engine
	container runtime.ID
	stream    runtime.Stream
	log       zerolog.Logger
	spec      runtime.Spec
	abandon   func(runtime.ID)
	stderr    tailBuffer
	reader    *frameReader
	out       chan []byte
	ended     chan struct{} // closed when the harness is gone
	done      sync.WaitGroup
	calls     *calls

	mu      sync.Mutex // guards the fields below
	run     *run
	runs    int64
	orphans []Output // printed between runs
	orphan  int      // bytes of them
	end     *inFrame // the harness's last frame
	cause   string   // why it ended
	closed  bool
}

// Launch makes a container, sends it the harness, attests it and waits until
// it is ready. The caller must Close the sandbox.
func Launch(ctx context.Context, engine runtime.Engine, o Options) (*Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Sandbox{
		ID: randomHex(8), engine: engine, abandon: o.Abandon, Created: time.Now(),
		out: make(chan []byte, writeQueue), ended: make(chan struct{}),
	}
	s.log = o.Logger.With().Str("sandbox", s.ID).Logger()
	s.spec = launchSpec(o, s.ID)
	s.calls = newCalls(s)
	if err := s.create(ctx); err != nil {
		return nil, fmt.Errorf("launching sandbox: %w", err)
	}
	if err := s.boot(ctx, o); err != nil {
		err = s.explain(err)
		s.Close()
		return nil, fmt.Errorf("launching sandbox: %w", err)
	}
	s.done.Go(s.read)
	return s, nil
}

// launchSpec completes the Spec with what every sandbox has.
func launchSpec(o Options, id string) runtime.Spec {
	spec := o.Spec.WithDefaults()
	// -I keeps the image's PYTHON* variables and the working directory out.
	spec.Cmd = []string{"python3", "-I", "-B", "-X", "utf8", "-c", o.Boot}
	threads := strconv.Itoa(int(math.Max(1, math.Ceil(spec.CPUs))))
	env := map[string]string{
		"HOME": "/tmp/home", "USER": "sandbox", "LOGNAME": "sandbox", "TMPDIR": "/tmp",
		"LANG": "C.UTF-8", "PYTHONUTF8": "1", "MPLBACKEND": "Agg", "MPLCONFIGDIR": "/tmp/.mpl",
		"XDG_CACHE_HOME": "/tmp/.cache",
		// Numeric libraries start a thread per core of the host otherwise,
		// and each counts as a pid.
		"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
	}
	maps.Copy(env, spec.Env)
	spec.Env = env
	labels := map[string]string{runtime.LabelManaged: "true", runtime.LabelSandbox: id}
	maps.Copy(labels, spec.Labels)
	spec.Labels = labels
	return spec
}

// create makes, attaches and starts the container. The engine goes on to make
// one whose request was canceled, and then nobody knows its name: so that one
// request outlives ctx.
func (s *Sandbox) create(ctx context.Context) error {
	alone, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	id, err := s.engine.Create(alone, s.spec)
	if err != nil {
		return err
	}
	s.container = id
	if err := context.Cause(ctx); err != nil {
		s.Close()
		return err
	}
	s.stream, err = s.engine.Attach(ctx, id, &s.stderr)
	if err == nil {
		err = s.engine.Start(ctx, id)
	}
	if err != nil {
		s.Close()
		return startError(err, s.spec.Image)
	}
	return nil
}

// startError turns an engine's "executable file not found" into advice.
func startError(err error, image string) error {
	text := err.Error()
	if strings.Contains(text, "python3") && (strings.Contains(text, "not found") || strings.Contains(text, "no such file")) {
		return fmt.Errorf("image %s has no python3 on its PATH: use an image with Python 3.9 or later: %w", image, err)
	}
	return err
}

// boot sends the harness and shakes hands. It ends when ctx does.
func (s *Sandbox) boot(ctx context.Context, o Options) error {
	stop := context.AfterFunc(ctx, func() { s.stream.Close() })
	defer stop()
	nonce := randomHex(16)
	header := fmt.Sprintf("bridged-boot %s %d\n", nonce, len(o.Payload))
	s.done.Go(s.write)
	s.out <- append([]byte(header), o.Payload...)
	hello, err := s.hello(nonce)
	if err != nil {
		return cmpErr(ctx, err)
	}
	config, err := s.check(hello, o)
	if err != nil {
		return err
	}
	if err := s.send(config); err != nil {
		return err
	}
	imports, err := s.ready()
	if err != nil {
		return cmpErr(ctx, fmt.Errorf("waiting for the harness to be ready: %w", err))
	}
	s.logImports(imports)
	return nil
}

// ready waits for the end of the warm imports. What a harness that dies here
// has to say comes as output.
func (s *Sandbox) ready() (map[string]json.RawMessage, error) {
	var said strings.Builder
	for range maxJunk {
		line, err := s.reader.next()
		if err != nil {
			return nil, err
		}
		f, err := parseFrame(line)
		if err != nil {
			continue
		}
		for _, p := range f.Parts {
			said.WriteString(clip(p.text))
		}
		switch f.T {
		case "ready":
			return f.Imports, nil
		case "end":
			return nil, fmt.Errorf("it ended: %s", strings.TrimSpace(said.String()))
		}
	}
	return nil, errors.New("it sends other messages")
}

// cmpErr prefers the reason that a context ended for to what came of it.
func cmpErr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w (%v)", cause, err)
	}
	return err
}

// hello skips to the harness's first frame. The nonce in it proves that both
// directions of the stream carry our bytes, whole and unframed.
func (s *Sandbox) hello(nonce string) (inFrame, error) {
	s.reader = newFrameReader(s.stream)
	for skipped := 0; skipped < maxPreamble; {
		line, err := s.reader.next()
		if err != nil && !errors.Is(err, errLongFrame) {
			return inFrame{}, fmt.Errorf("waiting for the harness: %w", err)
		}
		start := strings.Index(string(line), `{"t":"hello"`)
		if start >= 0 {
			f, err := parseFrame(line[start:])
			if err == nil && f.Nonce == nonce && f.Posture != nil {
				s.noteForeign(line[:start])
				return f, nil
			}
		}
		skipped += len(line) + 1
	}
	return inFrame{}, fmt.Errorf("waiting for the harness: %d bytes came that are not its own", maxPreamble)
}

func (s *Sandbox) noteForeign(b []byte) {
	if len(b) > 0 {
		s.log.Warn().Hex("bytes", []byte(head(b))).Msg("foreign bytes before the harness's first frame")
	}
}

// check attests the sandbox and returns its configuration.
func (s *Sandbox) check(hello inFrame, o Options) (configFrame, error) {
	if hello.Protocol != 1 {
		return configFrame{}, fmt.Errorf("harness speaks protocol %d, want 1", hello.Protocol)
	}
	verify := o.attest
	if verify == nil {
		verify = attest
	}
	degraded, err := verify(hello.Posture, s.spec)
	if err != nil {
		return configFrame{}, err
	}
	s.Python, s.Posture, s.Degraded = hello.Python, hello.Posture, degraded
	c := configFrame{T: "config", Imports: o.Imports, Output: o.Output}
	if c.Output == 0 {
		c.Output = defaultOutput
	}
	for _, d := range degraded {
		switch d {
		case degradedMemory:
			c.LimitMemory = s.spec.MemoryBytes
		case degradedPids:
			c.LimitPids = s.spec.Pids
		}
	}
	return c, nil
}

func (s *Sandbox) logImports(imports map[string]json.RawMessage) {
	for name, v := range imports {
		var reason string
		if json.Unmarshal(v, &reason) == nil {
			s.log.Debug().Str("module", name).Str("reason", reason).Msg("warm import left out")
		}
	}
}

// explain adds to err what the container said on stderr and how it ended.
func (s *Sandbox) explain(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if exit, werr := s.engine.Wait(ctx, s.container); werr == nil {
			err = fmt.Errorf("%w: the container ended with exit code %d", err, exit.Code)
		}
	}
	if text := strings.TrimSpace(s.stderr.String()); text != "" {
		err = fmt.Errorf("%w; it said: %s", err, text)
	}
	return err
}

// errEnded means that the harness is gone.
var errEnded = errors.New("sandbox has ended")

// send queues one frame, and waits for room. A sandbox that reads nothing for
// sendTimeout is killed.
func (s *Sandbox) send(f any) error {
	line, err := encode(f)
	if err != nil {
		return err
	}
	select {
	case <-s.ended:
		return errEnded
	case s.out <- line:
		return nil
	default:
	}
	timer := time.NewTimer(sendTimeout)
	defer timer.Stop()
	select {
	case s.out <- line:
		return nil
	case <-s.ended:
		return errEnded
	case <-timer.C:
		s.kill("it did not read its input")
		return errors.New("sandbox does not read its input")
	}
}

// write runs until the harness is gone.
func (s *Sandbox) write() {
	for {
		select {
		case line := <-s.out:
			if _, err := s.stream.Write(line); err != nil {
				s.stream.Close()
				return
			}
		case <-s.ended:
			return
		}
	}
}

// Done is closed when the harness is gone, for whatever reason.
func (s *Sandbox) Done() <-chan struct{} { return s.ended }

// Cause says why the harness is gone, "" while it is not.
func (s *Sandbox) Cause() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Stats samples the sandbox's use of resources once.
func (s *Sandbox) Stats(ctx context.Context) (runtime.Stats, error) {
	return s.engine.Stats(ctx, s.container)
}

// kill ends the container at once and says why. It may be called repeatedly;
// the first reason stays.
func (s *Sandbox) kill(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == "" {
		s.cause = why
	}
	if s.closed {
		return // Close waits for s.done and removes the container anyway
	}
	s.done.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
		defer cancel()
		if err := s.engine.Kill(ctx, s.container, "SIGKILL"); err != nil && !errors.Is(err, runtime.ErrNoContainer) {
			s.log.Warn().Err(err).Msg("kill sandbox")
		}
		s.stream.Close()
	})
}

// Close ends the sandbox and removes its container. It waits until both are
// done, at most about removeTimeout.
func (s *Sandbox) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	if s.cause == "" {
		s.cause = "it was closed"
	}
	s.mu.Unlock()
	if !first {
		return
	}
	s.calls.stop()
	if s.stream != nil {
		s.stream.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if err := s.engine.Remove(ctx, s.container); err != nil {
		s.log.Error().Err(err).Str("container", string(s.container)).Msg("remove sandbox")
		if s.abandon != nil {
			s.abandon(s.container)
		}
	}
	s.endOnce()
	s.done.Wait()
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}

// head returns the start of b for a message.
func head(b []byte) string {
	return string(b[:min(len(b), 200)])
}
