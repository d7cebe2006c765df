package enginetest

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bridged/bridged/pkg/runtime"
)

// drainTime bounds the wait for output that a process of a dead container
// still holds the pipe of. Its group has been killed, so only one that left
// the group can make this pass.
const drainTime = 2 * time.Second

// A process is a container's first process or an exec, with the streams that
// are attached to it.
type process struct {
	m     *Memory
	spec  runtime.Spec
	stdin *pipe
	over  chan struct{} // closed when it has ended, before its output is drained

	// stdinOnce ends stdin when a stream does. It is so for every exec.
	stdinOnce bool

	mu      sync.Mutex // guards the fields below
	streams map[*stream]struct{}
	closed  bool // its output has ended
	kill    func(syscall.Signal)
	thawed  chan struct{} // closed when a Func's pause ends; nil while there is none
}

func newProcess(m *Memory, spec runtime.Spec, stdinOnce bool) *process {
	return &process{
		m: m, spec: spec, stdinOnce: stdinOnce,
		stdin:   newPipe(),
		over:    make(chan struct{}),
		streams: make(map[*stream]struct{}),
	}
}

// attach returns a stream of everything written from now on.
func (p *process) attach(stderr io.Writer) (*stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.isOver() {
		return nil, refusal("attach", 409, "the process has ended")
	}
	s := &stream{p: p, out: newPipe(), stderr: stderr}
	p.streams[s] = struct{}{}
	return s, nil
}

// start runs the process and calls ended with its exit code when it ends.
func (p *process) start(ended func(code int)) error {
	if p.m.opts.Run != nil {
		p.startFunc(ended)
		return nil
	}
	return p.startCommand(ended)
}

func (p *process) startFunc(ended func(int)) {
	ctx, cancel := context.WithCancel(context.Background())
	var once sync.Once
	finish := func(code int) {
		once.Do(func() {
			close(p.over)
			cancel()
			p.stdin.closeRead()
			p.closeStreams()
			ended(code)
		})
	}
	p.setKill(func(sig syscall.Signal) {
		if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
			finish(128 + int(sig))
		}
	})
	// It ends when the Func returns; finish lets the Func's reads and writes
	// fail, and ends its context.
	p.m.done.Go(func() {
		finish(p.m.opts.Run(ctx, p.spec, funcStdin{p.stdin}, fan{p, false}, fan{p, true}))
	})
}

func (p *process) startCommand(ended func(int)) error {
	if len(p.spec.Cmd) == 0 {
		return refusal("start", 400, "no command specified")
	}
	path, ok := lookPath(p.spec.Cmd[0])
	if !ok {
		return refusal("start", 400, "exec: %q: executable file not found in $PATH", p.spec.Cmd[0])
	}
	dir, err := os.MkdirTemp("", "bridged-memory-")
	if err != nil {
		return refusal("start", 500, "making a folder: %v", err)
	}
	cmd := &exec.Cmd{
		Path: path, Args: p.spec.Cmd, Dir: dir, Env: environment(p.spec.Env),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := p.run(cmd, ended); err != nil {
		return refusal("start", 500, "%v", errors.Join(err, os.RemoveAll(dir)))
	}
	return nil
}

// run starts cmd with pipes for its three streams.
func (p *process) run(cmd *exec.Cmd, ended func(int)) error {
	var theirs, ours [3]*os.File
	for fd := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		theirs[fd], ours[fd] = r, w
		if fd > 0 {
			theirs[fd], ours[fd] = w, r
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	err := cmd.Start()
	for _, f := range theirs {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		for _, f := range ours {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	p.setKill(func(sig syscall.Signal) {
		// The group is gone when the process has ended by itself.
		_ = syscall.Kill(-cmd.Process.Pid, sig)
	})
	p.m.done.Go(func() { p.supervise(cmd, ours, ended) })
	return nil
}

// supervise moves bytes until the process has ended and its output is drained.
func (p *process) supervise(cmd *exec.Cmd, ours [3]*os.File, ended func(int)) {
	var feeder, pumps sync.WaitGroup
	feeder.Go(func() { feed(ours[0], p.stdin) })
	pumps.Go(func() { drain(fan{p, false}, ours[1]) })
	pumps.Go(func() { drain(fan{p, true}, ours[2]) })

	code := exitCode(cmd.Wait())
	// As in a container, nothing outlives the first process.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	close(p.over)
	p.stdin.closeRead()
	deadline := time.Now().Add(drainTime)
	for _, f := range ours {
		_ = f.SetDeadline(deadline)
	}
	ended(code)
	pumps.Wait()
	p.closeStreams()
	feeder.Wait()
	_ = os.RemoveAll(cmd.Dir)
}

// feed copies stdin to the process until either side ends. Errors only say
// that the process has left.
func feed(w *os.File, stdin *pipe) {
	_, _ = io.Copy(w, stdin)
	_ = w.Close()
}

// drain copies the process's output to whoever is attached.
func drain(w io.Writer, r *os.File) {
	_, _ = io.Copy(w, r)
	_ = r.Close()
}

// signal sends sig; one that has not started or has ended ignores it.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	kill := p.kill
	p.mu.Unlock()
	select {
	case <-p.over:
		return
	default:
	}
	if kill != nil {
		kill(sig)
	}
}

func (p *process) setKill(kill func(syscall.Signal)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill = kill
}

// freeze pauses the process or ends that.
func (p *process) freeze(on bool) {
	if p.m.opts.Run == nil {
		sig := syscall.SIGCONT
		if on {
			sig = syscall.SIGSTOP
		}
		p.signal(sig)
		return
	}
	p.stdin.freeze(on)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on:
		p.thawed = make(chan struct{})
	case p.thawed != nil:
		close(p.thawed)
		p.thawed = nil
	}
}

// awaitThaw waits while a Func is paused and its container lives.
func (p *process) awaitThaw() {
	p.mu.Lock()
	thawed := p.thawed
	p.mu.Unlock()
	if thawed == nil {
		return
	}
	select {
	case <-thawed:
	case <-p.over:
	}
}

// attached returns the streams of this moment.
func (p *process) attached() []*stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.streams))
}

