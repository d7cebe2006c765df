package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// emptyFiles is a folder for sessions in which there are none.
func emptyFiles(t *testing.T) *sessionFiles {
	t.Helper()
	return filesIn(t, filepath.Join(t.TempDir(), "sessions"))
}

func filesIn(t *testing.T, dir string) *sessionFiles {
	t.Helper()
	f, err := openSessionFiles(dir, 0, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.release)
	return f
}

const someSession = "a-session-with-a-long-name"

func TestSessionsOutliveTheDaemon(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	f := filesIn(t, dir)
	l := newLegacy(f, time.Hour, nil, nil, zerolog.Nop())
	l.Open(someSession, bridge.Hello{CWD: "/home/ann"})
	l.hold(someSession, "", sandbox.Ticket{ID: "one", Container: "c1", Secret: "s1"})
	l.load(someSession, "", []string{"github", "jira"})
	l.load(someSession, "", []string{"jira"})
	l.hold(someSession, "side", sandbox.Ticket{ID: "two", Container: "c2"})
	l.Outlive(someSession, "side", "1.1")                                     // in the sandbox that is replaced
	l.hold(someSession, "side", sandbox.Ticket{ID: "three", Container: "c3"}) // it was replaced
	l.Outlive(someSession, "side", "1.2")
	l.Outlive(someSession, "side", "1.3")
	l.Heard(someSession, "side", "1.2")
	if !l.holds("c1") || l.holds("c2") || !l.holds("c3") {
		t.Errorf("claimed: c1 %v, c2 %v, c3 %v", l.holds("c1"), l.holds("c2"), l.holds("c3"))
	}
	if _, ok := l.Resume(someSession); ok {
		t.Error("a session that has its shim was given to another")
	}
	info, err := os.Stat(f.path(someSession))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if strings.Contains(f.path(someSession), someSession) {
		t.Error("the file's name tells the session's")
	}
	f.release()

	var adopted []string
	l = newLegacy(filesIn(t, dir), time.Hour, func(_ context.Context, t sandbox.Ticket) (*sandbox.Sandbox, error) {
		adopted = append(adopted, t.ID+t.Secret)
		return nil, sandbox.ErrGone
	}, nil, zerolog.Nop())
	l.slots = make(chan struct{}, 1) // one after the other
	if got := l.waiting(); got != 1 {
		t.Errorf("%d sessions wait, want 1", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	names, ok := l.Resume(someSession)
	if want := []bridge.Remains{{}, {Python: "side", Late: []string{"1.3"}}}; !ok || !cmp.Equal(names, want, cmpopts.EquateEmpty()) {
		t.Errorf("got %+v, %v, want %+v", names, ok, want)
	}
	h, err := l.take(t.Context(), someSession, "")
	if err != nil || h == nil || h.lost != "it ended while bridged was restarted" || !cmp.Equal(h.servers, []string{"github", "jira"}) {
		t.Errorf("got %+v, %v", h, err)
	}
	if h, err := l.take(t.Context(), someSession, ""); h != nil || err != nil {
		t.Errorf("the second time: got %+v, %v", h, err)
	}
	for _, h := range l.untaken() {
		<-h.done // what is not settled at the end is left to the next daemon
	}
	cancel()
	<-done
	if slices.Sort(adopted); !cmp.Equal(adopted, []string{"ones1", "three"}) {
		t.Errorf("adopted %q", adopted)
	}
	if l.holds("c1") || l.holds("c3") {
		t.Error("a container that could not be adopted is claimed")
	}
	l.Close(someSession)
	if _, err := os.Stat(f.path(someSession)); !os.IsNotExist(err) {
		t.Errorf("the file is there after the session: %v", err)
	}
}

func TestASessionWhoseShimDoesNotComeIsEnded(t *testing.T) {
	f := emptyFiles(t)
	err := f.write(&savedSession{Version: sessionFormat, ID: someSession, Pythons: []savedPython{{Ticket: sandbox.Ticket{ID: "one", Container: "c1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	l := newLegacy(f, time.Millisecond, func(ctx context.Context, _ sandbox.Ticket) (*sandbox.Sandbox, error) {
		tries++
		<-ctx.Done()
		return nil, fmt.Errorf("%w: none answers", errEngine)
	}, nil, zerolog.Nop())
	l.run(t.Context()) // returns when it was ended
	if _, ok := l.Resume(someSession); ok || l.holds("c1") || tries != 1 {
		t.Errorf("it is there still: %v, %v; %d tries", ok, l.holds("c1"), tries)
	}
	if list := f.read(); len(list) > 0 {
		t.Errorf("files of %d sessions are left", len(list))
	}
}

func TestAnAdoptionWaitsForTheEngine(t *testing.T) {
	tries := 0
	l := newLegacy(emptyFiles(t), time.Hour, func(context.Context, sandbox.Ticket) (*sandbox.Sandbox, error) {
		if tries++; tries < 3 {
			return nil, fmt.Errorf("%w: none answers", errEngine)
		}
		return nil, errors.New("it is another one")
	}, nil, zerolog.Nop())
	if _, err := l.adoptOne(t.Context(), sandbox.Ticket{}); tries != 3 || err == nil || err.Error() != "it is another one" {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestASessionsFileThatIsNoneIsSetAside(t *testing.T) {
	f := emptyFiles(t)
	good := &savedSession{Version: sessionFormat, ID: someSession, CWD: "/", Since: time.Unix(1700000000, 0).UTC()}
	if err := f.write(good); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(f.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("half.json", `{"version":1,"id":"a-session`, 0o600)
	write("later.json", `{"version":99,"id":"a-session-of-a-later-one"}`, 0o600)
	write("open.json", `{"version":1,"id":"a-session-that-others-may-read"}`, 0o644)
	write("other.json", `{"version":1,"id":"a-session-of-another-file"}`, 0o600)
	write("huge.json", `{"version":1,"id":"`+strings.Repeat("x", maxSessionFile)+`"}`, 0o600)
	if err := os.Symlink(f.path(someSession), filepath.Join(f.dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.dir, "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*savedSession{good}, f.read(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bad, err := filepath.Glob(filepath.Join(f.dir, "*.bad"))
	if err != nil || len(bad) != 7 {
		t.Errorf("set aside: %q, %v", bad, err)
	}
}

func TestOneDaemonAtATimeHasTheSessions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	f := filesIn(t, dir)
	if _, err := openSessionFiles(dir, 0, zerolog.Nop()); !errors.Is(err, errLocked) {
		t.Fatalf("got %v, want %v", err, errLocked)
	}
	got := make(chan error, 1)
	go func() {
		next, err := openSessionFiles(dir, time.Minute, zerolog.Nop())
		if err == nil {
			next.release()
		}
		got <- err
	}()
	f.release()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestWhatCouldNotBeAdoptedInTimeIsLeftOrRemoved(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		f := emptyFiles(t)
		err := f.write(&savedSession{Version: sessionFormat, ID: someSession, Pythons: []savedPython{{Ticket: sandbox.Ticket{ID: "one", Container: "c1"}}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var removed []runtime.ID
		l := newLegacy(f, time.Hour, func(ctx context.Context, _ sandbox.Ticket) (*sandbox.Sandbox, error) {
			cancel() // the daemon is told to end
			<-ctx.Done()
			return nil, ctx.Err()
		}, func(_ context.Context, id runtime.ID) { removed = append(removed, id) }, zerolog.Nop())
		l.run(ctx)
		l.close(t.Context(), leaves)
		kept := f.read()
		if leaves && (len(kept) != 1 || kept[0].Pythons[0].Ticket.ID != "one" || kept[0].Pythons[0].Lost != "" || removed != nil) {
			t.Errorf("left: kept %+v, removed %q", kept, removed)
		}
		if !leaves && (len(kept) != 0 || !cmp.Equal(removed, []runtime.ID{"c1"})) {
			t.Errorf("stopped: kept %+v, removed %q", kept, removed)
		}
	}
}
