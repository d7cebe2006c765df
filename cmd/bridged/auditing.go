package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/audit"
	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/sandbox"
	"github.com/bridged/bridged/pkg/tracing"
)

// The values of audit.on_error.
const (
	onErrorContinue = "continue"
	onErrorRefuse   = "refuse"
)

func (c *config) checkAudit() error {
	a := c.Audit
	switch audit.Form(a.Arguments) {
	case audit.Digest, audit.Masked, audit.Full:
	default:
		return fmt.Errorf("audit.arguments %q: use digest, masked or full", a.Arguments)
	}
	switch f := audit.Form(a.Code); {
	case f != audit.Digest && f != audit.Full:
		return fmt.Errorf("audit.code %q: use digest or full", a.Code)
	case a.OnError != onErrorContinue && a.OnError != onErrorRefuse:
		return fmt.Errorf("audit.on_error %q: use continue or refuse", a.OnError)
	case a.MaxFiles < 1:
		return errors.New("audit.max_files 0: nothing would be kept; give at least 1, or set audit.enabled to false")
	case a.MaxSize < 4<<10:
		return fmt.Errorf("audit.max_size %s: a file holds at least 4k", a.MaxSize)
	}
	return nil
}

// An auditing is the daemon's audit log.
type auditing struct {
	log *audit.Log // nil if it is switched off
	dir string
}

// startAudit opens the audit log. Where the user wants calls rather than a log,
// one that can't be used is no error: it is tried again, and status shows it.
func startAudit(c *config, dir string, log zerolog.Logger) (*auditing, error) {
	if !c.Audit.Enabled {
		return &auditing{}, nil
	}
	l, err := audit.Open(audit.Options{
		Dir: dir, Arguments: audit.Form(c.Audit.Arguments), Code: audit.Form(c.Audit.Code),
		MaxSize: int64(c.Audit.MaxSize), MaxAge: time.Duration(c.Audit.MaxAge), MaxFiles: int(c.Audit.MaxFiles),
		Sync: time.Duration(c.Audit.Sync), Refuse: c.Audit.OnError == onErrorRefuse, Version: version, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return &auditing{l, dir}, nil
}

// close writes what is left.
func (a *auditing) close() error {
	if a.log == nil {
		return nil
	}
	return a.log.Close()
}

// status describes the log for ops; nil if it is switched off.
func (a *auditing) status() *ops.Audit {
	if a.log == nil {
		return nil
	}
	now := a.log.Status()
	s := &ops.Audit{Path: a.dir, Waiting: now.Waiting, Dropped: now.Dropped}
	if now.Error != nil {
		s.Error = now.Error.Error()
	}
	return s
}

// session returns what logs for one Python session of an agent.
func (a *auditing) session(agent *bridge.Agent) *sessionAudit {
	if a.log == nil {
		return nil
	}
	return &sessionAudit{log: a.log, agent: agent}
}

// A sessionAudit logs what one Python session runs and calls. A nil one logs
// nothing.
type sessionAudit struct {
	log   *audit.Log
	agent *bridge.Agent
}

var _ proxy.Auditor = (*sessionAudit)(nil)

// Admit refuses when the log can't be written and the user wants it to be.
func (s *sessionAudit) Admit(proxy.CallRecord) error { return s.log.Admit() }

// Record logs a call.
func (s *sessionAudit) Record(r proxy.CallRecord) { s.record(audit.KindCall, r) }

// RecordAnswer logs what a person said of a call.
func (s *sessionAudit) RecordAnswer(r proxy.CallRecord) { s.record(audit.KindApproval, r) }

func (s *sessionAudit) record(kind audit.Kind, r proxy.CallRecord) {
	e := s.entry(kind, r.Began, r.Duration)
	e.Server, e.Tool, e.Arguments, e.Mask = r.Server, r.Tool, r.Arguments, r.Mask
	e.Outcome, e.Detail, e.In, e.Out, e.Sources = r.Outcome, r.Rule, r.In, r.Out, r.Sources
	e.Trace = r.Trace
	s.log.Record(e)
}

func (s *sessionAudit) entry(kind audit.Kind, began time.Time, took time.Duration) audit.Entry {
	return audit.Entry{
		Kind: kind, Time: began, Duration: took, Session: s.agent.Connection(), Python: s.agent.Python(), Client: nameAndVersion(s.agent.Client()),
	}
}

// workspace returns ws with its runs logged.
func (s *sessionAudit) workspace(ws bridge.Workspace) bridge.Workspace {
	if s == nil {
		return ws
	}
	return &auditedWorkspace{ws, s}
}

// An auditedWorkspace logs the runs of a workspace.
type auditedWorkspace struct {
	bridge.Workspace
	audit *sessionAudit
}

// Run logs what it ran, also when nothing did.
func (w *auditedWorkspace) Run(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
	if err := w.audit.log.Admit(); err != nil {
		return sandbox.Result{}, fmt.Errorf("nothing ran: %w. Tell the user; until that is mended no code is run", err)
	}
	began := time.Now()
	res, err := w.Workspace.Run(ctx, req, output)
	if errors.Is(err, sandbox.ErrLeft) {
		return res, err // the daemon that gets the result logs it
	}
	e := w.audit.entry(audit.KindRun, began, time.Since(began))
	e.Code, e.In, e.Out, e.Outcome = req.Code, int64(len(req.Code)), bytesOf(res), string(res.Status)
	if e.Trace = tracing.ID(ctx); err != nil {
		e.Outcome = statusNotRun
	}
	w.audit.log.Record(e)
	return res, err
}

// Resume logs a run whose code an earlier daemon had, which did not live to log
// it.
func (w *auditedWorkspace) Resume(ctx context.Context, key string, output func(sandbox.Output)) (sandbox.Result, error) {
	began := time.Now()
	res, err := w.Workspace.Resume(ctx, key, output)
	if err != nil {
		return res, err
	}
	e := w.audit.entry(audit.KindRun, began, time.Since(began))
	e.Out, e.Outcome = bytesOf(res), string(res.Status)
	w.audit.log.Record(e)
	return res, nil
}

// bytesOf is how much a result holds, what was left out of its output included.
func bytesOf(res sandbox.Result) int64 {
	n := int64(len(res.Value)) + res.Cut
	for _, o := range res.Output {
		n += int64(len(o.Text))
	}
	for _, r := range res.Rich {
		n += int64(len(r.Data))
	}
	return n
}
