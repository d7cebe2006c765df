package main

import (
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// backTimeout bounds the wait for a daemon after one that is gone: a service
	// manager may be starting it again, or the one before may take its time to
	// end its servers.
	backTimeout = 40 * time.Second

	// backAlone is how long others may start one before the shim does.
	backAlone = 300 * time.Millisecond

	// backMin and backMax bound the pauses between two looks for it.
	backMin = 5 * time.Millisecond
	backMax = 250 * time.Millisecond
)

// endNotice is the method by which a daemon says that it ends with all its
// sessions, so that there is nothing to come back to. The agent knows nothing of
// it.
const endNotice = "notifications/bridged/end"

// goBack finds the next daemon and sends it what the one before has not
// answered. It reports whether there is one.
func (s *shim) goBack() bool {
	p, err := findPlaces(os.Getenv)
	if s.err = err; err != nil {
		return false
	}
	began, started := time.Now(), false
	for pause := backMin; ; pause = min(2*pause, backMax) {
		l, err := dialAny(p.sockets, s.claim())
		if errors.Is(err, errNoDaemon) && !started && time.Since(began) > backAlone {
			started = true
			l, err = start(p, s.claim())
			s.tried = time.Now()
			if err != nil { // somebody else may start one all the same
				s.err, err = err, errNoDaemon
			}
		}
		if err == nil {
			err = s.take(l)
		}
		if err == nil {
			s.err = nil
			return true
		}
		final := !errors.Is(err, errNoDaemon) && !errors.Is(err, errSilent)
		if s.err == nil || final {
			s.err = err
		}
		if final || time.Since(began) > backTimeout {
			return false
		}
		time.Sleep(pause)
	}
}

// claim is what the next daemon is told in the hello.
func (s *shim) claim() claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return claim{session: s.session, link: s.links + 1, resent: s.debts.resents()}
}

// take makes a link the one in use, and first tells its daemon what the one
// before knew of the agent and has not answered.
func (s *shim) take(l *link) error {
	if !l.resumes {
		s.answerFor(s.owed(), "the bridged that runs now is too old to take it over")
	}
	s.mu.Lock()
	var lines []byte
	if !s.debts.greets() {
		lines = s.greeting.again()
	}
	lines = append(lines, s.debts.again()...)
	s.mu.Unlock()
	for len(lines) > 0 {
		end := lineEnd(lines)
		if err := l.send(piece{data: lines[:end], first: true, last: true}); err != nil {
			_ = l.conn.Close()
			return fmt.Errorf("%w: it hung up when it was told of the agent: %w", errNoDaemon, err)
		}
		lines = lines[end:]
	}
	s.use.Lock()
	s.link = l
	s.use.Unlock()
	s.mu.Lock()
	s.session, s.dismissed = l.session, false
	s.mu.Unlock()
	s.links++
	go l.pump(s.deliver) // ends with the daemon's connection
	return nil
}

func lineEnd(lines []byte) int {
	for i, b := range lines {
		if b == '\n' {
			return i + 1
		}
	}
	return len(lines)
}

// owed takes out all requests whose answers are owed.
func (s *shim) owed() []*owed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.debts.all()
}

// answerFor answers requests that a daemon took and that no daemon will answer.
func (s *shim) answerFor(list []*owed, why string) {
	for _, o := range list {
		s.agent.write(errorLine(o.id, "bridged ended while it worked on this request, and "+why+". "+
			"Its outcome is unknown: it may have taken effect, so check before doing it again. "+
			"The session's Python variables may be gone."))
	}
}
