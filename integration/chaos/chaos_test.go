//go:build integration

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/bridged/bridged/integration/engines"
)

var (
	seedFlag    = flag.Uint64("seed", 1, "of the plan; 0 takes one from the clock")
	minutesFlag = flag.Float64("minutes", 0, "how long to go on; 0 is until each fault was there once")
	engineFlag  = flag.String("engine", string(engines.Rootful), "rootless, rootful, docker or trixie")
	soakFlag    = flag.Bool("soak", false, "let nothing go wrong, and print what the daemon uses")
)

func TestMain(m *testing.M) { engines.Main(m) }

const (
	// diskBytes is the size of the disk with the home; a daemon needs a
	// hundredth of it.
	diskBytes = 16 << 20
	// spareFiles and spareGoroutines may be more than in a daemon that has just
	// been started: idle connections to the engine come, and go after half a
	// minute. Each has two goroutines.
	spareFiles      = 2
	spareGoroutines = 12
)

// TestChaos plays a plan, or soaks.
func TestChaos(t *testing.T) {
	if *soakFlag {
		soak(t)
		return
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("engine %s, seed %d", *engineFlag, seed)
	w := open(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("once more: make chaos SEED=%d ENGINE=%s MINUTES=%g", seed, *engineFlag, *minutesFlag)
			t.Logf("the last daemon said:\n%s", w.tail())
		}
	})
	before := measure(t, w)
	if err := w.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := w.play(t, seed)
	total := &tally{}
	end := time.Now().Add(time.Duration(*minutesFlag * float64(time.Minute)))
	p := newPlan(seed)
	for first := true; !t.Failed() && (first || time.Now().Before(end)); first = false {
		for _, b := range p.deck() {
			if t.Failed() || !first && time.Now().After(end) {
				break
			}
			w.suffer(t, b, total)
		}
	}
	stop()
	t.Logf("\n%s", total)
	w.leavesNothing(t, before)
}

// open makes a world on the engine that was asked for.
func open(t *testing.T) *world {
	t.Helper()
	r := engines.ForTest(t, engines.Name(*engineFlag))
	dir, err := os.MkdirTemp("", "chaos") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	engines.Disk(t, dir, diskBytes)
	w, err := newWorld(r, dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.lock.Close() // nobody needs it any more
		if w.daemon != nil {
			_ = w.daemon.Process.Kill() // it has ended, unless the test failed
			<-w.gone
		}
	})
	return w
}

// A measure is what a daemon without sessions uses.
type usage struct{ files, goroutines int }

// measure starts a daemon, has it serve one agent, and looks what it uses
// afterwards.
func measure(t *testing.T, w *world) usage {
	t.Helper()
	if err := w.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := &agent{w: w, rng: rand.New(rand.NewPCG(1, 1))}
	c, err := a.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.model.fresh()
	for range 10 {
		a.step(t.Context(), c)
	}
	_ = c.Close() // its exit code says nothing
	if err := w.idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	var u usage
	if u.files, err = w.files(); err != nil {
		t.Fatal(err)
	}
	if _, u.goroutines, err = w.quit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.fail(t)
	return u
}

