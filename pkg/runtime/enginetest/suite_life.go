package enginetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/runtime"
)

var lifeBehaviours = []behaviour{
	{"a signal is told by the exit code", testKill},
	{"a program may handle a signal", testSignal},
	{"Wait tells the end whenever it is called", testWait},
	{"Wait ends with its context", testWaitContext},
	{"the end of a container ends its streams", testEndEndsStreams},
	{"an ended container can't be attached to", testAttachEnded},
	{"a container that is gone is told", testGone},
	{"List finds by labels, running or not", testList},
	{"Remove takes what runs, what ended and what is gone", testRemove},
	{"a missing image is told", testNoImage},
	{"a missing command is told", testNoCommand},
	{"a mount whose source is missing is told", testMountWithoutSource},
	{"a container has the spec's variables and no other's", testEnv},
	{"Stats samples or refuses", testStats},
	{"Events tells a container's life in order", testEvents},
	{"many containers at once don't mix", testMany},
}

func testKill(l *lab) {
	r := l.run(echoProgram)
	r.ask("up")
	if err := l.e.Kill(l.ctx, r.id, "SIGKILL"); err != nil {
		l.Fatalf("Kill: %v", err)
	}
	if got, want := l.wait(r.id), (runtime.Exit{Code: 137}); got != want {
		l.Errorf("exit = %+v, want %+v", got, want)
	}
	if err := l.e.Kill(l.ctx, r.id, "SIGKILL"); !isRefusal(err) {
		l.Errorf("Kill of an ended container: %v, want a refusal", err)
	}
}

func testSignal(l *lab) {
	r := l.run(`
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready")
while True: time.sleep(1)
`)
	r.line()
	if err := l.e.Kill(l.ctx, r.id, "SIGTERM"); err != nil {
		l.Fatalf("Kill: %v", err)
	}
	if got, want := l.wait(r.id), (runtime.Exit{Code: 7}); got != want {
		l.Errorf("exit = %+v, want %+v", got, want)
	}
}

