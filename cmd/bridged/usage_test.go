package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/runtime"
)

func TestUsageIsSampledWhenSomebodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, most, now atomic.Int64
		var list []subject
		for i := range 10 {
			list = append(list, subject{fmt.Sprint(i), func(context.Context) (runtime.Stats, error) {
				for n, was := now.Add(1), most.Load(); n > was && !most.CompareAndSwap(was, n); {
					was = most.Load()
				}
				time.Sleep(time.Millisecond)
				now.Add(-1)
				if asked.Add(1); i == 3 {
					return runtime.Stats{}, errors.New("no cgroups")
				}
				return runtime.Stats{MemoryBytes: int64(i), CPU: 1500 * time.Millisecond, Pids: 2}, nil
			}})
		}
		s := &sampler{live: func() []subject { return list }}
		got := s.get()
		if u := got["7"]; len(got) != 9 || u.MemoryBytes != 7 || u.CPUSeconds != 1.5 || u.PIDs != 2 {
			t.Errorf("got %+v", got)
		}
		if s.get(); asked.Load() != 10 || most.Load() != usageAtOnce {
			t.Errorf("%d questions, %d at once; want 10, %d", asked.Load(), most.Load(), usageAtOnce)
		}
		time.Sleep(usageAge + time.Millisecond)
		list = list[:2]
		if got := s.get(); len(got) != 2 || asked.Load() != 12 {
			t.Errorf("%d samples after %d questions, want 2 after 12", len(got), asked.Load())
		}
	})
}

func TestAnEngineThatHangsHoldsUpNoStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		var list []subject
		for i := range 100 {
			list = append(list, subject{fmt.Sprint(i), func(ctx context.Context) (runtime.Stats, error) {
				if i == 0 {
					return runtime.Stats{MemoryBytes: 1}, nil
				}
				<-hung // it does not even look at its context
				return runtime.Stats{}, ctx.Err()
			}})
		}
		s := &sampler{live: func() []subject { return list }}
		began := time.Now()
		if got := s.get(); len(got) != 1 || time.Since(began) != usageWait {
			t.Errorf("the first: %d samples after %s, want 1 after %s", len(got), time.Since(began), usageWait)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		for range 100 {
			s.get()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the others took %s", took)
		}
		close(hung)
	})
}

func TestWhatWaitsAndWhatIsUsedIsSummedUp(t *testing.T) {
	s := ops.Status{
		Approvals: 2, Servers: []ops.Server{{Waiting: 3}, {Waiting: 4}},
		Sandboxes: []ops.Sandbox{{ID: "a"}, {ID: "b"}, {ID: "c"}},
		Sessions: []ops.Session{
			{Pythons: []ops.Python{{Running: 3, Sandbox: "a"}, {Running: 1, Sandbox: "b"}, {}}},
			{Pythons: []ops.Python{{Running: 2, Sandbox: "c"}}},
		},
	}
	if got, want := queues(s), (ops.Queues{Runs: 3, Calls: 7, Approvals: 2}); got != want {
		t.Errorf("queues: got %+v, want %+v", got, want)
	}
	s = withUsage(s, map[string]ops.Usage{"a": {MemoryBytes: 1, CPUSeconds: 0.5}, "b": {MemoryBytes: 2, CPUSeconds: 1}})
	if u := s.Sandboxes[1].Usage; u == nil || u.MemoryBytes != 2 || s.Sandboxes[2].Usage != nil {
		t.Errorf("sandboxes: %+v", s.Sandboxes)
	}
	if v := s.Sessions[0]; v.MemoryBytes == nil || *v.MemoryBytes != 3 || *v.CPUSeconds != 1.5 || s.Sessions[1].MemoryBytes != nil {
		t.Errorf("sessions: %+v", s.Sessions)
	}
}