// play starts the agents. The result stops them and waits for them.
func (w *world) play(t *testing.T, seed uint64) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var playing sync.WaitGroup
	for i := range agents {
		a := &agent{w: w, number: i, rng: rand.New(rand.NewPCG(seed, uint64(100+i)))}
		w.agents = append(w.agents, a)
		playing.Go(func() { a.run(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		playing.Wait()
	})
	t.Cleanup(stop)
	w.recover(t)
	return stop
}

// recover waits until every agent has answers again.
func (w *world) recover(t *testing.T) {
	t.Helper()
	for _, a := range w.agents {
		want := a.answers.Load() + 2
		err := w.until(t.Context(), fmt.Sprintf("agent %d has answers", a.number), func() bool { return a.answers.Load() >= want })
		if err != nil {
			w.violation("%v; last: %s", err, w.close().example)
		}
	}
	w.fail(t)
}

// fail fails the test for what was noticed.
func (w *world) fail(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.violations {
		t.Error(v)
	}
	w.violations = nil
}

// suffer has one fault happen, and looks what it took.
func (w *world) suffer(t *testing.T, b blow, total *tally) {
	t.Helper()
	w.open(b)
	f := find(b.fault)
	began := time.Now()
	struck, err := f.strike(t.Context(), w, b)
	if err != nil {
		t.Fatalf("%s: %v", b.fault, err)
	}
	w.recover(t)
	seen := w.close()
	total.add(b, struck, seen, time.Since(began))
	took := map[int]int{}
	for _, l := range seen.losses {
		took[l.agent]++
	}
	switch f.takes(w) {
	case nothing:
		if len(took) > 0 {
			t.Errorf("%s: it may take no session, and took %v", b.fault, seen.losses)
		}
	case own:
		if struck && (len(took) != 1 || took[b.victim] != 1) {
			t.Errorf("%s: it may take agent %d's session alone, and took %v", b.fault, b.victim, seen.losses)
		}
	case maybe:
	}
}

// leavesNothing looks for what is left when all agents are gone.
func (w *world) leavesNothing(t *testing.T, before usage) {
	t.Helper()
	ctx := t.Context()
	if err := w.idle(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.until(ctx, "no container is left but the warm one", func() bool {
		list, err := w.containers(ctx)
		return err == nil && len(list) == w.status(ctx).Pool.Warm
	}); err != nil {
		t.Error(err)
	}
	var files int
	if err := w.until(ctx, "files are closed", func() bool {
		n, err := w.files()
		files = n
		return err == nil && n <= before.files+spareFiles
	}); err != nil {
		t.Errorf("%v: %d are open, %d were at first", err, files, before.files)
	}
	stacks, n, err := w.quit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("files: %d, at first %d; goroutines: %d, at first %d", files, before.files, n, before.goroutines)
	if n > before.goroutines+spareGoroutines {
		t.Errorf("the daemon has %d goroutines, at first %d:\n%s", n, before.goroutines, stacks)
	}
	// The next daemon removes what that one has left, and then its own.
	if err := errors.Join(w.start(ctx), w.idle(ctx), w.end(ctx, syscall.SIGINT)); err != nil {
		t.Error(err)
	}
	list, err := w.containers(ctx)
	if err != nil || len(list) > 0 {
		t.Errorf("containers are left: %v, %v", list, err)
	}
	if err := w.until(ctx, "no process is left", func() bool { return len(w.processes("")) == 0 }); err != nil {
		t.Errorf("%v: %v", err, w.processes(""))
	}
	for _, path := range sockets(t, w.dir) {
		t.Errorf("a socket is left: %s", path)
	}
}

func sockets(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSocket != 0 {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// tail is the end of what the last daemon wrote.
func (w *world) tail() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, err := os.ReadFile(filepath.Join(w.logs, fmt.Sprintf("daemon-%03d.log", w.starts)))
	if err != nil {
		return err.Error()
	}
	const most = 16 << 10
	return string(text[max(0, len(text)-most):])
}

// A tally adds up what the faults did.
type tally struct{ rows []*row }

type row struct {
	fault                                 string
	times, answers, refused, failed, lost int
	longest                               time.Duration
	example                               string
}

func (t *tally) add(b blow, struck bool, seen window, took time.Duration) {
	var r *row
	for _, old := range t.rows {
		if old.fault == b.fault {
			r = old
		}
	}
	if r == nil {
		r = &row{fault: b.fault}
		t.rows = append(t.rows, r)
	}
	if struck {
		r.times++
	}
	r.answers += seen.answers
	r.refused += seen.refused
	if seen.example != "" {
		r.example = seen.example
	}
	r.failed += seen.failed
	r.lost += len(seen.losses)
	r.longest = max(r.longest, took)
	for _, l := range seen.losses {
		r.example = l.words
	}
}

// String is a table.
func (t *tally) String() string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "fault\ttimes\tright answers\terrors\tserver's\tsessions lost\tlongest\tlast told of a loss, or error")
	for _, r := range t.rows {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%.120s\n", r.fault, r.times, r.answers, r.refused, r.failed, r.lost, r.longest.Round(100*time.Millisecond), strings.ReplaceAll(r.example, "\n", " "))
	}
	_ = tw.Flush() // into memory
	return b.String()
}