func testWait(l *lab) {
	id := l.create(l.python("import sys; sys.stdin.readline(); sys.exit(9)"))
	type result struct {
		exit runtime.Exit
		err  error
	}
	early := make(chan result, 2)
	for range cap(early) { // before the start
		go func() {
			exit, err := l.e.Wait(l.ctx, id)
			early <- result{exit, err}
		}()
	}
	r := l.attach(id)
	if err := l.e.Start(l.ctx, id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	r.write("end\n")
	for range cap(early) {
		if got := <-early; got.err != nil || got.exit.Code != 9 {
			l.Errorf("Wait from before the start = %+v, %v; want code 9", got.exit, got.err)
		}
	}
	if got := l.wait(id); got.Code != 9 { // after the end
		l.Errorf("Wait after the end = %+v, want code 9", got)
	}
}

func testWaitContext(l *lab) {
	r := l.run(echoProgram)
	ctx, cancel := context.WithTimeout(l.ctx, 50*time.Millisecond)
	defer cancel()
	if exit, err := l.e.Wait(ctx, r.id); !errors.Is(err, context.DeadlineExceeded) {
		l.Errorf("Wait past its deadline = %+v, %v; want the context's error", exit, err)
	}
	r.ask("still there")
}

func testEndEndsStreams(l *lab) {
	r := l.run(echoProgram)
	r.ask("up")
	if err := l.e.Kill(l.ctx, r.id, "SIGKILL"); err != nil {
		l.Fatalf("Kill: %v", err)
	}
	if got := r.rest(); got != "" {
		l.Errorf("output after the end = %q", got)
	}
}

func testAttachEnded(l *lab) {
	r := l.run("pass")
	l.wait(r.id)
	if s, err := l.e.Attach(l.ctx, r.id, nil); err == nil {
		_ = s.Close()
		l.Errorf("Attach to an ended container succeeded")
	} else if !isRefusal(err) {
		l.Errorf("Attach to an ended container: %v, want a refusal", err)
	}
}

func testGone(l *lab) {
	id := l.create(l.python("pass"))
	l.remove(id)
	calls := map[string]func() error{
		"Attach": func() error { return closing(l.e.Attach(l.ctx, id, nil)) },
		"Start":  func() error { return l.e.Start(l.ctx, id) },
		"Exec":   func() error { return closing(l.e.Exec(l.ctx, id, runtime.Command{Argv: []string{"true"}}, nil)) },
		"Kill":   func() error { return l.e.Kill(l.ctx, id, "SIGKILL") },
		"Wait":   func() error { _, err := l.e.Wait(l.ctx, id); return err },
		"Stats":  func() error { _, err := l.e.Stats(l.ctx, id); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, runtime.ErrNoContainer) {
			l.Errorf("%s of a container that is gone: %v, want %v", name, err, runtime.ErrNoContainer)
		}
	}
}

// closing is for a call that should not have made a stream.
func closing(s runtime.Stream, err error) error {
	if err == nil {
		_ = s.Close()
	}
	return err
}

func testList(l *lab) {
	spec := l.python(echoProgram)
	spec.Labels["kind"] = "running"
	up := l.create(spec)
	if err := l.e.Start(l.ctx, up); err != nil {
		l.Fatalf("Start: %v", err)
	}
	spec = l.python(echoProgram)
	spec.Labels["kind"] = "created"
	idle := l.create(spec)

	tests := []struct {
		labels map[string]string
		want   []runtime.ID
	}{
		{map[string]string{labelLab: l.label}, []runtime.ID{up, idle}},
		{map[string]string{labelLab: l.label, "kind": "running"}, []runtime.ID{up}},
		{map[string]string{labelLab: l.label, "kind": "created"}, []runtime.ID{idle}},
		{map[string]string{labelLab: l.label, "kind": "none"}, nil},
		{map[string]string{labelLab: "another"}, nil},
	}
	for _, tt := range tests {
		var got []runtime.ID
		for _, c := range l.list(tt.labels) {
			got = append(got, c.ID)
			if running := c.State == "running"; running != (c.ID == up) {
				l.Errorf("State of the %s container = %q", c.Labels["kind"], c.State)
			}
			if c.Labels[labelLab] != l.label || c.Name == "" || c.Created.IsZero() {
				l.Errorf("row = %+v: a field is wrong", c)
			}
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			l.Errorf("List(%v) (-want +got):\n%s", tt.labels, diff)
		}
	}
}

func testRemove(l *lab) {
	running := l.run(echoProgram)
	running.ask("up")
	l.remove(running.id)
	if got := running.rest(); got != "" {
		l.Errorf("output after Remove = %q", got)
	}
	l.remove(running.id)

	ended := l.run("pass")
	l.wait(ended.id)
	l.remove(ended.id)

	l.remove(l.create(l.python("pass"))) // never started
	l.remove(newID())                    // never there

	twice := l.run(echoProgram).id
	inParallel(3, 3, func(int) { l.remove(twice) })
}

func testNoImage(l *lab) {
	const none = "localhost/bridged-no-such-image:none"
	spec := l.python("pass")
	spec.Image = none
	id, err := l.e.Create(l.ctx, spec)
	if !errors.Is(err, runtime.ErrNoImage) {
		l.Errorf("Create = %q, %v; want %v", id, err, runtime.ErrNoImage)
	}
	if _, err := l.e.Image(l.ctx, none); !errors.Is(err, runtime.ErrNoImage) {
		l.Errorf("Image: %v, want %v", err, runtime.ErrNoImage)
	}
}

func testNoCommand(l *lab) {
	spec := l.python("pass")
	spec.Cmd = []string{"no-such-program", "-x"}
	id, err := l.e.Create(l.ctx, spec)
	if err == nil {
		l.Cleanup(func() { l.removeLate(id) })
		err = l.e.Start(l.ctx, id)
	}
	if !isRefusal(err) || errors.Is(err, runtime.ErrNoContainer) || errors.Is(err, runtime.ErrNoImage) {
		l.Fatalf("starting no-such-program: %v, want a plain refusal", err)
	}
	if !strings.Contains(err.Error(), "no-such-program") {
		l.Errorf("error %q does not name the program", err)
	}
}

func testEnv(l *lab) {
	spec := l.python("import os; print(*sorted(os.environ), os.environ['A'])")
	spec.Env = map[string]string{"A": "b=c d"}
	r := l.attach(l.create(spec))
	if err := l.e.Start(l.ctx, r.id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	names, value, ok := strings.Cut(strings.TrimSpace(r.rest()), " b=c d")
	if !ok || value != "" {
		l.Fatalf("A is not in %q", names)
	}
	for _, name := range strings.Fields(names) {
		// What engines set by themselves, and what Python does.
		if !slices.Contains([]string{"A", "PATH", "HOME", "HOSTNAME", "TERM", "container", "LC_CTYPE"}, name) {
			l.Errorf("the variable %s is in the container", name)
		}
	}
}

func testStats(l *lab) {
	info, err := l.e.Info(l.ctx)
	if err != nil {
		l.Fatalf("Info: %v", err)
	}
	r := l.run(echoProgram)
	r.ask("up")
	s, err := l.e.Stats(l.ctx, r.id)
	if info.Rootless && info.CgroupVersion == "1" {
		// Such an engine has no cgroup to read; it must say so.
		if !isRefusal(err) {
			l.Errorf("Stats without cgroups = %+v, %v; want a refusal", s, err)
		}
		return
	}
	if err != nil {
		l.Fatalf("Stats: %v", err)
	}
	if s.MemoryBytes <= 0 || s.CPU <= 0 || s.Pids < 1 {
		l.Errorf("Stats = %+v: a field is not positive", s)
	}
}

func testEvents(l *lab) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	labels := map[string]string{labelLab: l.label, "watched": "yes"}
	events, err := l.e.Events(ctx, labels)
	if err != nil {
		l.Fatalf("Events: %v", err)
	}
	other := l.run("pass") // has the lab's label and not the other
	l.wait(other.id)
	spec := l.python("pass")
	spec.Labels = labels
	id := l.create(spec)
	if err := l.e.Start(l.ctx, id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	l.wait(id)
	l.remove(id)

	var got []string
	want := []string{"start", "die", "remove"}
	for e := range events {
		if e.ID != id {
			l.Errorf("event of another container: %+v", e)
		}
		if time.Since(e.Time).Abs() > time.Hour {
			l.Errorf("event at %v", e.Time)
		}
		if slices.Contains(want, e.Action) {
			got = append(got, e.Action)
		}
		if e.Action == "remove" {
			cancel()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("events (-want +got):\n%s", diff)
	}
}

func testMany(l *lab) {
	inParallel(10, 10, func(i int) {
		r := l.tryRun(echoProgram)
		if r == nil {
			return
		}
		text := strings.Repeat(string(rune('a'+i)), 5000) + "\n"
		for range 20 {
			if _, err := io.WriteString(r.stream, text); err != nil {
				l.Errorf("container %d: Write: %v", i, err)
				return
			}
			if got, err := r.lines.ReadString('\n'); got != text || err != nil {
				l.Errorf("container %d: %d bytes came back, %v", i, len(got), err)
				return
			}
		}
		l.remove(r.id)
	})
}
