//go:build integration

package escape

import (
	"bytes"
	"context"
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// beat is how often the witness is asked.
	beat = 100 * time.Millisecond
	// answerTime bounds its answer. It takes milliseconds on a quiet machine;
	// a flood next door may slow it down but not stop it.
	answerTime = 30 * time.Second
	// calmTime bounds the wait for a daemon to be as it was.
	calmTime = 60 * time.Second

	// maxGoroutines is how many more there may be afterwards: engines' idle
	// connections come and go.
	maxGoroutines = 24
	// maxGrowth bounds what the daemon's heap may grow by meanwhile. Two frames
	// of 32 MiB may come at once, and decoding them takes several times that;
	// what has not been collected yet counts too.
	maxGrowth = 640 << 20
	// maxKept bounds what it may have kept afterwards.
	maxKept = 64 << 20
)

// A witness is a session that has done nothing and must not notice anything.
type witness struct {
	*guest
	label   string // of the house's containers
	servers []sandbox.Server
	n       int
}

// question counts, asks a server, and returns both.
const question = `
n += 1
n, "escape" in str(await mcp_files.list_allowed_directories())`

func (h *house) witness(ctx context.Context) (*witness, error) {
	w := &witness{guest: h.guest(), label: h.label}
	var err error
	if w.servers, err = w.load("files"); err == nil {
		_, err = w.Run(ctx, sandbox.Request{Code: "n = 0", Servers: w.servers}, nil)
	}
	if err != nil {
		w.leave()
		return nil, fmt.Errorf("preparing the witness: %w", err)
	}
	return w, nil
}

// ask returns what is wrong with the witness, "" if nothing is.
func (w *witness) ask(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	w.n++
	res, err := w.Run(ctx, sandbox.Request{Code: question, Timeout: answerTime}, nil)
	switch want := fmt.Sprintf("(%d, True)", w.n); {
	case err != nil:
		return fmt.Sprintf("another session can't run code: %v", err)
	case res.Value != want || printed(res) != "" || len(res.Rich) > 0:
		return fmt.Sprintf("another session got %.200q, printed %.200q, want %q: %+v", res.Value, printed(res), want, res.Error)
	}
	return ""
}

// A watch looks at the witness and at the daemon's memory while an assault goes
// on.
type watch struct {
	stop    context.CancelFunc
	label   string
	done    sync.WaitGroup
	trouble string // of the witness
	peak    uint64 // heap, bytes
	crowd   int    // most processes in one container
}

func (w *witness) watch(ctx context.Context) *watch {
	ctx, stop := context.WithCancel(ctx)
	v := &watch{stop: stop, label: w.label}
	v.done.Go(func() { v.listen(ctx, w) })
	v.done.Go(func() { v.measure(ctx) })
	return v
}

// listen asks the witness until ctx ends.
func (v *watch) listen(ctx context.Context, w *witness) {
	for v.trouble == "" && sleep(ctx, beat) {
		// A question that was asked is waited for.
		v.trouble = w.ask(context.WithoutCancel(ctx))
	}
}

func (v *watch) measure(ctx context.Context) {
	for {
		v.peak, v.crowd = max(v.peak, heap()), max(v.crowd, crowd(v.label))
		if !sleep(ctx, beat/4) {
			return
		}
	}
}

// end returns what the watch has seen.
func (v *watch) end() {
	v.stop()
	v.done.Wait()
}

// sleep reports whether d has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// heap is how much memory of this process holds objects, dead ones included.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// crowd returns how many processes the container has that has most, of those
// with label in their environment. They can't be seen unless this is root.
func crowd(label string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	count, ours, most := map[string]int{}, map[string]bool{}, 0
	for _, e := range entries {
		space, err := os.Readlink("/proc/" + e.Name() + "/ns/pid")
		if err != nil {
			continue
		}
		if _, known := ours[space]; !known {
			environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
			if err != nil || len(environ) == 0 {
				continue
			}
			ours[space] = bytes.Contains(environ, []byte(label))
		}
		if !ours[space] {
			continue
		}
		count[space]++
		most = max(most, count[space])
	}
	return most
}

// A state is what the daemon holds while nothing happens.
type state struct {
	goroutines int
	heap       uint64
}

// calm waits until the daemon is at rest with its witness alone, and returns
// what it holds then, and what is wrong, "" if nothing is.
func (h *house) calm(ctx context.Context, before *state) (state, string) {
	var s state
	wrong := "the daemon does not come to rest"
	for end := time.Now().Add(calmTime); time.Now().Before(end); {
		s, wrong = h.look(ctx, before)
		if wrong == "" || !sleep(ctx, beat) {
			break
		}
	}
	return s, wrong
}

func (h *house) look(ctx context.Context, before *state) (state, string) {
	goruntime.GC()
	s := state{goroutines: goruntime.NumGoroutine(), heap: heap()}
	st := h.pool.Status()
	n, err := h.containers(ctx)
	switch {
	case err != nil:
		return s, fmt.Sprintf("the engine does not list containers: %v", err)
	case st.Warm != st.Target || st.Leased != 1 || st.Creating != 0:
		return s, fmt.Sprintf("the pool has %d warm, %d leased, %d in creation: %s", st.Warm, st.Leased, st.Creating, st.LastError)
	case n != st.Warm+st.Leased:
		return s, fmt.Sprintf("there are %d containers, want %d", n, st.Warm+st.Leased)
	case before != nil && s.goroutines > before.goroutines+maxGoroutines:
		return s, fmt.Sprintf("the daemon has %d goroutines, before %d", s.goroutines, before.goroutines)
	case before != nil && s.heap > before.heap+maxKept:
		return s, fmt.Sprintf("the daemon keeps %d MiB, before %d", s.heap>>20, before.heap>>20)
	}
	return s, ""
}
