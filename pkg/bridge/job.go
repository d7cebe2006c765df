package bridge

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/sandbox"
)

// statusRunning is the status of an answer that came before the code's end.
const statusRunning sandbox.Status = "running"

// maxFresh bounds what is kept of the output that no answer has told yet, in
// bytes. An answer shows less.
const maxFresh = 256 << 10

// A task is what a job does: load, start over, run code.
type task func(ctx context.Context, output func(sandbox.Output)) (sandbox.Result, error)

// A job is a task under way. It may outlive the call that began it.
type job struct {
	n      int64  // counts the lane's jobs from 1
	place  *place // of the call that began it
	key    string // see order, as ack
	ack    func()
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when res, err and panicked are set

	res      sandbox.Result
	err      error // nothing ran
	panicked any

	claimed bool // somebody has the result; guarded by the lane's mu
	noted   bool // it was told that the job is late; guarded likewise

	mu    sync.Mutex      // guards the fields below
	fresh *sandbox.Record // what was printed and not told yet
	told  bool            // an answer has had a part of the output
	watch *progress       // of the call that waits; may be nil
}

// run does the task. A panic is kept for the call that asks for the result.
func (j *job) run(ctx context.Context, t task, log zerolog.Logger) {
	defer close(j.done)
	defer j.cancel(nil)
	defer func() {
		if j.panicked = recover(); j.panicked != nil {
			log.Error().Interface("panic", j.panicked).Bytes("stack", debug.Stack()).Msg("run code")
		}
	}()
	j.res, j.err = t(ctx, j.print)
}

// print takes a piece of output. It never blocks.
func (j *job) print(o sandbox.Output) {
	j.mu.Lock()
	j.fresh.Add(o)
	watch := j.watch
	j.mu.Unlock()
	watch.output(o)
}

// note shows a line to the call that waits, if one does. It never blocks.
func (j *job) note(text string) {
	j.mu.Lock()
	watch := j.watch
	j.mu.Unlock()
	watch.note(text)
}

// follow shows output to p from now on; nil ends that.
func (j *job) follow(p *progress) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.watch = p
}

// startedBy reports whether the call at p began the job.
func (j *job) startedBy(p *place) bool { return j.place == p }

// ended reports whether the task is over.
func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// soFar is the answer of a call that waits no longer: what was printed since
// the last such answer, and how to go on.
func (j *job) soFar(goOn string) sandbox.Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.told = true
	return sandbox.Result{
		Status:   statusRunning,
		Output:   j.fresh.Take(),
		Notices:  []string{fmt.Sprintf("still running (run %d): %s to go on waiting", j.n, goOn)},
		Duration: time.Since(j.began),
	}
}

// result returns what the task came to, less the output that was told before.
// The job must have ended.
func (j *job) result() (sandbox.Result, error) {
	if j.panicked != nil {
		panic(j.panicked)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil || !j.told {
		return j.res, j.err
	}
	res := j.res
	res.Output = j.fresh.Take()
	res.Cut = 0
	for _, o := range res.Output {
		res.Cut += o.Cut
	}
	return res, nil
}

// behind puts what an earlier run came to in front of res, as output of code
// that was left running, which it is.
func (j *job) behind(res sandbox.Result) sandbox.Result {
	if j.panicked != nil {
		res.Notices = append([]string{fmt.Sprintf("run %d ended with an internal error of bridged", j.n)}, res.Notices...)
		return res
	}
	old, err := j.result()
	if err != nil {
		res.Notices = append([]string{fmt.Sprintf("run %d came to nothing: %v", j.n, err)}, res.Notices...)
		return res
	}
	text := []sandbox.Output{{Text: old.Value}, {Text: trace(old.Error)}}
	var out []sandbox.Output
	for _, o := range append(old.Output, text...) {
		if o.Background = true; weigh(o) > 0 {
			out = append(out, o)
		}
	}
	notices := []string{fmt.Sprintf("run %d has ended meanwhile (%s, after %.1f s)", j.n, old.Status, old.Duration.Seconds())}
	if old.StateLost != "" {
		notices = append(notices, lostBefore(old.StateLost))
	}
	res.Output = append(out, res.Output...)
	res.Rich = append(old.Rich, res.Rich...)
	res.Files = append(old.Files, res.Files...)
	res.Notices = append(append(notices, old.Notices...), res.Notices...)
	return res
}

// lostBefore tells of a loss that its own call could not tell.
func lostBefore(why string) string {
	return "variables, imports and files from before this call are gone: " + why
}

// weigh returns the bytes that a piece stands for.
func weigh(o sandbox.Output) int64 { return int64(len(o.Text)) + max(o.Cut, 0) }
