package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// frameBurst and frameRate bound the frames of one sandbox: past a burst
	// it is read at this rate (frames per second), so that a flood costs its
	// own session time and not the daemon its processor. A frame of output
	// holds up to 64 KiB.
	frameBurst = 20_000
	frameRate  = 5_000

	// frameBytes is how much of a frame counts as one, in bytes: 64 MiB are a
	// burst, past which 16 MiB a second are read. Decoding takes memory and
	// time in proportion to a frame's size.
	frameBytes = 64 << 20 / frameBurst

	// maxOrphanOutput bounds what is kept of output between runs, in bytes.
	maxOrphanOutput = 64 << 10
)

// A throttle is a token bucket for one goroutine.
type throttle struct {
	tokens float64
	last   time.Time
}

// take waits until one more frame of so many bytes may be handled. A large one
// makes those after it wait.
func (t *throttle) take(size int) {
	cost := 1 + float64(size/frameBytes)
	if t.tokens >= 1 {
		t.tokens -= cost
		return
	}
	now := time.Now()
	if t.last.IsZero() {
		t.tokens = frameBurst
	}
	t.tokens = min(frameBurst, t.tokens+now.Sub(t.last).Seconds()*frameRate)
	t.last = now
	if t.tokens < 1 {
		time.Sleep(time.Second / frameRate * 16)
		t.take(size)
		return
	}
	t.tokens -= cost
}

// read takes frames until the stream ends, and always drains it: whoever
// looks at the output must not hold it up.
func (s *Sandbox) read() {
	var limit throttle
	junk := 0
	for {
		line, err := s.reader.next()
		if err != nil && !errors.Is(err, errLongFrame) {
			s.finish(err)
			return
		}
		limit.take(len(line))
		s.heard.Add(1)
		s.traffic.receive(len(line))
		f, perr := parseFrame(line)
		if err != nil || perr != nil {
			s.traffic.refuse()
			if junk++; junk == maxJunk {
				s.kill(ReasonProtocol, "protocol error: it sent too many lines that are no messages of its harness")
			}
			continue
		}
		s.take(f)
	}
}

// take handles one frame. Types that are unknown here are passed over.
func (s *Sandbox) take(f inFrame) {
	switch f.T {
	case "output":
		s.takeOutput(f)
	case "rich", "done":
		s.takeResult(f)
	case "rpc":
		s.calls.start(f)
	case "cancel":
		s.calls.abandon(f.ID)
	case "file":
		s.takeFile(f)
	case "chunk":
		s.files.answer(f)
	case "left":
		poke(s.letGo)
	case "end":
		s.mu.Lock()
		s.end = &f
		s.mu.Unlock()
	}
}

// takeResult gives the run under way a frame of its own.
func (s *Sandbox) takeResult(f inFrame) {
	s.mu.Lock()
	r := s.run
	mine := r != nil && f.Run == r.id
	if f.T == "done" && f.Run == s.chased {
		s.chased = 0
	}
	if mine && f.T == "done" {
		s.run = nil // what is printed from here on is the next run's to show
	}
	s.mu.Unlock()
	if mine {
		r.take(f)
	}
}

func (s *Sandbox) takeOutput(f inFrame) {
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	for i, p := range f.Parts {
		// A frame of another run is background, whatever it says.
		o := Output{Stream: p.stream, Text: p.text, Background: f.Background || r == nil || f.Run != r.id}
		if i == 0 {
			o.Cut = f.Cut
		}
		if o.Background {
			o = s.screens.update(o)
		} else {
			o = r.screens.update(o)
		}
		if r != nil {
			r.print(o)
			continue
		}
		s.keepOrphan(o)
	}
}

// keepOrphan keeps output between runs for the next run, up to a bound.
func (s *Sandbox) keepOrphan(o Output) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orphans.Add(o)
}

// finish notes how the harness ended, once its stream has.
func (s *Sandbox) finish(err error) {
	s.calls.stop()
	s.mu.Lock()
	known := s.cause != ""
	end := s.end
	s.mu.Unlock()
	if !known {
		cause, reason, may := s.diagnose(end, err)
		s.mu.Lock()
		if s.cause == "" {
			s.cause, s.reason = cause, reason
			if may && s.attended && !s.left {
				s.cut = &cut{over: make(chan struct{})}
			}
		}
		s.mu.Unlock()
	}
	s.stream.Close()
	s.endOnce()
	s.files.end()
}

func (s *Sandbox) endOnce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
}

// diagnose says in words, and in one, why the harness is gone, and whether its
// container may live all the same.
func (s *Sandbox) diagnose(end *inFrame, err error) (cause string, reason Reason, may bool) {
	if end != nil {
		if cause, reason = s.diagnoseEnd(end); cause != "" {
			return cause, reason, false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	exit, werr := s.engine.Wait(ctx, s.container)
	may = end == nil && werr != nil && !errors.Is(werr, runtime.ErrNoContainer)
	switch {
	case werr == nil && exit.OOM:
		return s.overMemory(), ReasonMemory, may
	case werr == nil:
		return fmt.Sprintf("its container was stopped from outside (exit code %d)", exit.Code), ReasonOutside, may
	case errors.Is(werr, runtime.ErrUnreachable):
		return "the container engine went away", ReasonOutside, may
	case errors.Is(err, io.EOF) && errors.Is(werr, context.DeadlineExceeded):
		return "its container was restarted from outside, or the container engine was", ReasonOutside, may
	case !errors.Is(err, io.EOF):
		return fmt.Sprintf("the connection to its container broke: %v", err), ReasonOutside, may
	}
	return fmt.Sprintf("its container is gone: %v", werr), ReasonOutside, may
}

func (s *Sandbox) overMemory() string {
	return fmt.Sprintf("it used more than its %d MiB of memory and was killed", s.spec.MemoryBytes>>20)
}

// diagnoseEnd is diagnose for what the harness itself has told.
func (s *Sandbox) diagnoseEnd(end *inFrame) (string, Reason) {
	switch {
	case end.OOM > 0 && end.Signal == "SIGKILL": // a child's death alone ends nothing
		return s.overMemory(), ReasonMemory
	case end.Why != "":
		return fmt.Sprintf("the code broke the program that runs it (%s); it may have closed files that are not its own", printable(end.Why)), ReasonDied
	case end.Signal != "":
		return fmt.Sprintf("Python was ended by %s", printable(end.Signal)), ReasonDied
	case end.Code != nil:
		return fmt.Sprintf("Python ended with exit code %d", *end.Code), ReasonDied
	}
	return "", ""
}

// maxWord bounds a word from the sandbox in a sentence, in characters.
const maxWord = 80

// printable keeps a word from the sandbox harmless in a sentence.
func printable(s string) string {
	out := []rune{}
	for _, r := range s {
		if len(out) == maxWord {
			break
		}
		if r == '_' || r == ' ' || (r >= '0' && r <= '9') || (r >= 'A' && r <= 'Z') || (r >= 'a' && r <= 'z') {
			out = append(out, r)
		}
	}
	return string(out)
}
