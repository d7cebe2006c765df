package podman

import (
	"context"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/system"
	"github.com/containers/podman/v5/pkg/domain/entities/types"

	"github.com/bridged/bridged/pkg/runtime"
)

// Events implements [runtime.Engine].
func (e *Engine) Events(ctx context.Context, labels map[string]string) (<-chan runtime.Event, error) {
	f := labelled(labels)
	f["type"] = []string{"container"}
	opts := new(system.EventsOptions).WithStream(true).WithFilters(f)
	in := make(chan types.Event)
	if err := system.Events(e.with(ctx), in, nil, opts); err != nil {
		return nil, engineError(ctx, "events", err)
	}
	out := make(chan runtime.Event)
	go forward(ctx, out, in, labels)
	return out, nil
}

// forward ends when in does, which ctx or the service ends. It always empties
// in, or the bindings' goroutine would not end.
func forward(ctx context.Context, out chan<- runtime.Event, in <-chan types.Event, labels map[string]string) {
	defer close(out)
	for m := range in {
		if !carries(m.Actor.Attributes, labels) {
			continue
		}
		select {
		case out <- event(m):
		case <-ctx.Done():
		}
	}
}

// carries reports whether have holds all labels. The service takes several
// labels for alternatives.
func carries(have, labels map[string]string) bool {
	for k, v := range labels {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func event(m types.Event) runtime.Event {
	action := string(m.Action)
	if action == "died" {
		action = "die"
	}
	return runtime.Event{ID: runtime.ID(m.Actor.ID), Action: action, Time: time.Unix(0, m.TimeNano)}
}
