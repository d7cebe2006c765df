package sandbox

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// removeTimeout bounds the removal of a container, which must go on
	// after the caller has given up.
	removeTimeout = 15 * time.Second

	// maxJunk is how many lines that are no frames a sandbox may send.
	// Hostile code can write to the stream; a harness writes none, but for
	// one when it is killed in the middle of a frame.
	maxJunk = 64

	// writeQueue bounds the frames that wait to be written to a sandbox.
	writeQueue = 16

	// sendTimeout is how long a sandbox may leave its stdin unread while
	// frames wait. C code that holds Python's global lock can take its time.
	sendTimeout = 60 * time.Second
)

// A Sandbox is one container with a live harness in it. Runs in it come one
// at a time; all methods may be called from several goroutines.
type Sandbox struct {
	ID       string // random, also in the container's labels
	Python   string // version
	Degraded []string
	Posture  *Posture
	Created  time.Time

	engine    runtime.Engine
	container runtime.ID
	stream    runtime.Stream
	log       zerolog.Logger
	spec      runtime.Spec
	abandon   func(runtime.ID)
	traffic   *Traffic
	watch     func(Event) // set before others have the sandbox; nil is nobody
	stderr    tailBuffer
	reader    *frameReader
	out       chan []byte
	ended     chan struct{} // closed when the harness is gone
	removed   chan struct{} // closed when Close is through
	done      sync.WaitGroup
	calls     *calls
	files     *files
	heard     atomic.Int64  // frames that came
	freezing  chan struct{} // holds a token while the engine pauses or resumes it
	screens   screens       // of what background code prints; for the reading goroutine
	ticket    Ticket        // what Ticket adds to the fields above is missing in it
	written   chan struct{} // closed when all is written that Leave waits for
	letGo     chan struct{} // gets a token when the harness says that it will wait for another daemon

	mu        sync.Mutex // guards the fields below
	run       *run
	runs      int64
	orphans   *Record  //  printed between runs
	lateFiles []File   // published between runs
	end       *inFrame // the harness's last frame
	cause     string   // why it ended
	reason    Reason   // the same in a word
	closed    bool
	left      bool      // it lives on without us
	frozen    bool      // we have paused it
	open      []begun   // runs whose result nobody has acknowledged, in the order of their numbers
	kept      []*run    // of those, the ones that began before we came
	keys      []string  // of all runs that the harness knows of from then
	resumed   time.Time // when we last ended that
	attended  bool      // a session reaches it again if the engine ends the connection
	cut       *cut      // set when it has
	chased    int64     // the last run that the caller was told is not stopped yet; 0 if there is none
}

// errEnded means that the harness is gone.
var errEnded = errors.New("sandbox has ended")

// send queues one frame, and waits for room. A sandbox that reads nothing for
// sendTimeout is killed.
func (s *Sandbox) send(f any) error {
	line, err := encode(f)
	if err != nil {
		return err
	}
	select {
	case <-s.ended:
		return errEnded
	case s.out <- line:
		return nil
	default:
	}
	timer := time.NewTimer(sendTimeout)
	defer timer.Stop()
	for awake := s.awakeSince(); ; {
		select {
		case s.out <- line:
			return nil
		case <-s.calls.ctx.Done(): // it is being killed, or has ended
			return errEnded
		case <-timer.C:
		}
		if now := s.awakeSince(); now.IsZero() || now != awake { // it was paused meanwhile
			awake = now
			timer.Reset(sendTimeout)
			continue
		}
		s.kill(ReasonBlocked, "it did not read its input")
		return errors.New("sandbox does not read its input")
	}
}

// write runs until the harness is gone.
func (s *Sandbox) write() {
	var beat <-chan time.Time // nil, and so never ready, if the harness needs none
	if d := s.ticket.beat(); d > 0 {
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		beat = ticker.C
	}
	for {
		var line []byte
		select {
		case line = <-s.out:
			if line == nil { // see farewell
				close(s.written)
				continue
			}
		case <-beat:
			if line = s.heartbeat(); line == nil {
				continue
			}
		case <-s.ended:
			return
		}
		if _, err := s.stream.Write(line); err != nil {
			s.stream.Close()
			return
		}
		s.traffic.send(len(line))
	}
}

// heartbeat is the frame that tells the harness that its daemon lives; nil if it
// can't be told. Time stands still in a sandbox that is paused.
func (s *Sandbox) heartbeat() []byte {
	if s.isFrozen() {
		return nil
	}
	line, err := encode(pingFrame{T: "ping", Acked: s.acked()})
	if err != nil {
		s.log.Error().Err(err).Msg("encode heartbeat")
	}
	return line
}

// Done is closed when the harness is gone, for whatever reason.
func (s *Sandbox) Done() <-chan struct{} { return s.ended }

// Cause says why the harness is gone, "" while it is not.
func (s *Sandbox) Cause() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Stats samples the sandbox's use of resources once.
func (s *Sandbox) Stats(ctx context.Context) (runtime.Stats, error) {
	return s.engine.Stats(ctx, s.container)
}

// kill ends the container at once and says why. It may be called repeatedly;
// the first reason stays.
func (s *Sandbox) kill(reason Reason, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == "" {
		s.cause, s.reason = why, reason
	}
	s.calls.stop() // and with them whoever waits for room in the queue
	if s.closed || s.left {
		return // Close waits for s.done and removes the container anyway
	}
	s.done.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
		defer cancel()
		if err := s.engine.Kill(ctx, s.container, "SIGKILL"); err != nil && !errors.Is(err, runtime.ErrNoContainer) {
			s.log.Warn().Err(err).Msg("kill sandbox")
		}
		s.stream.Close()
	})
}

// Close ends the sandbox and removes its container. It waits until both are
// done, at most about removeTimeout, also when another Close is under way. It
// leaves alone what [Sandbox.Leave] has left.
func (s *Sandbox) Close() { s.clear(s.shut()) }

// shut is the first half of Close: it notes the end and tells of it. It returns
// false if that was done before.
func (s *Sandbox) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	if s.cause == "" {
		s.cause, s.reason = "it was closed", cmp.Or(s.reason, ReasonClosed)
	}
	if !s.left {
		s.tellLocked(Event{Kind: EventEnded, Took: time.Since(s.Created), Reason: s.reason, Detail: s.cause})
	}
	return true
}

// clear is the second half of Close; first is what shut has returned.
func (s *Sandbox) clear(first bool) {
	if !first {
		<-s.removed
		return
	}
	defer close(s.removed)
	s.calls.stop()
	if s.stream != nil {
		s.stream.Close()
	}
	if s.isLeft() {
		s.done.Wait()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if err := s.engine.Remove(ctx, s.container); err != nil {
		s.log.Error().Err(err).Str("container", string(s.container)).Msg("remove sandbox")
		if s.abandon != nil {
			s.abandon(s.container)
		}
	}
	s.endOnce()
	s.done.Wait()
}
