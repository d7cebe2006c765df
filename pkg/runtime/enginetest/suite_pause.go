package enginetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/runtime"
)

// pauseBehaviours are those of an engine that can pause, or of one that can't.
var pauseBehaviours = []behaviour{
	{"a paused container stands still and goes on", testPause},
	{"a paused container can be removed", testRemovePaused},
	{"a paused container can be killed", testKillPaused},
	{"only what is paused can be unpaused", testUnpause},
	{"Events tells pauses", testPauseEvents},
}

// pause pauses a container; false if the engine can't at all, and says so.
func (l *lab) pause(id runtime.ID) bool {
	l.Helper()
	info, err := l.e.Info(l.ctx)
	if err != nil {
		l.Fatalf("Info: %v", err)
	}
	able := !info.Rootless || info.CgroupVersion != "1"
	for range 10 { // runc gives up when processes are slow to freeze
		err = l.e.Pause(l.ctx, id)
		if err == nil || !able || !isRefusal(err) || errors.Is(err, runtime.ErrNoContainer) {
			break
		}
	}
	if err != nil && (able || !isRefusal(err) || errors.Is(err, runtime.ErrNoContainer)) {
		l.Fatalf("Pause: %v", err)
	}
	return err == nil
}

func (l *lab) state(id runtime.ID) string {
	l.Helper()
	for _, c := range l.list(map[string]string{labelLab: l.label}) {
		if c.ID == id {
			return c.State
		}
	}
	return "gone"
}

func testPause(l *lab) {
	r := l.run(echoProgram)
	r.ask("up")
	if !l.pause(r.id) {
		r.ask("still up") // and the refusal has done no harm
		return
	}
	if got := l.state(r.id); got != "paused" {
		l.Errorf("state = %q, want paused", got)
	}
	line := make(chan string, 1)
	r.write("wake up\n")
	go func() {
		text, err := r.lines.ReadString('\n')
		if err != nil {
			text = err.Error()
		}
		line <- text
	}()
	select {
	case got := <-line:
		l.Errorf("a paused container answered %q", got)
	case <-time.After(300 * time.Millisecond):
	}
	if err := l.e.Unpause(l.ctx, r.id); err != nil {
		l.Fatalf("Unpause: %v", err)
	}
	if got := <-line; got != "wake up\n" {
		l.Errorf("after the pause: got %q, want the line from before", got)
	}
	r.ask("and more")
	if got := l.state(r.id); got != "running" {
		l.Errorf("state = %q, want running", got)
	}
}

func testRemovePaused(l *lab) {
	r := l.run(echoProgram)
	r.ask("up")
	l.pause(r.id)
	l.remove(r.id)
	if got := r.rest(); got != "" {
		l.Errorf("output after Remove = %q", got)
	}
}

func testKillPaused(l *lab) {
	r := l.run(echoProgram)
	r.ask("up")
	l.pause(r.id)
	if err := l.e.Kill(l.ctx, r.id, "SIGKILL"); err != nil {
		l.Fatalf("Kill: %v", err)
	}
	if got, want := l.wait(r.id), (runtime.Exit{Code: 137}); got != want {
		l.Errorf("exit = %+v, want %+v", got, want)
	}
}

func testUnpause(l *lab) {
	r := l.run(echoProgram)
	r.ask("up")
	if err := l.e.Unpause(l.ctx, r.id); !isRefusal(err) || errors.Is(err, runtime.ErrNoContainer) {
		l.Errorf("Unpause of a running container: %v, want a refusal", err)
	}
	r.ask("still up")
	if l.pause(r.id) {
		if err := l.e.Pause(l.ctx, r.id); err != nil && !isRefusal(err) {
			l.Errorf("Pause of a paused container: %v, want none or a refusal", err)
		}
	}
	l.remove(r.id)
	for name, call := range map[string]func(context.Context, runtime.ID) error{"Pause": l.e.Pause, "Unpause": l.e.Unpause} {
		if err := call(l.ctx, r.id); !errors.Is(err, runtime.ErrNoContainer) {
			l.Errorf("%s of a container that is gone: %v, want %v", name, err, runtime.ErrNoContainer)
		}
	}
}

func testPauseEvents(l *lab) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	events, err := l.e.Events(ctx, map[string]string{labelLab: l.label})
	if err != nil {
		l.Fatalf("Events: %v", err)
	}
	r := l.run(echoProgram)
	r.ask("up")
	// Podman 4 tells of a pause that it refuses.
	want, told := []string{"remove"}, []string{"unpause", "remove"}
	if l.pause(r.id) {
		want, told = []string{"pause", "unpause", "remove"}, []string{"pause", "unpause", "remove"}
		if err := l.e.Unpause(l.ctx, r.id); err != nil {
			l.Errorf("Unpause: %v", err)
		}
	}
	l.remove(r.id)
	var got []string
	for e := range events {
		if slices.Contains(told, e.Action) {
			got = append(got, e.Action)
		}
		if e.Action == "remove" {
			cancel()
		}
	}
	if len(want) > 1 && l.name() == runtime.Docker && slices.Equal(got, slices.Concat(want[:2], want)) {
		// It tells of what was asked for, and again of what containerd says was
		// done, if that comes when the container goes on already.
		got = got[2:]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("events (-want +got):\n%s", diff)
	}
}

// name returns what the engine calls itself.
func (l *lab) name() string {
	l.Helper()
	info, err := l.e.Info(l.ctx)
	if err != nil {
		l.Fatalf("Info: %v", err)
	}
	return info.Name
}