// closeStreams ends every stream after what it has buffered.
func (p *process) closeStreams() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, s := range p.attached() {
		s.out.closeWrite()
	}
}

// detach forgets s.
func (p *process) detach(s *stream) {
	p.mu.Lock()
	delete(p.streams, s)
	p.mu.Unlock()
	if p.stdinOnce {
		p.stdin.closeWrite()
	}
	p.m.count(func(n *Counts) { n.OpenStreams-- })
}

// A fan writes a process's output to all of its streams. Output that nobody is
// attached to is lost, as with a real engine and no log.
type fan struct {
	p      *process
	stderr bool
}

// Write implements [io.Writer]. It fails only when the process has ended.
func (f fan) Write(b []byte) (int, error) {
	f.p.awaitThaw()
	if f.p.m.opts.Run != nil && f.p.isOver() {
		return 0, io.ErrClosedPipe
	}
	for _, s := range f.p.attached() {
		if f.stderr {
			s.writeStderr(b)
			continue
		}
		// A stream that is closed just now takes nothing.
		_, _ = s.out.write(b, &s.closed)
	}
	return len(b), nil
}

func (p *process) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// funcStdin hides from a Func that its engine closed the pipe.
type funcStdin struct{ p *pipe }

func (f funcStdin) Read(b []byte) (int, error) {
	n, err := f.p.Read(b)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// A stream is one attached client.
type stream struct {
	p      *process
	out    *pipe
	closed atomic.Bool

	halfClosed atomic.Bool // it writes no more

	mu     sync.Mutex // guards stderr's calls
	stderr io.Writer
}

func (s *stream) Read(b []byte) (int, error) { return s.out.Read(b) }

func (s *stream) Write(b []byte) (int, error) { return s.p.stdin.write(b, &s.halfClosed) }

func (s *stream) CloseWrite() error {
	s.halfClosed.Store(true)
	s.p.stdin.wake()
	if s.p.stdinOnce {
		s.p.stdin.closeWrite()
	}
	return nil
}

func (s *stream) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.out.closeRead()
	s.halfClosed.Store(true)
	s.p.stdin.wake()
	s.p.detach(s)
	return nil
}

func (s *stream) writeStderr(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stderr == nil || s.closed.Load() {
		return
	}
	// A stderr that fails loses its own text and nothing else.
	_, _ = s.stderr.Write(b)
}

// searchPath is a container's usual PATH first, so that a wrapper script of the
// user's, which would add variables of its own, is not taken for python3.
func searchPath() string {
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + os.Getenv("PATH")
}

// lookPath finds a program as execvp would in a container.
func lookPath(name string) (string, bool) {
	if strings.Contains(name, "/") {
		_, err := exec.LookPath(name)
		return name, err == nil
	}
	for _, dir := range filepath.SplitList(searchPath()) {
		path := filepath.Join(dir, name)
		if _, err := exec.LookPath(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// environment is a container's: nothing of ours but PATH.
func environment(env map[string]string) []string {
	all := map[string]string{"PATH": searchPath(), "HOME": "/nonexistent"}
	maps.Copy(all, env)
	var list []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		list = append(list, k+"="+all[k])
	}
	return list
}

// exitCode turns the result of Cmd.Wait into a container's exit code.
func exitCode(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// signalNumber turns "SIGKILL" or "KILL" into a signal.
func signalNumber(name string) (syscall.Signal, error) {
	for _, s := range []string{name, "SIG" + name} {
		if sig := unix.SignalNum(s); sig != 0 {
			return sig, nil
		}
	}
	return 0, refusal("kill", 400, "invalid signal: %s", name)
}
