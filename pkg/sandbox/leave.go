package sandbox

import (
	"context"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// leaveTimeout bounds the wait for a harness to say that it sends nothing more.
const leaveTimeout = 2 * time.Second

// Leave lets go of the sandbox without ending it, for another process to
// [Adopt]. What its code sends from here on waits for that one. Calls that are
// under way are answered first, as long as ctx lasts; of one that is not, the
// code will hear that its outcome is unknown. A run that is under way goes on,
// and Run returns. Without [Options].Grace the sandbox ends with its stream.
func (s *Sandbox) Leave(ctx context.Context) {
	s.mu.Lock()
	if s.left || s.closed {
		s.mu.Unlock()
		return
	}
	s.left = true
	if s.cause == "" {
		s.cause = "it was left to another daemon"
	}
	s.mu.Unlock()
	if !s.isFrozen() && s.ticket.Door != "" {
		s.farewell(ctx)
	}
	s.stream.Close() // first: code must not hear that a call was canceled
	s.calls.stop()
	s.endOnce()
	s.done.Wait()
}

// farewell has the harness send nothing more, and waits for the calls that it
// has sent.
func (s *Sandbox) farewell(ctx context.Context) {
	line, err := encode(leaveFrame{T: "leave"})
	if err != nil {
		s.log.Error().Err(err).Msg("encode frame")
		return
	}
	timer := time.NewTimer(leaveTimeout)
	defer timer.Stop()
	select {
	case s.out <- line:
	case <-s.ended:
		return
	case <-timer.C:
		return
	}
	select {
	case <-s.letGo:
	case <-s.ended:
		return
	case <-timer.C: // C code holds Python's lock, perhaps
	}
	s.calls.drain(ctx)
	timer.Reset(leaveTimeout)
	select {
	case s.out <- nil: // what comes behind all else
	case <-s.ended:
		return
	case <-timer.C:
		return
	}
	select {
	case <-s.written:
	case <-s.ended:
	case <-timer.C:
	}
}

// isLeft reports whether the sandbox lives on without us.
func (s *Sandbox) isLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// Adopt takes a sandbox that [Adopt] returned for a leased one. ErrPoolClosed
// leaves it to the caller.
func (p *Pool) Adopt(s *Sandbox) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrPoolClosed
	}
	p.leased[s] = struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = p.tell
	s.tellLocked(Event{Kind: EventAdopted})
	return nil
}

// Holds reports whether a container is that of a sandbox of the pool's.
func (p *Pool) Holds(id runtime.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.leased {
		if s.container == id {
			return true
		}
	}
	for _, s := range p.warm {
		if s.container == id {
			return true
		}
	}
	return false
}

// Leave closes the pool, but leaves the leased sandboxes to another process: see
// [Sandbox.Leave]. It returns when no launch is under way and the warm ones are
// gone. Sessions may be closed afterwards as ever.
func (p *Pool) Leave(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	var leased []*Sandbox
	for s := range p.leased {
		leased = append(leased, s)
	}
	p.mu.Unlock()
	p.cancel()
	var leaving sync.WaitGroup
	for _, s := range leased {
		leaving.Go(func() { s.Leave(ctx) })
	}
	leaving.Wait()
	p.Close()
}
