package sandbox

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// interruptAgain is how long code may take to react to an interrupt
	// before it gets a second one.
	interruptAgain = time.Second

	// interruptGrace is how long after the first interrupt code that does
	// not stop is killed, and the session's state with it.
	interruptGrace = 3 * time.Second

	// probeAfter is how long a run may be silent before it is looked whether
	// its container was paused from outside before the run began.
	probeAfter = time.Second

	// Bounds on what the daemon keeps of one run, whatever the sandbox
	// sends. A harness that is itself stays below them.
	maxRunOutput = 1 << 20
	maxRunRich   = 32 << 20 // bytes of pictures
	maxPictures  = 64
	maxText      = 1 << 20
	maxNotices   = 16
)

// A run is one piece of code under way.
type run struct {
	id       int64
	onOutput func(Output)
	done     chan struct{} // closed after the done frame
	screens  screens       // of the goroutine that reads the sandbox's frames

	mu     sync.Mutex // guards the fields below
	res    Result
	output *Record
	rich   int // bytes of pictures kept
	ended  bool
	notes  []string // of ours, for the result
	told   bool     // the result has been made
}

// print keeps a piece of output and passes it on.
func (r *run) print(o Output) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return
	}
	r.output.Add(o)
	r.mu.Unlock()
	if r.onOutput != nil && (o.Text != "" || o.Cut > 0 || o.Back > 0) {
		r.onOutput(o)
	}
}

// inherit takes what was printed before the run began.
func (r *run) inherit(orphans []Output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range orphans {
		r.output.Add(o)
		if r.onOutput != nil {
			r.onOutput(o)
		}
	}
}

// publish notes a file that was handed to the user.
func (r *run) publish(file File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.res.Files = addFile(r.res.Files, file)
	}
}

// take handles a frame of this run.
func (r *run) take(f inFrame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	if f.T == "rich" {
		if r.rich += len(f.Data); r.rich <= maxRunRich && len(r.res.Rich) < maxPictures && len(f.MIME) < 100 {
			r.res.Rich = append(r.res.Rich, Rich{MIME: f.MIME, Data: f.Data})
		}
		return
	}
	r.ended = true
	r.res.Status = Status(f.Status)
	r.res.Value = clip(Clean(f.Value))
	r.res.Error = clipError(f.Error)
	for _, n := range f.Notices[:min(len(f.Notices), maxNotices)] {
		r.res.Notices = append(r.res.Notices, clip(Clean(n)))
	}
	close(r.done)
}

// Run runs code and waits until it has ended or was killed. onOutput, which
// may be nil, gets output as it comes and must not block. Run never returns
// early: when ctx ends the code is interrupted, and killed if it goes on.
func (s *Sandbox) Run(ctx context.Context, req Request, onOutput func(Output)) Result {
	began := time.Now()
	r := s.begin(onOutput)
	err := s.send(runFrame{T: "run", Run: r.id, Code: req.Code, Servers: req.Servers})
	if err != nil {
		s.mu.Lock()
		s.run = nil
		s.mu.Unlock()
		select {
		case <-s.ended:
		default: // nothing was sent, so nothing is lost
			return Result{Status: StatusError, Error: &PyError{Type: "ValueError", Message: err.Error(), Traceback: err.Error()}}
		}
	}
	stopped := s.await(ctx, r, req.Timeout)
	res := s.conclude(r, stopped)
	res.Duration = time.Since(began)
	return res
}

// begin makes a run the one at hand. It gets what was printed since the last.
func (s *Sandbox) begin(onOutput func(Output)) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	r := &run{id: s.runs, onOutput: onOutput, done: make(chan struct{}), output: NewRecord(maxRunOutput)}
	r.inherit(s.orphans.Take())
	r.res.Files, s.lateFiles = s.lateFiles, nil
	s.run = r
	return r
}

