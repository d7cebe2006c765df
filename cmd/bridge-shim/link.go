package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sort"
	"strings"
	"syscall"
	"time"
)

const (
	wireVersion = 1
	maxEnv      = 1 << 20  // bytes of the environment in a hello
	maxWelcome  = 64 << 10 // bytes of the daemon's answer
	maxPath     = len(syscall.RawSockaddrUnix{}.Path) - 1

	// helloTimeout bounds the greeting. A daemon answers within milliseconds;
	// what does not is none, or is about to hand over to another.
	helloTimeout = 5 * time.Second
)

var (
	// errNoDaemon means that starting a daemon may help.
	errNoDaemon = errors.New("no daemon listens")
	// errSilent means that what listens did not answer.
	errSilent = errors.New("no answer")
)

// A link is a connection to a daemon that has welcomed us.
type link struct {
	conn    *socket
	r       *bufio.Reader
	session string
	resumes bool          // it knows of requests that are sent again
	n       int           // of the shim's connections, from 1
	lines   int64         // sent after the hello
	done    chan struct{} // closed when the daemon has hung up
}

// A claim is what a shim tells a daemon of the one before it.
type claim struct {
	session string // as that one named it; "" if there was none
	link    int    // of the shim's connections, this one
	resent  []resent
}

// hello and welcome are the first lines of a connection.
type hello struct {
	Wire    int               `json:"bridged"`
	Version string            `json:"version"`
	PID     int               `json:"pid"`
	CWD     string            `json:"cwd"`
	Env     map[string]string `json:"env"`
	Omitted []string          `json:"omitted,omitempty"`
	Session string            `json:"session,omitempty"`
	Link    int               `json:"link"`
	Resent  []resent          `json:"resent,omitempty"`
}

type welcome struct {
	Wire    int    `json:"bridged"`
	Session string `json:"session"`
	Resumes bool   `json:"resumes"`
	Error   string `json:"error"`
}

// dialAny connects to the first socket that a daemon listens on.
func dialAny(paths []string, c claim) (*link, error) {
	err := error(errNoDaemon)
	for _, path := range paths {
		var l *link
		if l, err = dial(path, c); err == nil || !errors.Is(err, errNoDaemon) {
			return l, err
		}
	}
	return nil, err
}

// dial connects and exchanges greetings. The error wraps [errNoDaemon] if
// nobody listens.
func dial(path string, c claim) (*link, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("the socket's path %s has %d bytes, more than the %d that a socket can have; set BRIDGED_SOCKET to a shorter one", path, len(path), maxPath)
	}
	if err := checkOwner(path); err != nil {
		return nil, err
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("%w: %w", errNoDaemon, err)
	}
	if err != nil {
		return nil, err
	}
	greeted := bufio.NewReaderSize(conn, maxWelcome)
	w, err := greet(conn, greeted, c)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s, err := newSocket(conn)
	if err != nil {
		return nil, err
	}
	more, _ := greeted.Peek(greeted.Buffered()) // what came right after the greeting
	r := io.MultiReader(bytes.NewReader(more), s)
	return &link{
		conn: s, r: bufio.NewReaderSize(r, 64<<10), session: w.Session, resumes: w.Resumes, n: c.link, done: make(chan struct{}),
	}, nil
}

// checkOwner refuses a socket of somebody else, who would get the environment.
func checkOwner(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", errNoDaemon, err)
	}
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user; it is not used", path)
	}
	return nil
}

// greet exchanges the first lines, of which r reads the daemon's, and returns
// that one.
func greet(conn *net.UnixConn, r *bufio.Reader, c claim) (w welcome, err error) {
	line, err := json.Marshal(newHello(os.Environ(), c))
	if err != nil {
		return w, fmt.Errorf("saying hello: %w", err)
	}
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return w, fmt.Errorf("saying hello: %w", err)
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return w, greetError(err)
	}
	answer, err := r.ReadSlice('\n')
	if err != nil {
		return w, greetError(err)
	}
	if err := json.Unmarshal(answer, &w); err != nil || w.Wire == 0 {
		return w, fmt.Errorf("what listens there is not bridged: it answered %.80q", answer)
	}
	if w.Error != "" {
		return w, fmt.Errorf("bridged refused: %s", w.Error)
	}
	if w.Wire != wireVersion {
		return w, fmt.Errorf("bridged speaks version %d of the wire and this bridge-shim %d; install both of one release", w.Wire, wireVersion)
	}
	return w, conn.SetDeadline(time.Time{})
}

// greetError explains why a greeting failed. A daemon that hangs up without a
// word is ending, and its successor may answer.
func greetError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: it hung up before it answered", errNoDaemon)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: what listens there did not answer within %v; it hangs or is not bridged", errSilent, helloTimeout)
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("what listens there is not bridged: its first line is longer than %d bytes", maxWelcome)
	}
	return fmt.Errorf("saying hello: %w", err)
}

// newHello leaves out the largest variables of an environment that is too big.
func newHello(environ []string, c claim) hello {
	h := hello{Wire: wireVersion, Version: version, PID: os.Getpid(), CWD: "/", Session: c.session, Env: map[string]string{}}
	h.Link, h.Resent = c.link, c.resent
	if dir, err := os.Getwd(); err == nil {
		h.CWD = dir
	}
	environ = append([]string(nil), environ...)
	sort.SliceStable(environ, func(i, j int) bool { return len(environ[i]) < len(environ[j]) })
	size := 0
	for _, kv := range environ {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			continue
		}
		if size += len(k) + len(v); size > maxEnv {
			h.Omitted = append(h.Omitted, clip(k))
			continue
		}
		h.Env[k] = v
	}
	return h
}

// clip bounds a name that is only told.
func clip(name string) string {
	if len(name) > 100 {
		return name[:100]
	}
	return name
}

// send writes a piece of a line, and counts lines at their end.
func (l *link) send(p piece) error {
	if _, err := l.conn.Write(p.data); err != nil {
		return err
	}
	if p.last {
		l.lines++
	}
	return nil
}

// next is where the next line will be.
func (l *link) next() place { return place{Link: l.n, Line: l.lines + 1} }

// pump hands over the daemon's lines, each whole, until it hangs up. A line
// without its end is dropped: it would be half a message on stdout.
func (l *link) pump(take func(line []byte)) {
	defer close(l.done)
	for {
		line, err := l.r.ReadBytes('\n')
		if err != nil {
			return
		}
		take(line)
	}
}
