package sandbox

import "time"

// chasePause is how often an engine that hangs is asked again whether it does.
const chasePause = 2 * time.Second

// unstoppedNotice is in the result of a run that goes on for want of an engine.
const unstoppedNotice = "The container engine does not answer, so the code could not be told to stop. " +
	"It is stopped as soon as the engine is back, and variables are kept if it is; tell the user that the engine is gone or hangs."

// postpone leaves a run that can't be stopped now, because the engine does not
// answer, to be stopped when it does. Its caller is told. It returns false if
// the sandbox is gone.
func (s *Sandbox) postpone(r *run, silent error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.cause != "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	s.log.Warn().Err(silent).Int64("run", r.id).Msg("engine does not answer: code is stopped later")
	r.res.unstopped = true
	r.notes = append(r.notes, unstoppedNotice)
	s.chased = r.id
	s.done.Go(func() { s.chase(r.id) }) // it ends with the run or the sandbox
	return true
}

// chase stops a run once the engine answers again.
func (s *Sandbox) chase(id int64) {
	for s.chases(id) {
		select {
		case <-s.ended:
			return
		case <-time.After(chasePause):
		}
		if _, silent := s.thaw(); silent != nil {
			continue
		}
		s.nudge(interruptFrame{T: "interrupt", Run: id}) // those before may not have had room
		select {
		case <-s.ended:
			return
		case <-time.After(interruptGrace):
		}
		if s.chases(id) {
			s.kill(ReasonStuck, "the code did not stop within "+Brief(interruptGrace)+" of being interrupted, so its interpreter was killed")
			return
		}
	}
}

// chases reports whether a run is still to be stopped.
func (s *Sandbox) chases(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chased == id
}
