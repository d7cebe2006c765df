package sandbox

import (
	"bytes"
	"cmp"
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
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
)

// idlePids is what a sandbox has of processes and threads while nothing runs in
// it: the harness's, and the threads that numeric libraries keep, one a core.
const idlePids = 24

const (
	// startTimeout bounds a launch, warm imports included. A warm image is
	// ready in about a second; past this the sandbox is dead, not slow.
	startTimeout = 60 * time.Second

	// ProtocolVersion is that of the frames between daemon and sandbox.
	ProtocolVersion = 1

	// exitTimeout bounds the wait for the engine to say how a container
	// ended once its stream has.
	exitTimeout = 3 * time.Second

	// defaultOutput is how much a run may print, in bytes, before the harness
	// sends tails only. It is several times what an agent is shown; every byte
	// of it is encoded, copied by the engine and decoded.
	defaultOutput = 64 << 10

	// maxHello bounds one line until the harness is known to be one. A hello
	// grows with the container's mounts and has a few KiB.
	maxHello = 1 << 20

	// maxStartFrames bounds the frames between hello and ready. Imports that
	// print a lot send one of output every 20 ms.
	maxStartFrames = 10_000
)

// Options say how sandboxes are launched.
type Options struct {
	Spec    runtime.Spec
	Boot    string   // program that takes the harness from stdin
	Payload []byte   // the harness
	Imports []string // done before a sandbox is ready; one that fails is left out
	Output  int      // bytes a run may print before the middle is cut; 0 means 64 KiB
	Logger  zerolog.Logger

	// Grace is how long a sandbox waits for another daemon when its own is gone,
	// before it ends itself; see [Adopt]. 0 has it end with its daemon's stream.
	// Relay is the program by which a daemon comes in.
	Grace time.Duration
	Relay string

	// Others is how many sandboxes may run beside this one. Where an engine
	// sets no limit of processes, the kernel counts those of all sandboxes of
	// a user together (RLIMIT_NPROC, setrlimit(2)), and this one must not find
	// its share used up by others that are idle.
	Others int

	// Abandon is told about each container that could not be removed, so that
	// it can be once the engine is back. It must not block; nil drops them.
	Abandon func(runtime.ID)

	// Traffic counts what goes to and fro; nil is nobody.
	Traffic *Traffic

	// attest stands in for the comparison with the Spec in tests, whose
	// sandboxes are not in containers.
	attest func(*Posture, runtime.Spec) ([]string, error)
	// handle stands in for a random one in the addresses of files.
	handle string
}

// Launch makes a container, sends it the harness, attests it and waits until
// it is ready. The caller must Close the sandbox.
func Launch(ctx context.Context, engine runtime.Engine, o Options) (*Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := newSandbox(engine, o, randomHex(8), newTicket(o, cmp.Or(o.handle, randomHex(16))))
	s.Created = time.Now()
	s.spec = launchSpec(o, s.ID)
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

// newSandbox is a Sandbox without a container.
func newSandbox(engine runtime.Engine, o Options, id string, t Ticket) *Sandbox {
	s := &Sandbox{
		orphans: NewRecord(maxOrphanOutput),
		ID:      id, engine: engine, abandon: o.Abandon, traffic: o.Traffic, ticket: t,
		out: make(chan []byte, writeQueue), ended: make(chan struct{}), removed: make(chan struct{}), freezing: make(chan struct{}, 1),
		letGo: make(chan struct{}, 1), written: make(chan struct{}),
	}
	s.log = o.Logger.With().Str("sandbox", s.ID).Logger()
	s.calls = newCalls(s)
	s.files = newFiles(s, t.Handle)
	return s
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
	header := fmt.Sprintf("bridged-boot %s %d%s\n", nonce, len(o.Payload), s.ticket.words())
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
	var said tailBuffer
	for range maxStartFrames {
		line, err := s.reader.next()
		if err != nil {
			return nil, err
		}
		f, err := parseFrame(line)
		if err != nil {
			continue
		}
		for _, p := range f.Parts {
			said.add(p.text)
		}
		switch f.T {
		case "ready":
			s.reader.max = maxFrame
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
	s.reader.max = maxHello
	for skipped := 0; skipped < maxPreamble; {
		line, err := s.reader.next()
		if errors.Is(err, errLongFrame) {
			break
		}
		if err != nil {
			return inFrame{}, fmt.Errorf("waiting for the harness: %w", err)
		}
		start := bytes.Index(line, []byte(`{"t":"hello"`))
		if start >= 0 {
			f, err := parseFrame(line[start:])
			if err == nil && f.Nonce == nonce && f.Posture != nil {
				s.noteForeign(line[:start])
				return f, nil
			}
		}
		skipped += len(line) + 1
	}
	return inFrame{}, fmt.Errorf("waiting for the harness: more than %d bytes came that are not its own", maxPreamble)
}

func (s *Sandbox) noteForeign(b []byte) {
	if len(b) > 0 {
		s.log.Warn().Hex("bytes", []byte(head(b))).Msg("foreign bytes before the harness's first frame")
	}
}

// check attests the sandbox and returns its configuration.
func (s *Sandbox) check(hello inFrame, o Options) (configFrame, error) {
	if hello.Protocol != ProtocolVersion {
		return configFrame{}, fmt.Errorf("harness speaks protocol %d, want %d", hello.Protocol, ProtocolVersion)
	}
	verify := o.attest
	if verify == nil {
		verify = attest
	}
	degraded, err := verify(hello.Posture, s.spec)
	if err != nil {
		return configFrame{}, err
	}
	s.Python, s.Posture, s.Degraded = head([]byte(hello.Python)), hello.Posture, degraded
	c := configFrame{T: "config", Imports: o.Imports, Output: o.Output, Files: s.files.base, Grace: s.ticket.Grace}
	if c.Output == 0 {
		c.Output = defaultOutput
	}
	for _, d := range degraded {
		switch d {
		case degradedMemory:
			c.LimitMemory = s.spec.MemoryBytes
		case degradedPids:
			c.LimitPids = s.spec.Pids + idlePids*int64(o.Others)
		}
	}
	return c, nil
}

func (s *Sandbox) logImports(imports map[string]json.RawMessage) {
	for name, v := range imports {
		var reason string
		if json.Unmarshal(v, &reason) == nil {
			s.log.Debug().Str("module", name).Str("reason", head([]byte(reason))).Msg("warm import left out")
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
