package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout bounds the wait for a daemon. It needs no engine to listen,
	// so past this something is wrong.
	startTimeout = 15 * time.Second

	// maxStarts is how often a daemon that ends at once is started again.
	maxStarts = 3

	// maxLog is the size at which the log is set aside.
	maxLog = 10 << 20

	// logTail is how much of the log an error quotes, in bytes.
	logTail = 1200
)

// A starter starts a daemon and waits for it. Of several shims that start at
// once one starts it, elected with a lock, and the others wait. Should two
// daemons start all the same, their own lock leaves one.
type starter struct {
	places places
	claim  claim
	lock   *os.File // held while ours may start a daemon
	child  *child
	starts int
}

// start returns a link to a daemon that it started or that came up meanwhile.
func start(p places, c claim) (*link, error) {
	s := &starter{places: p, claim: c}
	defer s.release()
	deadline := time.Now().Add(startTimeout)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 150*time.Millisecond) {
		l, err := dialAny(p.sockets, c)
		if err == nil || !errors.Is(err, errNoDaemon) {
			return l, err
		}
		if err := s.step(); err != nil {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("bridged did not listen on %s within %v%s", p.sockets[0], startTimeout, s.said())
		}
		time.Sleep(pause)
	}
}

// step starts a daemon if it is ours to start, and looks after one that was.
func (s *starter) step() error {
	if s.child == nil {
		return s.tryStart()
	}
	how, ended := s.child.exit()
	switch {
	case !ended:
		return nil
	case how != "exit status 0":
		return fmt.Errorf("%s ended (%s)%s", s.child.path, how, s.said())
	case s.starts >= maxStarts:
		return fmt.Errorf("%s ended %d times without listening on %s%s", s.child.path, s.starts, s.places.sockets[0], s.said())
	}
	s.child = nil // it found another daemon, which may have ended since
	return nil
}

func (s *starter) tryStart() error {
	if s.lock == nil {
		f, err := takeLock(s.places.sockets[0] + ".start")
		if err != nil || f == nil {
			return err
		}
		s.lock = f
		return nil // a daemon may have come up meanwhile: dial once more before starting
	}
	c, err := launch(s.places)
	if err != nil {
		return err
	}
	s.child = c
	s.starts++
	return nil
}

// takeLock returns nil if another shim holds the lock.
func takeLock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the socket's folder: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the start lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

func (s *starter) release() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// said quotes what the daemon wrote before it ended.
func (s *starter) said() string {
	if s.child == nil {
		return "; another bridge-shim was starting it"
	}
	text := s.child.tail()
	if text == "" {
		return "; it wrote nothing to " + s.child.log
	}
	return "; the end of " + s.child.log + ":\n" + text
}

// A child is a daemon that we started. It outlives us.
type child struct {
	path   string // of the binary
	log    string // path of its log
	offset int64  // where its part of the log begins
	ended  chan string
}

// shared leaves out what this agent's environment says of this agent alone; the
// daemon is there for all.
func shared(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "MCP_BRIDGE_OUTPUT_MODE=") })
}

// launch starts `bridged serve` in a session of its own, so that no signal to
// the agent's terminal reaches it, with its output in a log file.
func launch(p places) (*child, error) {
	path, err := findDaemon(os.Getenv)
	if err != nil {
		return nil, err
	}
	c := &child{path: path, log: filepath.Join(p.state, "daemon.log"), ended: make(chan string, 1)}
	log, err := c.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the daemon has its own
	cmd := exec.Command(path, "serve")
	cmd.Dir = "/"
	cmd.Env = append(shared(os.Environ()), "BRIDGED_SOCKET="+p.sockets[0])
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting bridged: %w", err)
	}
	go func() { // ends with the daemon or with us
		_ = cmd.Wait() // the state says how it ended
		c.ended <- cmd.ProcessState.String()
	}()
	return c, nil
}

func (c *child) openLog() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(c.log), 0o700); err != nil {
		return nil, fmt.Errorf("making the log's folder: %w", err)
	}
	if info, err := os.Stat(c.log); err == nil && info.Size() > maxLog {
		_ = os.Rename(c.log, c.log+".1") // if it can't be, the log goes on growing
	}
	f, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the daemon's log: %w", err)
	}
	if info, err := f.Stat(); err == nil {
		c.offset = info.Size()
	}
	return f, nil
}

// exit returns how the daemon ended, once, if it has.
func (c *child) exit() (string, bool) {
	select {
	case how := <-c.ended:
		return how, true
	default:
		return "", false
	}
}

// tail returns the end of what the daemon has logged.
func (c *child) tail() string {
	f, err := os.Open(c.log)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // it was only read
	from := c.offset
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-logTail)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, from, logTail))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(data), "?"))
}
