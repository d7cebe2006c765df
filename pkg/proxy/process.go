package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// The rungs of the ladder by which a process is stopped: its stdin is closed,
// then its group gets SIGTERM, then SIGKILL, with these waits in between.
const (
	defaultEOFGrace  = 2 * time.Second // MCP servers end when their stdin does
	defaultTermGrace = 3 * time.Second // others clean up at SIGTERM
	killGrace        = 5 * time.Second // after SIGKILL only the kernel can be slow

	// defaultDrainGrace bounds the wait for each of the other signs that a process
	// has ended, once there is one: it exits, its stdout ends, its stderr ends.
	// Within it the last answers arrive, and the reason is known. Something
	// that it has started may hold the streams open for longer.
	defaultDrainGrace = 300 * time.Millisecond

	// surveyPause is the time between two looks at what is left of a process.
	surveyPause = 50 * time.Millisecond
)

// A spawner starts processes on one operating system thread that lives as long
// as it does: Linux sends a process its death signal when the thread that
// started it ends, not only when the daemon does. It must be closed, after the
// last process has ended.
type spawner struct {
	mark   string // what the environments of all its processes hold
	reaper *reaper
	starts chan func()
	done   sync.WaitGroup
}

// newSpawner returns a spawner whose processes a reaper ends, if there is a
// command for one, when this process is killed.
func newSpawner(reaps []string, log zerolog.Logger) *spawner {
	s := &spawner{mark: markerVar + "=" + randomName() + "-", starts: make(chan func())}
	s.reaper = &reaper{argv: reaps, mark: s.mark, log: log, groups: map[int]bool{}}
	s.done.Go(s.run) // runs until close
	return s
}

func (s *spawner) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for start := range s.starts {
		start()
	}
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.starts <- func() { result <- cmd.Start() }
	return <-result
}

func (s *spawner) close() {
	close(s.starts)
	s.done.Wait()
	s.reaper.close()
}

// A process is a server's first process and all that it starts. It leads a
// process group of its own.
type process struct {
	spawner *spawner

	cmd    *exec.Cmd
	marker string // the entry of the environment that tells what belongs to it
	stdin  *os.File
	stdout *os.File
	stderr *tail

	ended  chan struct{} // closed when the first process has ended
	silent chan struct{} // closed when its stderr has
	errOut *os.File      // our end of its stderr
	done   sync.WaitGroup

	mu     sync.Mutex // held while the group is signaled or reaped
	reaped bool       // the group's id may be another's by now
}

// start starts a process. The caller must stop it.
func start(sp *spawner, c command) (*process, error) {
	p := &process{
		spawner: sp, marker: sp.mark + randomName(), stderr: &tail{},
		ended: make(chan struct{}), silent: make(chan struct{}),
	}
	pipes, err := newPipes()
	if err != nil {
		return nil, fmt.Errorf("making pipes: %w", err)
	}
	p.cmd = &exec.Cmd{
		Path: c.path, Args: append([]string{c.path}, c.args...), Dir: c.dir,
		Env:   append(c.environ(), p.marker),
		Stdin: pipes[0].theirs, Stdout: pipes[1].theirs, Stderr: pipes[2].theirs,
		SysProcAttr: processAttributes(),
	}
	p.stdin, p.stdout, p.errOut = pipes[0].ours, pipes[1].ours, pipes[2].ours
	err = sp.start(p.cmd)
	for _, pair := range pipes {
		_ = pair.theirs.Close() // the process has its own
		if err != nil {
			_ = pair.ours.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.path, err)
	}
	sp.reaper.add(p.pid())
	p.done.Go(p.drain) // ends with the last writer, or in stop
	p.done.Go(p.watch) // ends with the first process
	return p, nil
}

// A pipePair is one of a process's standard streams.
type pipePair struct{ ours, theirs *os.File }

func newPipes() (pairs [3]pipePair, err error) {
	for i := range pairs {
		r, w, err := os.Pipe()
		if err != nil {
			for _, pair := range pairs[:i] {
				_ = pair.ours.Close() // nothing was written
				_ = pair.theirs.Close()
			}
			return pairs, err
		}
		pairs[i] = pipePair{ours: r, theirs: w}
		if i == 0 {
			pairs[i] = pipePair{ours: w, theirs: r}
		}
	}
	return pairs, nil
}

func randomName() string {
	b := make([]byte, 8)
	rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}

// drain keeps the server from blocking on its stderr, whatever it writes.
func (p *process) drain() {
	defer close(p.silent)
	_, _ = io.Copy(p.stderr, p.errOut) // it ends when the stream does
}

func (p *process) watch() {
	p.awaitExit()
	close(p.ended)
}

// pid returns the id of the first process.
func (p *process) pid() int { return p.cmd.Process.Pid }

var _ body = (*process)(nil)

func (p *process) streams() (io.WriteCloser, io.Reader) { return p.stdin, p.stdout }
func (p *process) said() *tail                          { return p.stderr }
func (p *process) identity() identity                   { return identity{pid: p.pid()} }
func (p *process) exited() <-chan struct{}              { return p.ended }
func (p *process) drained() <-chan struct{}             { return p.silent }

// survivors returns what is left of the process and of what it has started.
func (p *process) survivors() []int { return marked(p.marker) }

// signal sends sig to the process group and to what has left it.
func (p *process) signal(sig syscall.Signal) {
	p.signalGroup(sig)
	for _, pid := range p.survivors() {
		_ = syscall.Kill(pid, sig) // it may have ended by itself
	}
}

func (p *process) signalGroup(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid(), sig) // there may be none left
	}
}

// reap kills what is left of the group of a first process that has ended, and
// says how that ended.
func (p *process) reap() string {
	p.signalGroup(syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.collect()
		p.reaped = true
		p.spawner.reaper.remove(p.pid())
	}
	return p.cmd.ProcessState.String()
}

// stop ends the process and all that belongs to it, by the ladder, reaps it and
// closes our ends of its streams. The caller has closed stdin. It may be called
// once.
func (p *process) stop(eofGrace, termGrace time.Duration) {
	if !p.goneWithin(eofGrace) {
		p.signal(syscall.SIGTERM)
		if !p.goneWithin(termGrace) {
			p.kill()
		}
	}
	_ = p.stdout.Close() // ends our readers, whoever still holds the other ends
	_ = p.errOut.Close()
	p.done.Wait()
	p.reap()
}

// kill sends SIGKILL until nothing is left: what is killed may have been busy
// starting more.
func (p *process) kill() {
	for deadline := time.Now().Add(killGrace); time.Now().Before(deadline); {
		p.signal(syscall.SIGKILL)
		if p.goneWithin(4 * surveyPause) {
			return
		}
	}
}

// goneWithin waits until nothing is left of the process, at most d.
func (p *process) goneWithin(d time.Duration) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	select {
	case <-p.ended:
	case <-deadline.C:
		return false
	}
	for len(p.survivors()) > 0 {
		select {
		case <-time.After(surveyPause):
		case <-deadline.C:
			return false
		}
	}
	return true
}
