package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bridged/bridged/pkg/sandbox"
)

// lostSession is what an agent is told whose shim has lost its daemon.
const lostSession = "bridged was restarted: variables, imports and functions of earlier calls are gone. Run what you still need again."

// startedOver is what an agent is told that asked for a reset.
const startedOver = "started over: this is a fresh sandbox; variables, imports, files and background code of earlier calls are gone"

// ended is what an agent is told that asked for a reset and ran nothing.
const ended = "this session's sandbox has ended, with variables, imports, files and background code; the next call gets a fresh one"

// runPython is [session.call] as mcp-go wants it.
func (s *session) runPython(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return s.call(ctx, req), nil
}

// call answers a call of the tool. Everything that goes wrong is a result that
// the model can read, never a protocol error.
func (s *session) call(ctx context.Context, req mcp.CallToolRequest) *mcp.CallToolResult {
	s.calls.Add(1)
	view := viewOf(ctx, s.srv.opts.TextBudget)
	a, err := parseArgs(req.Params.RawArguments, s.srv.opts.MaxCode)
	if err != nil {
		return view.refusal(err, nil)
	}
	res, err := s.run(ctx, a)
	if err != nil {
		return view.refusal(err, a.notices)
	}
	res.Notices = append(a.notices, res.Notices...)
	return view.result(res)
}

// run loads the servers and runs the code. An error means that nothing ran.
func (s *session) run(ctx context.Context, a args) (sandbox.Result, error) {
	t := ticketOf(ctx)
	t.await()
	py, place, err := s.pys.enter(a.session)
	t.pass()
	if err != nil {
		return sandbox.Result{}, err
	}
	defer py.running.Add(-1)
	handed := false // the lane has taken the place over
	defer func() {
		if !handed {
			py.lane.leave(place)
		}
	}()
	ws, err := py.desk.get(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	o := order{code: a.code, reset: a.reset, timed: a.timeout > 0, place: place, task: a.task(ws)}
	o.progress = newProgress(ctx, s.w.offer)
	defer o.progress.close()
	if d := s.srv.opts.YieldAfter; d > 0 && o.progress == nil {
		patience := time.NewTimer(d)
		defer patience.Stop()
		o.patience = patience.C
	}
	if len(a.servers) > 0 {
		if err := ws.Load(ctx, a.servers); err != nil {
			return sandbox.Result{}, explain(ctx, err)
		}
	}
	handed = true
	res, err := py.lane.do(ctx, o)
	if err != nil {
		return sandbox.Result{}, explain(ctx, err)
	}
	if s.hello.Session != "" && !s.toldLost.Swap(true) && res.StateLost == "" {
		res.Notices = append([]string{lostSession}, res.Notices...)
	}
	return res, nil
}

// task is what the arguments ask for.
func (a args) task(ws Workspace) task {
	return func(ctx context.Context, output func(sandbox.Output)) (sandbox.Result, error) {
		if a.reset {
			if err := ws.Reset(ctx); err != nil {
				return sandbox.Result{}, err
			}
		}
		if a.reset && strings.TrimSpace(a.code) == "" {
			return sandbox.Result{Status: sandbox.StatusOK, Notices: []string{ended}}, nil
		}
		res, err := ws.Run(ctx, sandbox.Request{Code: a.code, Timeout: a.timeout}, output)
		if a.reset && err == nil {
			res.Notices = append([]string{startedOver}, res.Notices...)
		}
		return res, err
	}
}

// explain puts the reason of an ended request in the place of the bare
// "context canceled".
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, cause)) {
		return fmt.Errorf("nothing ran: %w", cause)
	}
	return err
}

// A view says what of a result a client's protocol version has room for.
type view struct {
	budget     int  // bytes of text
	structured bool // structuredContent, since 2025-06-18
	audio      bool // audio content, since 2025-03-26
}

func viewOf(ctx context.Context, budget int) view {
	v := server.RequestProtocolVersion(ctx)
	return view{
		budget:     budget,
		structured: v == "" || v >= mcp.ProtocolVersion20250618,
		audio:      v == "" || v >= mcp.ProtocolVersion20250326,
	}
}
