package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// maxWaited bounds the time for which a run may wait for people beyond its
	// time limit, and waitedStep is how exactly that is looked at.
	maxWaited  = 30 * time.Minute
	waitedStep = 50 * time.Millisecond
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
	maxHint      = 400       // bytes of what the sandbox says of where the rest is
	maxData      = 256 << 10 // bytes of a value as JSON
	maxOpen      = 64        // runs whose results were not acknowledged; an older one is taken to be
)

// A run is one piece of code under way.
type run struct {
	id      int64
	key     string
	began   time.Time
	lost    bool          // it ended before we came, and its result was not kept
	done    chan struct{} // closed after the done frame
	screens screens       // of the goroutine that reads the sandbox's frames

	mu       sync.Mutex // guards the fields below
	onOutput func(Output)
	res      Result
	output   *Record
	rich     int // bytes of pictures kept
	ended    bool
	notes    []string // of ours, for the result
	told     bool     // the result has been made
}

// print keeps a piece of output and passes it on.
func (r *run) print(o Output) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return
	}
	r.output.Add(o)
	onOutput := r.onOutput // of this moment: one that is set later is told of o by follow
	r.mu.Unlock()
	if onOutput != nil && (o.Text != "" || o.Cut > 0 || o.Back > 0) {
		onOutput(o)
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
	r.res.Whole, r.res.Kept = prefix(Clean(f.Whole), maxHint), prefix(Clean(f.Kept), maxHint)
	if len(f.JSON) <= maxData && json.Valid([]byte(f.JSON)) {
		r.res.Data = json.RawMessage(f.JSON)
	}
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
	r, acked := s.begin(req.Key, onOutput)
	defer s.acknowledge(r.id) // one with a key is acknowledged by that
	f := runFrame{T: "run", Run: r.id, Code: req.Code, Servers: req.Servers, Tokens: req.Tokens, Data: req.Data, Key: req.Key, Acked: acked}
	if req.tell != nil {
		f.Told = req.tell(r.id == 1)
	}
	err := s.send(f)
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
	stopped := s.await(ctx, r, req)
	res := s.conclude(r, stopped)
	res.Duration = time.Since(r.began)
	return res
}

// begin makes a run the one at hand. It gets what was printed since the last.
// acked is the number up to which all runs are acknowledged.
func (s *Sandbox) begin(key string, onOutput func(Output)) (r *run, acked int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	acked = s.ackedLocked()
	s.runs++
	if s.ticket.Door != "" {
		s.open = slices.DeleteFunc(s.open, func(b begun) bool { return b.key == "" }) // they are over
		s.open = append(s.open, begun{s.runs, key})
		s.open = s.open[max(0, len(s.open)-maxOpen):]
	} else {
		acked = 0 // nothing is kept
	}
	r = &run{id: s.runs, key: key, began: time.Now(), onOutput: onOutput, done: make(chan struct{}), output: NewRecord(maxRunOutput)}
	r.inherit(s.orphans.Take())
	r.res.Files, s.lateFiles = s.lateFiles, nil
	s.run = r
	return r, acked
}

// await waits for the end of a run. It returns the status that stopped it, ""
// if it ended by itself.
func (s *Sandbox) await(ctx context.Context, r *run, req Request) Status {
	timer := time.NewTimer(max(0, req.Timeout-time.Since(r.began)))
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
			if rest := req.rest(time.Since(r.began)); rest > 0 {
				timer.Reset(max(rest, waitedStep))
				continue
			}
			return s.interrupt(r, StatusTimeout, fmt.Sprintf("its time limit of %s", req.Timeout))
		case <-probe.C:
			if s.heard.Load() == heard {
				probes.Go(func() { _, _ = s.thawFor(r, "before it could run this code") }) // the run's limit tells of an engine that hangs
			}
		}
	}
}

// rest returns what is left of the time limit after so long, without the time in
// which the code waited for a person.
func (r Request) rest(after time.Duration) time.Duration {
	if r.Waited == nil {
		return 0
	}
	return r.Timeout - (after - min(r.Waited(), maxWaited))
}

// thawFor resumes a container that somebody else has paused, and has the run
// tell. It reports whether it was so; the error is that of [Sandbox.thaw].
func (s *Sandbox) thawFor(r *run, when string) (bool, error) {
	thawed, err := s.thaw()
	if thawed {
		r.note(fmt.Sprintf("The sandbox's container was paused from outside %s, and has been resumed.", when))
	}
	return thawed, err
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
// It returns status, or "" if the run has ended by itself meanwhile. An engine
// that hangs passes nothing on and kills nothing: the run is left to chase then.
func (s *Sandbox) interrupt(r *run, status Status, why string) Status {
	select {
	case <-r.done: // at the same moment
		return ""
	default:
	}
	if s.nudgeFor(r, interruptAgain) {
		return status
	}
	thawed, silent := s.thawFor(r, "while the code ran")
	if thawed && s.nudgeFor(r, interruptAgain) { // it saw nothing of the first
		return status
	}
	if silent != nil && s.postpone(r, silent) {
		return status
	}
	if s.nudgeFor(r, interruptGrace-interruptAgain) {
		return status
	}
	s.kill(ReasonStuck, fmt.Sprintf("the code did not stop within %s of being interrupted (%s), so its interpreter was killed", interruptGrace, why))
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
