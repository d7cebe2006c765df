package enginetest

import (
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// A container is one of a [Memory].
type container struct {
	m       *Memory
	id      runtime.ID
	name    string
	spec    runtime.Spec
	server  runtime.ServerSpec // of a server's container
	created time.Time
	proc    *process
	known   chan struct{} // closed when its start has been counted and told
	ended   chan struct{} // closed when the container has ended

	mu      sync.Mutex // guards the fields below
	state   string     // "created", "running", "paused" or "exited"
	exit    runtime.Exit
	forced  bool // exit is a fault's and not the process's
	execs   []*process
	started time.Time
}

func newContainer(m *Memory, spec runtime.Spec, stdinOnce bool) *container {
	id := newID()
	return &container{
		m: m, id: id, spec: spec, name: "memory-" + string(id[:12]),
		created: time.Now(),
		proc:    newProcess(m, spec, stdinOnce),
		known:   make(chan struct{}),
		ended:   make(chan struct{}),
		state:   "created",
	}
}

func (c *container) start() error {
	c.mu.Lock()
	if c.state != "created" {
		defer c.mu.Unlock()
		return refusal("start", 409, "container is %s", c.state)
	}
	c.state = "running"
	c.started = time.Now()
	c.mu.Unlock()

	err := c.proc.start(c.over)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.state = "created"
	}
	return err
}

// move pauses the container or ends that.
func (c *container) move(op, from, to string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != from {
		return refusal(op, 409, "container is %s and not %s", c.state, from)
	}
	c.state = to
	for _, p := range append([]*process{c.proc}, c.execs...) {
		p.freeze(to == "paused")
	}
	return nil
}

// alive reports whether the first process lives. The caller holds the lock.
func (c *container) aliveLocked() bool { return c.state == "running" || c.state == "paused" }

// over records that the first process has ended. It runs once.
func (c *container) over(code int) {
	<-c.known
	c.mu.Lock()
	if !c.forced {
		c.exit = runtime.Exit{Code: code}
	}
	c.state = "exited"
	execs := c.execs
	c.mu.Unlock()

	for _, p := range execs {
		p.signal(syscall.SIGKILL)
	}
	c.m.died(c)
	close(c.ended)
}

// end ends the container with exit, whatever state it is in.
func (c *container) end(exit runtime.Exit) {
	c.mu.Lock()
	running, exited := c.aliveLocked(), c.state == "exited"
	if running {
		c.exit, c.forced = exit, true
	}
	c.mu.Unlock()
	if running {
		c.proc.signal(syscall.SIGKILL)
	}
	if running || exited { // one that exits just now has yet to be counted
		<-c.ended
	}
	c.dropStreams()
}

// dropStreams ends every attached stream.
func (c *container) dropStreams() {
	c.mu.Lock()
	procs := append([]*process{c.proc}, c.execs...)
	c.mu.Unlock()
	for _, p := range procs {
		for _, s := range p.attached() {
			s.out.closeWrite()
		}
	}
}

func (c *container) exec(argv []string, stderr io.Writer) (*stream, error) {
	c.mu.Lock()
	state := c.state
	c.mu.Unlock()
	if state != "running" {
		return nil, refusal("exec", 409, "container is %s", state)
	}
	spec := c.spec
	spec.Cmd = argv
	p := newProcess(c.m, spec, true)
	s, err := p.attach(stderr)
	if err != nil {
		return nil, err
	}
	if err := p.start(func(int) {}); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.execs = append(c.execs, p)
	if c.state != "running" { // it ended meanwhile
		p.signal(syscall.SIGKILL)
	}
	return s, nil
}

func (c *container) kill(signal string) error {
	sig, err := signalNumber(signal)
	if err != nil {
		return err
	}
	c.mu.Lock()
	state, alive := c.state, c.aliveLocked()
	c.mu.Unlock()
	if !alive {
		return refusal("kill", 409, "container is %s", state)
	}
	c.proc.signal(sig)
	return nil
}

func (c *container) exitStatus() runtime.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

func (c *container) row() runtime.Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	return runtime.Container{
		ID: c.id, Name: c.name, State: c.state,
		Labels: c.spec.Labels, Created: c.created,
	}
}
