package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/policy"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// A watching tells the readers of events what the daemon does. None of its
// methods blocks. A nil one tells nobody of engines.
type watching struct {
	events  *ops.Events
	metrics *ops.Metrics
	lastRun atomic.Uint64
}

// newWatching returns one that asks status how the daemon is, and totals what
// its parts have counted, but not before somebody wants the metrics.
func newWatching(status func() ops.Status, totals func() ops.Totals) *watching {
	o := ops.MetricsOptions{Version: version, Status: status, Totals: totals}
	for _, r := range sandbox.Reasons() {
		o.Reasons = append(o.Reasons, string(r))
	}
	return &watching{events: ops.NewEvents(), metrics: ops.NewMetrics(o)}
}

// sandboxEvents are the events of what becomes of sandboxes.
var sandboxEvents = map[sandbox.EventKind]ops.EventType{
	sandbox.EventMade: ops.SandboxMade, sandbox.EventLeased: ops.SandboxLeased, sandbox.EventAdopted: ops.SandboxAdopted, sandbox.EventPaused: ops.SandboxPaused,
	sandbox.EventResumed: ops.SandboxResumed, sandbox.EventEnded: ops.SandboxEnded, sandbox.EventFailed: ops.PoolFailed,
}

func (w *watching) sandbox(e sandbox.Event) {
	out := ops.Event{
		Type: sandboxEvents[e.Kind], Sandbox: e.Sandbox, Reason: string(e.Reason), Detail: e.Detail, Count: int64(e.Failures),
	}
	if e.Kind == sandbox.EventLeased {
		out.Waited = milliseconds(e.Took)
	} else {
		out.Duration = milliseconds(e.Took)
	}
	if e.Err != nil {
		out.Detail = e.Err.Error()
	}
	w.events.Publish(out)
	switch e.Kind {
	case sandbox.EventMade:
		w.metrics.SandboxMade(e.Took)
	case sandbox.EventLeased:
		w.metrics.SandboxLeased(e.Took)
	case sandbox.EventPaused:
		w.metrics.SandboxPaused()
	case sandbox.EventEnded:
		w.metrics.SandboxEnded(string(e.Reason))
	case sandbox.EventFailed:
		w.metrics.SandboxFailed()
	}
}

// saved counts what a result does not cost.
func (w *watching) saved(s bridge.Savings) {
	w.metrics.Saved(ops.SavedByCut, s.Cut)
	w.metrics.Saved(ops.SavedByTOON, s.TOON)
}

// serverEvents are the events of what becomes of servers.
var serverEvents = map[proxy.ServerEventKind]ops.EventType{
	proxy.ServerStarted: ops.ServerStarted, proxy.ServerStopped: ops.ServerStopped, proxy.ServerFailed: ops.ServerFailed,
}

func (w *watching) server(e proxy.ServerEvent) {
	out := ops.Event{Type: serverEvents[e.Kind], Server: e.Server, Duration: milliseconds(e.Took)}
	switch {
	case e.Err != nil:
		out.Detail = e.Err.Error()
	case e.Kind == proxy.ServerStarted && e.Restart:
		out.Reason = "restart"
	case e.Kind == proxy.ServerStarted:
		out.Reason = "first"
	}
	w.events.Publish(out)
	switch e.Kind {
	case proxy.ServerStarted:
		w.metrics.ServerStarted(e.Server, e.Restart)
	case proxy.ServerFailed:
		w.metrics.ServerFailed(e.Server)
	}
}

func (w *watching) connected(s bridge.SessionInfo) {
	w.events.Publish(ops.Event{Type: ops.SessionOpened, Session: sessionID(s.ID), PID: s.PID, Cwd: s.CWD})
}

func (w *watching) gone(s bridge.SessionInfo) {
	w.events.Publish(ops.Event{
		Type: ops.SessionClosed, Session: sessionID(s.ID), Client: nameAndVersion(s.ClientName, s.ClientVersion),
		Count: s.Calls, Duration: milliseconds(time.Since(s.Since)),
	})
}

func (w *watching) engineFound(info runtime.Info) {
	if w == nil {
		return
	}
	w.events.Publish(ops.Event{Type: ops.EngineFound, Detail: fmt.Sprintf("%s %s at %s", info.Name, info.Version, info.Endpoint)})
}

func (w *watching) engineLost(err error) {
	if w == nil {
		return
	}
	w.events.Publish(ops.Event{Type: ops.EngineLost, Detail: err.Error()})
}

