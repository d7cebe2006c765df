package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A world is a store on a disk that loses power, and what was acknowledged.
type world struct {
	d     *powerDisk
	sp    *Space
	acked map[string]state // by key
	maybe map[string]state // what the step that was cut would have made
	past  map[string]state // what the last that was acknowledged has replaced
}

// A state is what a key should be: a number, or nothing.
type state struct {
	there   bool
	value   int
	version int64
}

func newWorld(d *powerDisk) *world {
	s := open(Options{Dir: "/home/MCPs/user_tools/memory", History: 3}, d)
	s.now = func() time.Time { return d.clock }
	return &world{d: d, sp: s.Global(), acked: map[string]state{}, maybe: map[string]state{}, past: map[string]state{}}
}

// change does one thing to a key, and notes what it knows then. It reports
// whether it was acknowledged.
func (w *world) change(t *testing.T, key string, value int) bool {
	was := w.acked[key]
	switch {
	case value%7 == 6:
		w.maybe[key] = state{}
		if _, err := w.sp.Delete(t.Context(), key); err != nil {
			return false
		}
		w.acked[key], w.past[key] = state{}, was
	case value%7 == 5 && was.there && was.version > 1:
		m, err := w.sp.Restore(t.Context(), key, 0)
		if _, missing := errors.AsType[*Error](err); missing {
			return true
		}
		if err != nil {
			w.maybe[key] = state{there: true, value: -1}
			return false
		}
		w.note(t, key, m)
	default:
		w.maybe[key] = state{there: true, value: value}
		m, err := w.sp.Save(t.Context(), key, Change{Value: json.RawMessage(fmt.Sprint(value))})
		if err != nil {
			return false
		}
		w.note(t, key, m)
	}
	delete(w.maybe, key)
	return true
}

func (w *world) note(t *testing.T, key string, m Memory) {
	var value int
	if err := json.Unmarshal(m.Value, &value); err != nil {
		t.Fatal(err)
	}
	w.past[key] = w.acked[key]
	w.acked[key] = state{true, value, m.Version}
}

// check fails the test unless all is there that was acknowledged, and whole.
func (w *world) check(t *testing.T, next *world) {
	t.Helper()
	for key, want := range w.acked {
		got := next.look(t, key)
		maybe, either := w.maybe[key]
		switch {
		case got.there == want.there && got.value == want.value:
		case either && got.there == maybe.there && (got.value == maybe.value || maybe.value == -1):
		default:
			t.Fatalf("%s is %+v, want %+v or %+v", key, got, want, maybe)
		}
		if got.there && want.there && got.version < want.version {
			t.Fatalf("%s has version %d, and %d was acknowledged", key, got.version, want.version)
		}
	}
	for key, want := range w.past {
		list, err := next.sp.History(key)
		had := func(e Edition) bool { return e.Version == want.version }
		if err != nil || want.there && !slices.ContainsFunc(list, had) {
			t.Fatalf("the history of %s is %+v, %v, and version %d was replaced", key, list, err, want.version)
		}
	}
	for path, i := range next.d.now {
		inTemp := strings.Contains(path, "/"+tempName+"/")
		if i.folder || inTemp {
			continue
		}
		if _, err := parse(filepath.Base(path), i.data, i.changed); err != nil {
			t.Fatalf("%s is torn: %v: %q", path, err, i.data)
		}
	}
}

func (w *world) look(t *testing.T, key string) state {
	t.Helper()
	m, err := w.sp.Load(key)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}
	}
	if err != nil {
		t.Fatalf("loading %s: %v", key, err)
	}
	w.note(t, key, m)
	return w.acked[key]
}

// goOn fails the test unless the store can be used after the crash.
func (w *world) goOn(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		before := w.look(t, key)
		if !w.change(t, key, 7000) {
			t.Fatalf("%s can't be saved after the crash", key)
		}
		if now := w.look(t, key); now.value != 7000 || now.version <= before.version {
			t.Fatalf("%s is %+v after the crash, and was %+v", key, now, before)
		}
	}
	if left, err := w.d.list("/home/MCPs/user_tools/memory/.tmp"); err != nil || len(left) > 0 {
		t.Fatalf("%d files of writers that were cut are left, %v", len(left), err)
	}
}

// Each step of each kind of change is the last before the power is gone, with
// many outcomes of what was not synced.
func TestEveryStepMayBeTheLast(t *testing.T) {
	runs := 0
	for first := range 8 { // 0: no folder yet; later ones: a restore, a deletion
		for cut := 1; ; cut++ {
			d := newPowerDisk(uint64(first*1000 + cut))
			w := newWorld(d)
			for v := range first {
				if !w.change(t, "k", v) {
					t.Fatal("a save failed on a disk with power")
				}
			}
			d.step, d.cut = 0, cut
			if w.change(t, "k", first) && !d.dead {
				break // it has fewer steps
			}
			for range 20 {
				next := newWorld(d.restart())
				w.check(t, next)
				next.goOn(t, "k")
				runs++
			}
		}
	}
	if runs < 1000 {
		t.Errorf("%d runs only: the disk sees too few steps", runs)
	}
}

var crashKeys = []string{"a", "B", "c/d"}

// As before, over long sequences of changes of several keys. The number of runs
// is BRIDGED_TEST_CRASHES.
func TestWhatIsAcknowledgedOutlastsALossOfPower(t *testing.T) {
	runs := 800
	if n, err := strconv.Atoi(os.Getenv("BRIDGED_TEST_CRASHES")); err == nil {
		runs = n
	}
	for seed := range runs {
		d := newPowerDisk(uint64(seed))
		d.cut = 1 + d.rng.IntN(200)
		w := newWorld(d)
		for !d.dead {
			w.change(t, crashKeys[d.rng.IntN(3)], d.rng.IntN(1000))
		}
		next := newWorld(d.restart())
		w.check(t, next)
		next.goOn(t, crashKeys...)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// A step that fails is told, and leaves what was there or what was to be.
func TestEveryStepMayFail(t *testing.T) {
	for first := range 8 {
		for cut := 1; ; cut++ {
			d := newPowerDisk(uint64(first*1000 + cut))
			w := newWorld(d)
			for v := range first {
				w.change(t, "k", v)
			}
			d.step, d.cut, d.failing = 0, cut, true
			w.change(t, "k", first)
			if d.step < cut {
				break
			}
			next := newWorld(d)
			w.check(t, next)
			next.goOn(t, "k")
		}
	}
}
