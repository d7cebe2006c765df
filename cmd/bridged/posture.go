package main

import (
	"strings"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/sandbox"
)

// shownMounts bounds the mounts that status shows of one sandbox. A container
// has about twenty.
const shownMounts = 64

// describeSandbox is a sandbox for ops.
func describeSandbox(s sandbox.Snapshot) ops.Sandbox {
	return ops.Sandbox{
		ID: s.ID, Container: s.Container, State: s.State, Since: s.Created, Python: s.Python,
		Degraded: s.Degraded, Posture: describePosture(s.Posture),
	}
}

func describePosture(p *sandbox.Posture) ops.Posture {
	filters, _ := p.Filters()
	out := ops.Posture{
		UID: p.First("Uid"), GID: p.First("Gid"), Capabilities: capabilities(p),
		NoNewPrivs: p.First("NoNewPrivs") == "1", Seccomp: seccompMode(p.First("Seccomp")), SeccompFilters: filters,
		OwnFilter: p.Unfiltered == "", ProcessHidden: p.Open == "",
		Interfaces: append([]string{}, p.Interfaces...), MemoryBytes: p.Memory, SwapBytes: p.Swap, PIDs: p.Pids,
		OpenFiles: p.Nofile, CoreBytes: p.Core, Mounts: []ops.Mount{}, MountsLeftOut: max(0, len(p.Mounts)-shownMounts),
	}
	for _, m := range p.Mounts[:min(len(p.Mounts), shownMounts)] {
		row := ops.Mount{Target: m.Target, Type: m.Type, Options: m.Options}
		if !m.ReadOnly() {
			row.Bytes = m.Size
		}
		out.Mounts = append(out.Mounts, row)
	}
	return out
}

// capabilities joins all sets of them.
func capabilities(p *sandbox.Posture) string {
	for _, set := range []string{"CapEff", "CapPrm", "CapBnd", "CapAmb"} {
		if v := p.First(set); strings.Trim(v, "0") != "" {
			return v
		}
	}
	return "none"
}

func seccompMode(v string) string {
	switch v {
	case "2":
		return "filter"
	case "1":
		return "strict"
	}
	return "off"
}
