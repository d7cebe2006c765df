package main

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// usageAge is how long a sample of what sandboxes use is good enough, and
	// usageKept how long it is shown when no newer one can be had.
	usageAge  = 2 * time.Second
	usageKept = 30 * time.Second

	// usageWait is how long somebody waits for new samples. An engine that hangs
	// costs no more than that, and only whoever asks first.
	usageWait = 300 * time.Millisecond

	// usageTimeout bounds one sample, and usageAtOnce those that an engine takes
	// at once.
	usageTimeout = 2 * time.Second
	usageAtOnce  = 4
)

// A subject is a sandbox that can be asked.
type subject struct {
	id    string
	stats func(context.Context) (runtime.Stats, error)
}

// subjects are the sandboxes of a pool.
func subjects(p *sandbox.Pool) []subject {
	var list []subject
	for _, s := range p.Live() {
		list = append(list, subject{s.ID, s.Stats})
	}
	return list
}

// A sampler knows what the sandboxes use, by asking their engine when somebody
// wants to know. There is at most one round of questions under way.
type sampler struct {
	live func() []subject

	mu      sync.Mutex // guards the fields below
	samples map[string]ops.Usage
	asking  bool
	asked   time.Time // when the last round was over
}

// get returns the use of sandboxes by their IDs; those that could not be asked
// in time are missing.
func (s *sampler) get() map[string]ops.Usage {
	s.mu.Lock()
	if !s.asking && time.Since(s.asked) > usageAge {
		s.asking = true
		over := make(chan struct{})
		go func() { // ends with the timeouts of all sandboxes
			defer close(over)
			s.ask()
		}()
		s.mu.Unlock()
		patience := time.NewTimer(usageWait)
		defer patience.Stop()
		select {
		case <-over:
		case <-patience.C:
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	return maps.Clone(s.samples)
}

// ask samples all sandboxes once.
func (s *sampler) ask() {
	list := s.live()
	next := make(chan subject)
	var workers sync.WaitGroup
	for range min(usageAtOnce, len(list)) {
		workers.Go(func() { // ends with the list
			for sb := range next {
				s.sample(sb)
			}
		})
	}
	for _, sb := range list {
		next <- sb
	}
	close(next)
	workers.Wait()
	alive := map[string]bool{}
	for _, sb := range list {
		alive[sb.id] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.samples, func(id string, u ops.Usage) bool { return !alive[id] || time.Since(u.At) > usageKept })
	s.asking, s.asked = false, time.Now()
}

// sample asks for one sandbox. What can't be had is not there: an engine may be
// without the means, as a rootless one on cgroups v1.
func (s *sampler) sample(sb subject) {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	stats, err := sb.stats(ctx)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.samples == nil {
		s.samples = map[string]ops.Usage{}
	}
	s.samples[sb.id] = ops.Usage{At: time.Now(), MemoryBytes: stats.MemoryBytes, CPUSeconds: stats.CPU.Seconds(), PIDs: stats.Pids}
}