// approvals tells of the calls that wait for a person, until ctx ends.
func (w *watching) approvals(ctx context.Context, a *policy.Approvals) {
	known := map[string]ops.Event{}
	for {
		changed := a.Changed() // before the list, so that nothing is missed
		waiting := map[string]bool{}
		for _, p := range a.List() {
			waiting[p.ID] = true
			if _, told := known[p.ID]; told {
				continue
			}
			e := ops.Event{Type: ops.ApprovalWaiting, Approval: p.ID, Session: p.Session, Client: p.Client, Server: p.Server, Tool: p.Tool}
			known[p.ID] = e
			w.events.Publish(e)
		}
		for id, e := range known {
			if !waiting[id] {
				delete(known, id)
				e.Type = ops.ApprovalSettled
				w.events.Publish(e)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// sessionID is what people see of a session's ID.
func sessionID(id string) string { return id[:min(8, len(id))] }

// nameAndVersion is how an agent's client calls itself.
func nameAndVersion(name, version string) string {
	if version != "" {
		name += " " + version
	}
	return name
}

// session returns what tells of one Python session of an agent's, whose audit
// log may be nil.
func (w *watching) session(agent *bridge.Agent, log *sessionAudit) *sessionWatch {
	return &sessionWatch{watching: w, agent: agent, audit: log}
}

// A sessionWatch tells of what one Python session runs and calls, and passes it
// on to the session's audit log.
type sessionWatch struct {
	watching *watching
	agent    *bridge.Agent
	audit    *sessionAudit // nil if there is none
}

var _ proxy.Auditor = (*sessionWatch)(nil)

func (s *sessionWatch) event(kind ops.EventType) ops.Event {
	return ops.Event{
		Type: kind, Session: s.agent.Connection(), Python: s.agent.Python(), Client: nameAndVersion(s.agent.Client()),
	}
}

// Admit tells that a call begins, if the audit log lets it.
func (s *sessionWatch) Admit(r proxy.CallRecord) error {
	if s.audit != nil {
		if err := s.audit.Admit(r); err != nil {
			return err
		}
	}
	e := s.event(ops.CallBegun)
	e.Call, e.Server, e.Tool = r.ID, r.Server, r.Tool
	s.watching.events.Publish(e)
	return nil
}

// Record tells that a call has ended.
func (s *sessionWatch) Record(r proxy.CallRecord) {
	if s.audit != nil {
		s.audit.Record(r)
	}
	e := s.event(ops.CallEnded)
	e.Call, e.Server, e.Tool, e.Outcome, e.Duration = r.ID, r.Server, r.Tool, r.Outcome, milliseconds(r.Duration)
	s.watching.events.Publish(e)
	s.watching.metrics.Call(r.Server, r.Outcome, r.Duration, r.In, r.Out)
}

// RecordAnswer passes on what a person said of a call: that one waits is told by
// the list of those that do.
func (s *sessionWatch) RecordAnswer(r proxy.CallRecord) {
	if s.audit != nil {
		s.audit.RecordAnswer(r)
	}
}

// workspace returns ws with its runs told of.
func (s *sessionWatch) workspace(ws bridge.Workspace) bridge.Workspace {
	return &watchedWorkspace{ws, s}
}

// A watchedWorkspace tells of the runs of a workspace.
type watchedWorkspace struct {
	bridge.Workspace
	watch *sessionWatch
}

// Run tells of a run's begin and its end, also when nothing ran.
func (w *watchedWorkspace) Run(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
	began := time.Now()
	e := w.watch.event(ops.RunBegun)
	e.Run = w.watch.watching.lastRun.Add(1)
	w.watch.watching.events.Publish(e)
	res, err := w.Workspace.Run(ctx, req, output)
	e.Type, e.Time, e.Status = ops.RunEnded, time.Time{}, string(res.Status)
	if err != nil {
		e.Status = statusNotRun
	}
	waited := time.Since(began) - res.Duration
	e.Duration, e.Waited = milliseconds(res.Duration), milliseconds(waited)
	e.Sandbox = w.Status().Sandbox
	w.watch.watching.events.Publish(e)
	w.watch.watching.metrics.Run(e.Status, res.Duration, waited)
	return res, err
}

// statusNotRun is the status of a run of which nothing ran.
const statusNotRun = "not_run"
