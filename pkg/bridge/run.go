package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

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
	view, notices := s.view(ctx)
	a, err := parseArgs(req.Params.RawArguments, s.srv.opts.MaxCode)
	if err != nil {
		return view.refusal(err, notices)
	}
	a.notices, a.tokens, a.data = append(notices, a.notices...), view.budget, view.mode != Compact
	if retried(req) {
		a.again = &req.Params.MultiRoundTripParams
	}
	res, err := s.run(ctx, a)
	if errors.Is(err, sandbox.ErrLeft) || errors.Is(err, sandbox.ErrPoolClosed) {
		dealingOf(ctx).leave()
	}
	if asks, ok := errors.AsType[*needsInput](err); ok {
		return handOver(ctx, asks)
	}
	if err != nil {
		return view.refusal(err, a.notices)
	}
	res.Notices = append(a.notices, res.Notices...)
	told := view.result(res)
	if s.srv.opts.Saved != nil {
		s.srv.opts.Saved(view.savings(res, told))
	}
	return told
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
	if a.again != nil {
		if a, err = py.resume(a); err != nil {
			return sandbox.Result{}, err
		}
	}
	d := dealingOf(ctx)
	if err := s.unknowable(d, a.session, ws); err != nil {
		return sandbox.Result{}, err
	}
	o := order{code: a.code, reset: a.reset, timed: a.timeout > 0, place: place, task: a.task(ws, py.lane, d), peer: peerOf(ctx)}
	if d.key != "" {
		o.key, o.ack = d.key, func() { ws.Ack(d.key) }
	}
	o.progress = newProgress(ctx, s.w.offer, ws.Waiting)
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
	if s.hello.Session != "" && !s.resumed && !s.toldLost.Swap(true) && res.StateLost == "" {
		res.Notices = append([]string{lostSession}, res.Notices...)
	}
	return res, nil
}

// task is what the arguments ask for.
func (a args) task(ws Workspace, l *lane, d *dealing) task {
	return func(ctx context.Context, output func(sandbox.Output)) (sandbox.Result, error) {
		if a.reset && !d.wasReset(ws.Unfinished()) {
			if err := ws.Reset(ctx); err != nil {
				return sandbox.Result{}, err
			}
		}
		if a.reset && strings.TrimSpace(a.code) == "" {
			return sandbox.Result{Status: sandbox.StatusOK, Notices: []string{ended}}, nil
		}
		res, err := ws.Run(ctx, sandbox.Request{Key: d.key, Code: a.code, Timeout: a.timeout, Waited: l.asking.FromNow(), Tokens: a.tokens, Data: a.data}, output)
		if errors.Is(err, sandbox.ErrRanBefore) {
			return sandbox.Result{}, errors.New(lostResult)
		}
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