// await waits for the end of a run. It returns the status that stopped it, ""
// if it ended by itself.
func (s *Sandbox) await(ctx context.Context, r *run, timeout time.Duration) Status {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	probe := time.NewTimer(probeAfter)
	defer probe.Stop()
	heard := s.heard.Load()
	var probes sync.WaitGroup
	defer probes.Wait() // the code may have ended just because a probe resumed it
	for {
		select {
		case <-r.done:
			return ""
		case <-s.ended:
			return ""
		case <-ctx.Done():
			return s.interrupt(r, StatusInterrupted, "the caller canceled it")
		case <-timer.C:
			return s.interrupt(r, StatusTimeout, fmt.Sprintf("its time limit of %s", timeout))
		case <-probe.C:
			if s.heard.Load() == heard {
				probes.Go(func() { s.thawFor(r, "before it could run this code") })
			}
		}
	}
}

// thawFor resumes a container that somebody else has paused, and has the run
// tell. It reports whether it was so.
func (s *Sandbox) thawFor(r *run, when string) bool {
	if !s.thaw() {
		return false
	}
	r.note(fmt.Sprintf("The sandbox's container was paused from outside %s, and has been resumed.", when))
	return true
}

// note adds a notice to the result.
func (r *run) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told {
		r.notes = append(r.notes, text)
	}
}

// interrupt stops a run by a ladder: KeyboardInterrupt, the same again, kill.
// It returns status, or "" if the run has ended by itself meanwhile.
func (s *Sandbox) interrupt(r *run, status Status, why string) Status {
	select {
	case <-r.done: // at the same moment
		return ""
	default:
	}
	if s.nudgeFor(r, interruptAgain) {
		return status
	}
	if s.thawFor(r, "while the code ran") && s.nudgeFor(r, interruptAgain) { // it saw nothing of the first
		return status
	}
	if s.nudgeFor(r, interruptGrace-interruptAgain) {
		return status
	}
	s.kill(fmt.Sprintf("the code did not stop within %s of being interrupted (%s), so its interpreter was killed", interruptGrace, why))
	<-s.ended
	return status
}

// nudgeFor interrupts a run once, and reports whether it ends within a time.
func (s *Sandbox) nudgeFor(r *run, wait time.Duration) bool {
	s.nudge(interruptFrame{T: "interrupt", Run: r.id})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-s.ended:
		return true
	case <-timer.C:
		return false
	}
}

// nudge queues a frame if there is room for it: a sandbox whose queue is full
// would not see it in time.
func (s *Sandbox) nudge(f any) {
	line, err := encode(f)
	if err != nil {
		s.log.Error().Err(err).Msg("encode frame")
		return
	}
	select {
	case s.out <- line:
	default:
	}
}

// sendLogged queues a frame for which nobody waits.
func (s *Sandbox) sendLogged(f any) {
	if err := s.send(f); err != nil {
		s.log.Debug().Err(err).Msg("send frame")
	}
}

// conclude makes the result of a run that is over, or whose sandbox is.
func (s *Sandbox) conclude(r *run, stopped Status) Result {
	s.mu.Lock()
	s.run = nil
	cause := s.cause
	s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = true
	r.res.Notices = append(r.res.Notices, r.notes...)
	r.res.Output = r.output.Take()
	for _, o := range r.res.Output {
		r.res.Cut += o.Cut
	}
	if !r.ended {
		r.ended = true
		r.res.Status, r.res.StateLost = StatusLost, cause
		if stopped != "" {
			r.res.Status = stopped
		}
		return r.res
	}
	switch {
	case stopped == StatusTimeout:
		r.res.Status = StatusTimeout
	case stopped != "":
		r.res.Status = stopped
	case r.res.Status != StatusOK:
		r.res.Status = StatusError
	}
	return r.res
}

// clip bounds a text from the sandbox.
func clip(s string) string { return prefix(s, maxText) }

// prefix returns the start of s, at most so many bytes and no torn character.
func prefix(s string, most int) string {
	n := max(most, 0)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func clipError(e *PyError) *PyError {
	if e == nil {
		return nil
	}
	return &PyError{Type: clip(Clean(e.Type)), Message: clip(Clean(e.Message)), Traceback: clip(Clean(e.Traceback))}
}
