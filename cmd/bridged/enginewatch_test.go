package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// watchedEngines returns engines that find what find has, and are watched as those of a
// daemon with sandboxes are.
func watchedEngines(t *testing.T, find func(ctx context.Context) (runtime.Engine, error)) *engines {
	t.Helper()
	e := &engines{find: find, instance: "test", process: "1", log: zerolog.Nop()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.watch(ctx, func() bool { return true })
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return e
}

func mustGet(t *testing.T, e *engines) runtime.Engine {
	t.Helper()
	engine, err := e.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func expectStatusError(t *testing.T, e *engines, want string) {
	t.Helper()
	_, err := e.status()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("status says %v, want %q", err, want)
	}
}

func TestAnEngineThatHangsIsNoticedAndTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.NewMemory(t, enginetest.Options{})
		e := watchedEngines(t, func(ctx context.Context) (runtime.Engine, error) {
			_, err := m.Info(ctx)
			return m, err
		})
		mustGet(t, e)
		expectStatusError(t, e, "")
		m.Delay("info", time.Hour)
		time.Sleep(lookEvery + lookTime + time.Second)
		expectStatusError(t, e, "memory:// does not answer")
		began := time.Now()
		if _, err := e.get(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > detectTimeout {
			t.Errorf("got error %v after %s, want one that comes of itself", err, time.Since(began))
		}
		m.Delay("info", 0)
		time.Sleep(detectTimeout + lookEvery + time.Second)
		expectStatusError(t, e, "")
	})
}

func TestAnEngineThatGoesIsNoticedAndTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.NewMemory(t, enginetest.Options{})
		e := watchedEngines(t, func(ctx context.Context) (runtime.Engine, error) {
			_, err := m.Info(ctx)
			return m, err
		})
		mustGet(t, e)
		m.SetUnreachable(true)
		time.Sleep(lookEvery + time.Second)
		expectStatusError(t, e, "unreachable")
		m.SetUnreachable(false)
		time.Sleep(lookEvery)
		expectStatusError(t, e, "")
	})
}

func TestAnEngineThatIsReplacedIsLookedForAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer atomic.Pointer[runtime.Info]
		answer.Store(&runtime.Info{Name: "old", Version: "1", MemoryBytes: 1 << 30})
		var found atomic.Int32
		e := watchedEngines(t, func(context.Context) (runtime.Engine, error) {
			found.Add(1)
			return &saying{Memory: enginetest.NewMemory(t, enginetest.Options{}), info: &answer}, nil
		})
		first := mustGet(t, e)
		answer.Store(&runtime.Info{Name: "old", Version: "1", MemoryBytes: 2 << 30})
		time.Sleep(lookEvery + time.Second)
		if got := mustGet(t, e); got != first || found.Load() != 1 {
			t.Errorf("looked %d times, want once: it is the same engine with more memory", found.Load())
		}
		answer.Store(&runtime.Info{Name: "old", Version: "2", MemoryBytes: 2 << 30})
		time.Sleep(lookEvery)
		if got, _ := e.status(); mustGet(t, e) == first || got.Version != "2" || found.Load() != 2 {
			t.Errorf("uses version %s after %d searches, want the new one", got.Version, found.Load())
		}
	})
}

// saying is an engine that says something else of itself by and by.
type saying struct {
	*enginetest.Memory
	info *atomic.Pointer[runtime.Info]
}

func (s *saying) Info(context.Context) (runtime.Info, error) { return *s.info.Load(), nil }

// A search that takes long serves all who wait, and none of them longer than
// they like.
func TestASearchServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.NewMemory(t, enginetest.Options{})
		var searches atomic.Int32
		e := &engines{log: zerolog.Nop(), find: func(context.Context) (runtime.Engine, error) {
			searches.Add(1)
			time.Sleep(10 * time.Second)
			return m, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v of a caller in a hurry", err)
		}
		for range 5 {
			go func() { _, _ = e.get(t.Context()) }()
		}
		began := time.Now()
		if engine := mustGet(t, e); engine != m || searches.Load() != 1 || time.Since(began) > 10*time.Second {
			t.Errorf("%d searches, want one that all wait for", searches.Load())
		}
		synctest.Wait()
	})
}

func TestAFullDiskIsExplained(t *testing.T) {
	err := diskError(&runtime.EngineError{Op: "create", Status: 500, Msg: "write /x/config.json: no space left on device"})
	if !strings.Contains(err.Error(), "system prune") {
		t.Errorf("got %v, want advice", err)
	}
	other := &runtime.EngineError{Op: "create", Msg: "no"}
	if got := diskError(other); got != other {
		t.Errorf("got %v, want the error itself", got)
	}
}
