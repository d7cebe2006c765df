package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// lastWords is how long the daemon may go on answering after the agent has
	// closed its side.
	lastWords = 1500 * time.Millisecond

	// hardStop ends the process whatever holds it up once the agent is gone.
	hardStop = 1900 * time.Millisecond

	// startPause is the least time between two attempts to start a daemon.
	// Requests in between only look whether one has come up.
	startPause = 30 * time.Second

	// retryPause is the least time between two looks for a daemon, so that the
	// agent's first request is not kept waiting for what has just been tried.
	retryPause = time.Second
)

// A shim copies between an agent and a daemon. Its loop owns the fields that no
// mutex guards.
type shim struct {
	agent   *agent
	refusal string // why every request is refused; "" if none is

	use      sync.Mutex // held to use link, and by the loop to change it
	link     *link      // nil while there is no daemon
	session  string     // the last one's name, for the next daemon
	skipping bool       // the rest of a long line has nowhere to go
	tried    time.Time  // when a daemon was last started in vain
	first    time.Time  // when the attempt before the first request failed
	err      error      // what the last attempt to find a daemon came to

	mu      sync.Mutex        // guards pending
	pending map[string][]byte // ids of requests whose answers are owed
}

// run returns when the agent is gone.
func (s *shim) run() {
	go s.stopHard()
	if s.refusal == "" {
		s.connect()
		s.first = time.Now()
	}
	for {
		select {
		case p, ok := <-s.agent.lines:
			if !ok {
				s.finish()
				return
			}
			s.forward(p)
			s.agent.queued.Add(-1)
		case <-s.agent.gone:
			s.finish()
			return
		case <-s.ended():
			s.lose()
		}
	}
}

// stopHard ends the process soon after the agent is gone, for a loop that is
// held up by a daemon that is starting or stuck.
func (s *shim) stopHard() {
	select {
	case <-s.agent.eof:
	case <-s.agent.gone:
	}
	time.Sleep(hardStop)
	os.Exit(0)
}

// ended is closed when the daemon has hung up; it is nil without a daemon.
func (s *shim) ended() <-chan struct{} {
	if s.link == nil {
		return nil
	}
	return s.link.done
}

// connect finds a daemon, or starts one unless that was tried a moment ago.
func (s *shim) connect() {
	p, err := findPlaces(os.Getenv)
	if err != nil {
		s.err = err
		return
	}
	l, err := dialAny(p.sockets, s.session)
	if errors.Is(err, errNoDaemon) {
		if time.Since(s.tried) < startPause {
			return // why it did not start is known
		}
		l, err = start(p, s.session)
		s.tried = time.Now()
	}
	if s.err = err; err != nil {
		return
	}
	s.use.Lock()
	s.link, s.session = l, l.session
	s.use.Unlock()
	go l.pump(s.deliver) // ends with the daemon's connection
}

// forwardDirect sends the daemon a whole line if there is one to send it to and
// nothing else to be done. It runs on the goroutine that reads stdin; the loop
// gets what it can't do, which is everything out of the ordinary.
func (s *shim) forwardDirect(p piece) bool {
	s.use.Lock()
	defer s.use.Unlock()
	if s.link == nil || !p.first || !p.last {
		return false
	}
	s.expect(parse(p.data))
	_, err := s.link.conn.Write(p.data)
	return err == nil
}

// forward sends the daemon a line of the agent's.
func (s *shim) forward(p piece) {
	if s.skipping = s.skipping && !p.first; s.skipping {
		return
	}
	if s.refusal == "" && s.link == nil && time.Since(s.first) > retryPause {
		s.connect()
	}
	s.first = time.Time{}
	var m message
	if p.first && p.last {
		m = parse(p.data)
	}
	if s.link == nil {
		s.skipping = !p.last
		s.refuse(m)
		return
	}
	s.expect(m)
	if _, err := s.link.conn.Write(p.data); err != nil {
		s.skipping = !p.last
		_ = s.link.conn.Close()
		<-s.link.done
		s.lose()
	}
}

// refuse answers a request that no daemon can be asked.
func (s *shim) refuse(m message) {
	if !m.isRequest() {
		return
	}
	text := s.refusal
	if text == "" {
		text = fmt.Sprintf("bridged is not available: %v\nTo see what is wrong, run `bridged serve` in a terminal. Once it runs, try again or reconnect this MCP server.", s.err)
	}
	s.agent.write(errorLine(m.ID, text))
}

// expect notes that an answer is owed, or no longer is.
func (s *shim) expect(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := m.cancels(); ok {
		delete(s.pending, string(id))
	}
	if m.isRequest() {
		s.pending[string(m.ID)] = m.ID
	}
}

// deliver hands a line of the daemon's to the agent.
func (s *shim) deliver(line []byte) {
	if m := parse(line); m.isAnswer() {
		s.mu.Lock()
		delete(s.pending, string(m.ID))
		s.mu.Unlock()
	}
	s.agent.write(line)
}

// lose answers what a daemon that is gone owed. The next line looks for another.
func (s *shim) lose() {
	_ = s.link.conn.Close()
	s.use.Lock()
	s.link = nil
	s.use.Unlock()
	s.tried, s.first = time.Time{}, time.Time{}
	s.mu.Lock()
	owed := s.pending
	s.pending = map[string][]byte{}
	s.mu.Unlock()
	for _, id := range owed {
		s.agent.write(errorLine(id, "bridged ended while it worked on this request. Its outcome is unknown: it may have taken effect, so check before doing it again. "+
			"The session's Python variables are gone; the next call starts bridged again with a new session."))
	}
}

// finish lets the daemon know that the agent is gone and passes on what it
// still says for a moment.
func (s *shim) finish() {
	if s.link == nil {
		return
	}
	if err := s.link.conn.CloseWrite(); err != nil {
		return
	}
	select {
	case <-s.link.done:
	case <-time.After(lastWords):
	}
}
