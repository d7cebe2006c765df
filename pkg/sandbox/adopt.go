package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// maxReplayed bounds the frames that a harness tells an adopter before the
	// current ones.
	maxReplayed = 200_000

	// maxAgain bounds the runs among them, and maxKey the bytes of a key.
	maxAgain = 16
	maxKey   = 256

	// maxAge bounds what it says of how long a run has run.
	maxAge = 365 * 24 * time.Hour
)

// Adopt takes over a sandbox that another process has left, or held when it
// ended. Its variables are there, and what it sent while nobody listened comes
// now; see [Sandbox.Unfinished] for its runs. The caller must Close the sandbox,
// or Leave it.
//
// The sandbox is known by its container, which nobody but the engine names, and
// by its labels. Its posture is that of the ticket: what an engine enforces on a
// container does not change while that lives, and the code in it could forge
// another report.
//
// On an error nothing is held, and the container is as it was, or awake; one
// that wraps [ErrGone] means that it is not there, or has ended.
func Adopt(ctx context.Context, engine runtime.Engine, o Options, t Ticket) (*Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("adopting sandbox: %w", err)
	}
	s := newSandbox(engine, o, t.ID, t)
	s.container, s.calls.adopted = runtime.ID(t.Container), true
	s.Python, s.Posture, s.Degraded, s.Created = t.Python, t.Posture, t.Degraded, t.Created
	s.spec = launchSpec(o, t.ID)
	s.spec.MemoryBytes = t.Memory
	if err := s.enter(ctx, o); err != nil {
		s.drop()
		return nil, fmt.Errorf("adopting sandbox %s: %w", t.ID, err)
	}
	// Only now: a heartbeat before it is known which results nobody has would
	// acknowledge them all.
	s.done.Go(s.write)
	s.done.Go(s.read)
	return s, nil
}

// enter comes in by the harness's door and hears what there is to know.
func (s *Sandbox) enter(ctx context.Context, o Options) error {
	if err := s.wake(ctx, o.Spec.Labels); err != nil {
		return err
	}
	relay := runtime.Command{Argv: []string{"python3", "-I", "-S", "-B", "-X", "utf8", "-c", o.Relay}, User: s.ticket.User}
	stream, err := s.engine.Exec(ctx, s.container, relay, &s.stderr)
	if errors.Is(err, runtime.ErrNoContainer) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err != nil {
		return err
	}
	s.stream = stream
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	nonce := randomHex(16)
	// If this fails there is no answer either, and what comes instead of one says more.
	_, _ = fmt.Fprintf(stream, "bridged-relay %s %s %s\n", s.ticket.Door, s.ticket.Secret, nonce)
	hello, err := s.greeted(nonce)
	if err != nil {
		return cmpErr(ctx, s.saying(err))
	}
	if err := s.recall(hello); err != nil {
		return cmpErr(ctx, err)
	}
	return nil
}

// saying adds what the relay said on stderr.
func (s *Sandbox) saying(err error) error {
	if text := strings.TrimSpace(s.stderr.String()); text != "" {
		return fmt.Errorf("%w; it said: %s", err, text)
	}
	return err
}

// wake looks whether the container is the ticket's and lives, and has it go on
// if it is paused.
func (s *Sandbox) wake(ctx context.Context, labels map[string]string) error {
	want := map[string]string{runtime.LabelManaged: "true", runtime.LabelSandbox: s.ID}
	if instance, ok := labels[runtime.LabelInstance]; ok {
		want[runtime.LabelInstance] = instance
	}
	list, err := s.engine.List(ctx, want)
	if err != nil {
		return err
	}
	for _, c := range list {
		switch {
		case c.ID != s.container:
		case c.State == "paused":
			return s.engine.Unpause(ctx, s.container)
		case c.State == "running":
			return nil
		default:
			return s.howEnded(ctx, c.State)
		}
	}
	return fmt.Errorf("%w: the engine has no container %.12s of it", ErrGone, s.container)
}

// howEnded says how the container of a ticket did.
func (s *Sandbox) howEnded(ctx context.Context, state string) error {
	ctx, cancel := context.WithTimeout(ctx, exitTimeout)
	defer cancel()
	exit, err := s.engine.Wait(ctx, s.container)
	switch {
	case err != nil:
		return fmt.Errorf("%w: its container is %s", ErrGone, state)
	case exit.OOM:
		return fmt.Errorf("%w: it used more than its %d MiB of memory and was killed", ErrGone, s.spec.MemoryBytes>>20)
	}
	return fmt.Errorf("%w: it ended while no daemon was there (exit code %d)", ErrGone, exit.Code)
}

