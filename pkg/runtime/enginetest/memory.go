package enginetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/bridged/bridged/pkg/runtime"
)

// MemoryImage is the image that every [Memory] holds from the start.
const MemoryImage = "localhost/bridged-memory:test"

// Options configure a [Memory]. The zero value runs containers as processes.
type Options struct {
	// Run stands in for every container's first process and for every exec,
	// which sees its argv as spec.Cmd. Nil runs spec.Cmd as a process of
	// this machine, in an empty folder and with no environment but PATH,
	// HOME and spec.Env.
	Run Func

	// Info is what the engine says of itself; empty fields get defaults.
	Info runtime.Info

	// StdinOnce ends a container's stdin for good when the first attached
	// stream is closed or half-closed, as Podman does. Otherwise stdin stays
	// open for the next stream, as on Docker.
	StdinOnce bool
}

// A Func is a container's first process. Its result is the exit code. Stdin
// reads io.EOF when it has ended (see Options.StdinOnce) and after the container was killed; ctx ends
// when the container is killed, and the engine's cleanup waits for the return.
type Func func(ctx context.Context, spec runtime.Spec, stdin io.Reader, stdout, stderr io.Writer) int

// Counts says what a [Memory] has done since it was made.
type Counts struct {
	Created, Started, Removed int // containers
	Execs, Attached           int
	Present, Running          int // containers at this moment
	OpenStreams               int // at this moment
}

// A Memory is an engine without containers. All methods may be called from
// several goroutines at once.
type Memory struct {
	opts Options
	tb   testing.TB
	done sync.WaitGroup // every goroutine of every container

	mu          sync.Mutex // guards the fields below; never held with container.mu
	containers  map[runtime.ID]*container
	images      map[string]runtime.Image
	faults      map[string]*fault
	watchers    map[*watcher]struct{}
	counts      Counts
	unreachable bool
}

var _ runtime.Engine = (*Memory)(nil)

// NewMemory returns an engine that holds [MemoryImage]. When the test ends,
// everything the engine runs is killed and waited for.
func NewMemory(tb testing.TB, opts Options) *Memory {
	m := &Memory{
		opts:       opts,
		tb:         tb,
		containers: make(map[runtime.ID]*container),
		images:     make(map[string]runtime.Image),
		faults:     make(map[string]*fault),
		watchers:   make(map[*watcher]struct{}),
	}
	m.AddImage(MemoryImage, map[string]string{runtime.LabelImage: "true"})
	tb.Cleanup(m.shutdown)
	return m
}

// Info implements [runtime.Engine].
func (m *Memory) Info(ctx context.Context) (runtime.Info, error) {
	if err := m.enter(ctx, "info"); err != nil {
		return runtime.Info{}, err
	}
	info := m.opts.Info
	if info == (runtime.Info{}) {
		info = runtime.Info{Version: "1.0", APIVersion: "1.0", CgroupVersion: "2"}
	}
	if info.Name == "" {
		info.Name = "memory"
	}
	if info.Endpoint == "" {
		info.Endpoint = "memory://"
	}
	info.StdinOnce = m.opts.StdinOnce
	return info, nil
}

// Create implements [runtime.Engine].
func (m *Memory) Create(ctx context.Context, spec runtime.Spec) (runtime.ID, error) {
	if err := m.enter(ctx, "create"); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.images[spec.Image]; !ok {
		return "", noImage("create", spec.Image)
	}
	for _, m := range spec.Mounts { // its containers see this machine's files anyway
		if _, err := os.Stat(m.Source); err != nil {
			return "", refusal("create", 400, "mount source %s: %v", m.Source, err)
		}
	}
	return m.addLocked(newContainer(m, spec.WithDefaults(), m.opts.StdinOnce)), nil
}

// addLocked takes in a new container.
func (m *Memory) addLocked(c *container) runtime.ID {
	m.containers[c.id] = c
	m.counts.Created++
	m.counts.Present++
	m.emitLocked(c, "create")
	return c.id
}

// Attach implements [runtime.Engine].
func (m *Memory) Attach(ctx context.Context, id runtime.ID, stderr io.Writer) (runtime.Stream, error) {
	c, err := m.find(ctx, "attach", id)
	if err != nil {
		return nil, err
	}
	s, err := c.proc.attach(stderr)
	if err != nil {
		return nil, err
	}
	m.count(func(n *Counts) { n.Attached++; n.OpenStreams++ })
	return s, nil
}

