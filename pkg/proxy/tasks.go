package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// A server says how often it wants to be asked about a task, within these.
	minPoll     = 50 * time.Millisecond
	defaultPoll = time.Second
	maxPoll     = 30 * time.Second

	// taskGrace is how long a task is to be kept beyond the call's time limit,
	// and cancelTimeout bounds the wait for its cancellation.
	taskGrace     = time.Minute
	cancelTimeout = 5 * time.Second
)

// needsTask reports whether the tool can be called as a task only, and its
// server has tasks.
func (c *toolCall) needsTask(u *upstream) bool {
	if c.definition == nil || !bytes.Contains(c.definition.Raw, []byte(`"taskSupport"`)) || !u.card.taskCalls {
		return false
	}
	var tool struct {
		Execution struct {
			TaskSupport string `json:"taskSupport"`
		} `json:"execution"`
	}
	if err := json.Unmarshal(c.definition.Raw, &tool); err != nil {
		return false
	}
	return tool.Execution.TaskSupport == string(mcp.TaskSupportRequired)
}

// A task is a call that its server works on in its own time.
type task struct {
	ID      string          `json:"taskId"`
	Status  mcp.TaskStatus  `json:"status"`
	Message string          `json:"statusMessage"`
	Poll    json.RawMessage `json:"pollInterval"` // milliseconds
}

// pause is how long to wait before asking again.
func (t task) pause() time.Duration {
	var ms float64
	if json.Unmarshal(t.Poll, &ms) != nil || ms <= 0 {
		return defaultPoll
	}
	return time.Duration(min(max(ms, float64(minPoll.Milliseconds())), float64(maxPoll.Milliseconds()))) * time.Millisecond
}

// runTask calls a tool as a task and waits for its result. When ctx ends first,
// the task is cancelled.
func (b *backend) runTask(ctx context.Context, u *upstream, c *toolCall, params json.RawMessage) (json.RawMessage, error) {
	limit, _ := c.timeLimit()
	ttl := limit + maxPatience + taskGrace
	params = fmt.Appendf(bytes.TrimSuffix(bytes.Clone(params), []byte("}")), `,"task":{"ttl":%d}}`, ttl.Milliseconds())
	raw, err := u.request(ctx, string(mcp.MethodToolsCall), params)
	if err != nil {
		return nil, err
	}
	var created struct {
		Task *task `json:"task"`
	}
	if err := json.Unmarshal(raw, &created); err != nil || created.Task == nil || created.Task.ID == "" {
		return raw, nil // it answers at once all the same
	}
	t := *created.Task
	result, err := b.awaitTask(ctx, u, c, t)
	if ctx.Err() != nil {
		b.proxy.run(func() { b.cancelTask(u, t.ID) }) // ends with its time limit
	}
	return result, underWay(err)
}

// awaitTask asks about a task until it is over or wants to know something, which
// its result waits for, and returns that.
func (b *backend) awaitTask(ctx context.Context, u *upstream, c *toolCall, t task) (json.RawMessage, error) {
	id, err := reply(map[string]string{"taskId": t.ID})
	if err != nil {
		return nil, err
	}
	for t.Status == mcp.TaskStatusWorking {
		if t.Message != "" {
			c.session.opts.Agent.Note(b.name + "." + clip(c.tool, 100) + ": " + oneNote(t.Message))
		}
		if err := sleep(ctx, t.pause()); err != nil {
			return nil, err
		}
		raw, err := u.request(ctx, string(mcp.MethodTasksGet), id)
		if err != nil {
			return nil, err
		}
		t = task{}
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, errorf(CodeUpstream, "Server %s told of the task of %s what cannot be read: %s", b.name, clip(c.tool, 100), clip(string(raw), 200))
		}
	}
	if t.Status == mcp.TaskStatusCancelled {
		return nil, errorf(CodeUpstream, "Server %s has cancelled the task of %s. %s", b.name, clip(c.tool, 100), oneNote(t.Message))
	}
	return u.request(ctx, string(mcp.MethodTasksResult), id)
}

func (b *backend) cancelTask(u *upstream, id string) {
	params, err := reply(map[string]string{"taskId": id})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, cancelTimeout)
	defer cancel()
	if _, err := u.request(ctx, string(mcp.MethodTasksCancel), params); err != nil {
		b.log.Debug().Err(err).Msg("cancel task")
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
