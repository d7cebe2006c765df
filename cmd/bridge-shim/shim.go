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
	links    int        // connections to daemons so far
	skipping bool       // the rest of a long line has nowhere to go
	tried    time.Time  // when a daemon was last started in vain
	first    time.Time  // when the attempt before the first request failed
	err      error      // what the last attempt to find a daemon came to

	mu        sync.Mutex // guards the fields below
	session   string     // its name, for the next daemon
	debts     *debts
	asked     map[string][]byte // ids of the daemon's requests that the agent has not answered
	greeting  greeting
	dismissed bool // the daemon ends its sessions with it
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
	l, err := dialAny(p.sockets, s.claim())
	if errors.Is(err, errNoDaemon) {
		if time.Since(s.tried) < startPause {
			return // why it did not start is known
		}
		l, err = start(p, s.claim())
		s.tried = time.Now()
	}
	if err == nil {
		err = s.take(l)
	}
	s.err = err
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
	return s.send(p, parse(p.data)) == nil
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
	for range maxResends {
		if s.link == nil {
			break
		}
		if s.send(p, m) == nil {
			return
		}
		_ = s.link.conn.Close()
		<-s.link.done
		s.lose()
		if !p.first {
			break // the next daemon has not had its beginning
		}
	}
	s.skipping = !p.last
	s.refuse(m)
}

// send sends the daemon a piece of a line. A request that it did not get whole
// is none that it owes an answer. The caller owns the link.
func (s *shim) send(p piece, m message) error {
	s.expect(m, p.data)
	err := s.link.send(p)
	if err != nil && m.isRequest() {
		s.mu.Lock()
		s.debts.pay(m.ID)
		s.mu.Unlock()
	}
	return err
}

// refuse answers a request that no daemon can be asked.
func (s *shim) refuse(m message) {
	if !m.isRequest() {
		return
	}
	text := s.refusal
	if text == "" {
		text = fmt.Sprintf("bridged is not available: %v\n`bridged doctor`, run in a terminal, finds what is wrong and says which command mends it. Then try again, or reconnect this MCP server.", s.err)
	}
	s.agent.write(errorLine(m.ID, text))
}

// expect notes that an answer is owed, or no longer is.
func (s *shim) expect(m message, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := m.cancels(); ok {
		s.debts.pay(id)
	}
	if m.isRequest() {
		s.debts.add(m, line, s.link.next())
	}
	if m.isAnswer() {
		delete(s.asked, string(m.ID))
	}
	s.greeting.note(m)
}

// deliver hands a line of the daemon's to the agent.
func (s *shim) deliver(line []byte) {
	if s.note(parse(line)) {
		s.agent.write(line)
	}
}

// note takes in what a message of the daemon's means, and reports whether it is
// for the agent.
func (s *shim) note(m message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := m.cancels(); ok {
		delete(s.asked, string(id))
	}
	if m.isRequest() && len(s.asked) < maxAsked {
		s.asked[string(m.ID)] = m.ID
	}
	switch {
	case m.Method == endNotice:
		s.dismissed = true
		return false
	case s.greeting.ours(m):
		return false
	case m.isAnswer():
		return s.debts.answered(m.ID)
	}
	return true
}

// lose looks for the successor of a daemon that is gone, and withdraws what that
// one asked. What no successor can take over is answered.
func (s *shim) lose() {
	_ = s.link.conn.Close()
	s.use.Lock()
	s.link = nil
	s.use.Unlock()
	s.tried, s.first = time.Time{}, time.Time{}
	s.mu.Lock()
	asked, dismissed, hopeless := s.asked, s.dismissed, s.debts.hopeless()
	s.asked = map[string][]byte{}
	s.mu.Unlock()
	for _, id := range asked {
		s.agent.write(cancelLine(id))
	}
	if dismissed {
		s.answerFor(append(hopeless, s.owed()...), "was told to end all its sessions")
		return
	}
	s.answerFor(hopeless, "the request was too large to keep, or has ended several daemons, so that it is not sent to another")
	if !s.goBack() {
		s.answerFor(s.owed(), fmt.Sprintf("no other one answered: %v", s.err))
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