// greeted skips to the harness's answer, as hello does.
func (s *Sandbox) greeted(nonce string) (inFrame, error) {
	s.reader = newFrameReader(s.stream)
	s.reader.max = maxHello
	for skipped := 0; skipped < maxPreamble; {
		line, err := s.reader.next()
		if errors.Is(err, io.EOF) {
			return inFrame{}, errors.New("its harness does not answer")
		}
		if err != nil {
			return inFrame{}, fmt.Errorf("waiting for the harness: %w", err)
		}
		if start := bytes.Index(line, []byte(`{"t":"`)); start >= 0 {
			f, err := parseFrame(line[start:])
			switch {
			case err == nil && f.T == "adopted" && f.Nonce == nonce:
				s.reader.max = maxFrame
				s.noteForeign(line[:start])
				return f, nil
			case err == nil && f.T == "refused":
				return inFrame{}, fmt.Errorf("its harness refuses: %s", printable(f.Why))
			}
		}
		skipped += len(line) + 1
	}
	return inFrame{}, fmt.Errorf("waiting for the harness: more than %d bytes came that are not its own", maxPreamble)
}

// recall takes what the harness tells of the time before, up to the current
// frames. All of it is held to what holds for any frame of a sandbox.
func (s *Sandbox) recall(hello inFrame) error {
	if hello.Run < 0 || len(hello.Keys) > 64 || len(hello.Files) > MaxFiles {
		return errors.New("its harness tells what can't be")
	}
	s.runs = hello.Run
	for _, key := range hello.Keys {
		if len(key) <= maxKey {
			s.keys = append(s.keys, key)
		}
	}
	for _, file := range hello.Files {
		s.files.take(inFrame{File: file.File, Name: file.Name, MIME: file.MIME, Size: file.Size})
	}
	var limit throttle
	for range maxReplayed {
		line, err := s.reader.next()
		if err != nil {
			return fmt.Errorf("hearing what there was: %w", err)
		}
		limit.take(len(line))
		f, err := parseFrame(line)
		if err != nil {
			continue
		}
		switch f.T {
		case "current":
			s.forgetNameless()
			return nil
		case "again":
			if err := s.takeAgain(f); err != nil {
				return err
			}
		case "output", "rich", "file", "done":
			s.take(f)
		}
	}
	return errors.New("its harness does not come to an end with what there was")
}

// forgetNameless lets go of results that nobody can ask for.
func (s *Sandbox) forgetNameless() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.kept {
		if r.key == "" && r.over() {
			s.open = slices.DeleteFunc(s.open, func(b begun) bool { return b.run == r.id })
		}
	}
	s.kept = slices.DeleteFunc(s.kept, func(r *run) bool { return r.key == "" && r.over() })
}

// takeAgain makes a run of before the one at hand, for the frames that follow.
func (s *Sandbox) takeAgain(f inFrame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := int64(0)
	if n := len(s.open); n > 0 {
		last = s.open[n-1].run
	}
	if f.Run <= last || f.Run > s.runs || len(s.open) >= maxAgain || len(f.Key) > maxKey || f.Age < 0 || s.run != nil {
		return errors.New("its harness tells what can't be")
	}
	age := time.Duration(min(f.Age, maxAge.Seconds()) * float64(time.Second))
	r := &run{id: f.Run, key: f.Key, began: time.Now().Add(-age), lost: f.Lost, done: make(chan struct{}), output: NewRecord(maxRunOutput)}
	r.inherit(s.orphans.Take())
	s.open = append(s.open, begun{f.Run, f.Key})
	s.kept = append(s.kept, r)
	if r.lost {
		r.ended = true
		close(r.done)
		return nil
	}
	r.res.Files, s.lateFiles = s.lateFiles, nil
	s.run = r
	return nil
}

// drop lets go of what could not be adopted.
func (s *Sandbox) drop() {
	s.mu.Lock()
	s.left, s.closed = true, true
	s.cause = "it was let go of"
	s.mu.Unlock()
	if s.stream != nil {
		s.stream.Close()
	}
	s.calls.stop()
	s.endOnce()
	s.done.Wait()
	close(s.removed)
}
