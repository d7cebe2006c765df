package docker

import (
	"context"
	"time"

	"github.com/docker/docker/api/types/events"

	"github.com/bridged/bridged/pkg/runtime"
)

// Events implements [runtime.Engine].
func (e *Engine) Events(ctx context.Context, labels map[string]string) (<-chan runtime.Event, error) {
	f := labelled(labels)
	f.Add("type", string(events.ContainerEventType))
	ctx, cancel := context.WithCancel(ctx)
	messages, errs := e.client.Events(ctx, events.ListOptions{Filters: f})
	select {
	case err := <-errs: // it could not begin
		defer cancel()
		return nil, engineError(ctx, "events", err)
	default:
	}
	out := make(chan runtime.Event)
	// It ends with ctx or with the engine's stream.
	go func() {
		defer cancel()
		defer close(out)
		forward(ctx, out, messages, errs)
	}()
	return out, nil
}

func forward(ctx context.Context, out chan<- runtime.Event, in <-chan events.Message, errs <-chan error) {
	for {
		select {
		case m := <-in:
			select {
			case out <- event(m):
			case <-ctx.Done():
				return
			}
		case err := <-errs:
			_ = err // however the stream ended, the channel's end says it
			return
		}
	}
}

func event(m events.Message) runtime.Event {
	action := string(m.Action)
	if m.Action == events.ActionDestroy {
		action = "remove"
	}
	return runtime.Event{ID: runtime.ID(m.Actor.ID), Action: action, Time: time.Unix(0, m.TimeNano)}
}
