package main

import (
	"errors"
	goruntime "runtime"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/sandbox"
)

// versions are those of what this program is made of and speaks.
func versions() ops.Versions {
	return ops.Versions{Go: goruntime.Version(), MCP: bridge.ProtocolVersions(), Shim: bridge.WireVersion, Sandbox: sandbox.ProtocolVersion}
}

// fullStatus is the status with what the engine tells of sandboxes.
func (d *daemon) fullStatus() ops.Status { return withUsage(d.status(), d.usage.get()) }

// totals are what the daemon's parts have counted.
func (d *daemon) totals() ops.Totals {
	t := d.bridge.Traffic()
	return ops.Totals{
		AgentReceived: t.Received, AgentSent: t.Sent, AgentRefused: t.Refused,
		SandboxReceived: d.traffic.Received(), SandboxSent: d.traffic.Sent(), SandboxRefused: d.traffic.Refused(),
	}
}

// readiness is why no session can start, nil if one can.
func (d *daemon) readiness() error {
	var s ops.Status
	d.describeEngine(&s)
	if !s.Ready {
		return errors.New(s.Reason)
	}
	return nil
}

// queues sums up what waits by the rest of the status.
func queues(s ops.Status) ops.Queues {
	q := ops.Queues{Approvals: s.Approvals}
	for _, v := range s.Sessions {
		for _, p := range v.Pythons {
			q.Runs += max(0, p.Running-1) // one at a time runs
		}
	}
	for _, v := range s.Servers {
		q.Calls += v.Waiting
	}
	return q
}

// withUsage adds what sandboxes use, by their IDs.
func withUsage(s ops.Status, usage map[string]ops.Usage) ops.Status {
	for i := range s.Sandboxes {
		if u, ok := usage[s.Sandboxes[i].ID]; ok {
			s.Sandboxes[i].Usage = &u
		}
	}
	for i := range s.Sessions {
		v := &s.Sessions[i]
		for _, p := range v.Pythons {
			u, ok := usage[p.Sandbox]
			if !ok {
				continue
			}
			if v.MemoryBytes == nil {
				v.MemoryBytes, v.CPUSeconds = new(int64), new(float64)
			}
			*v.MemoryBytes += u.MemoryBytes
			*v.CPUSeconds += u.CPUSeconds
		}
	}
	return s
}
