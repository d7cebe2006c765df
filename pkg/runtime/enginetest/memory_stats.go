package enginetest

import (
	"context"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// Stats implements [runtime.Engine]. The sample is made up: 8 MiB and one pid,
// and a fiftieth of the time since the start as CPU time.
func (m *Memory) Stats(ctx context.Context, id runtime.ID) (runtime.Stats, error) {
	c, err := m.find(ctx, "stats", id)
	if err != nil {
		return runtime.Stats{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.aliveLocked() {
		return runtime.Stats{}, refusal("stats", 409, "container is %s", c.state)
	}
	return runtime.Stats{MemoryBytes: 8 << 20, CPU: time.Since(c.started) / 50, Pids: 1}, nil
}