// Start implements [runtime.Engine].
func (m *Memory) Start(ctx context.Context, id runtime.ID) error {
	c, err := m.find(ctx, "start", id)
	if err != nil {
		return err
	}
	if err := c.start(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Started++
	m.counts.Running++
	m.emitLocked(c, "start")
	close(c.known)
	return nil
}

// Exec implements [runtime.Engine]. The command has the user of the test.
func (m *Memory) Exec(ctx context.Context, id runtime.ID, cmd runtime.Command, stderr io.Writer) (runtime.Stream, error) {
	c, err := m.find(ctx, "exec", id)
	if err != nil {
		return nil, err
	}
	s, err := c.exec(cmd.Argv, stderr)
	if err != nil {
		return nil, err
	}
	m.count(func(n *Counts) { n.Execs++; n.OpenStreams++ })
	return s, nil
}

// Kill implements [runtime.Engine]. A container that is a Func ends on
// SIGKILL and SIGTERM and ignores other signals.
func (m *Memory) Kill(ctx context.Context, id runtime.ID, signal string) error {
	c, err := m.find(ctx, "kill", id)
	if err != nil {
		return err
	}
	return c.kill(signal)
}

// Pause implements [runtime.Engine]. A Func that is paused reads and writes
// nothing; what it does otherwise goes on.
func (m *Memory) Pause(ctx context.Context, id runtime.ID) error {
	return m.freeze(ctx, "pause", id, "running", "paused")
}

// Unpause implements [runtime.Engine].
func (m *Memory) Unpause(ctx context.Context, id runtime.ID) error {
	return m.freeze(ctx, "unpause", id, "paused", "running")
}

// freeze moves a container from one state to the other.
func (m *Memory) freeze(ctx context.Context, op string, id runtime.ID, from, to string) error {
	c, err := m.find(ctx, op, id)
	if err != nil {
		return err
	}
	if err := c.move(op, from, to); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.emitLocked(c, op)
	return nil
}

// Wait implements [runtime.Engine].
func (m *Memory) Wait(ctx context.Context, id runtime.ID) (runtime.Exit, error) {
	c, err := m.find(ctx, "wait", id)
	if err != nil {
		return runtime.Exit{}, err
	}
	select {
	case <-c.ended:
		return c.exitStatus(), nil
	case <-ctx.Done():
		return runtime.Exit{}, ctx.Err()
	}
}

// List implements [runtime.Engine].
func (m *Memory) List(ctx context.Context, labels map[string]string) ([]runtime.Container, error) {
	if err := m.enter(ctx, "list"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.containers))
	m.mu.Unlock()

	var rows []runtime.Container
	for _, c := range all {
		if carries(c.spec.Labels, labels) {
			rows = append(rows, c.row())
		}
	}
	return rows, nil
}

// Remove implements [runtime.Engine].
func (m *Memory) Remove(ctx context.Context, id runtime.ID) error {
	if err := m.enter(ctx, "remove"); err != nil {
		return err
	}
	m.mu.Lock()
	c, ok := m.containers[id]
	delete(m.containers, id)
	m.mu.Unlock()
	if !ok {
		return nil
	}
	c.end(runtime.Exit{Code: 137})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Removed++
	m.counts.Present--
	m.emitLocked(c, "remove")
	return nil
}

// Close implements [runtime.Engine].
func (m *Memory) Close() error { return nil }

// Counts returns what the engine has done so far.
func (m *Memory) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// find is enter for a call that names a container.
func (m *Memory) find(ctx context.Context, op string, id runtime.ID) (*container, error) {
	if err := m.enter(ctx, op); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.containers[id]
	if !ok {
		return nil, noContainer(op, id)
	}
	return c, nil
}

func (m *Memory) count(change func(*Counts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.counts)
}

func (m *Memory) shutdown() {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.containers))
	for w := range m.watchers {
		m.dropWatcherLocked(w)
	}
	m.mu.Unlock()
	for _, c := range all {
		c.end(runtime.Exit{Code: 137})
	}
	m.done.Wait()
}

// carries reports whether have holds every label of want.
func carries(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func newID() runtime.ID {
	var b [32]byte
	rand.Read(b[:])
	return runtime.ID(hex.EncodeToString(b[:]))
}

func noImage(op, ref string) error {
	return &runtime.EngineError{Op: op, Status: 404, Msg: "no such image: " + ref, Err: runtime.ErrNoImage}
}

func noContainer(op string, id runtime.ID) error {
	return &runtime.EngineError{
		Op: op, Status: 404, Err: runtime.ErrNoContainer,
		Msg: fmt.Sprintf("no such container: %s", id),
	}
}

func refusal(op string, status int, format string, args ...any) error {
	return &runtime.EngineError{Op: op, Status: status, Msg: fmt.Sprintf(format, args...)}
}
