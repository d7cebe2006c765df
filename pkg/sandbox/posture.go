package sandbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bridged/bridged/pkg/runtime"
)

// A Posture is what the kernel really enforces in a sandbox, as its harness
// read it from /proc and /sys before any other code ran.
type Posture struct {
	Status        map[string][]string `json:"status"`         // lines of /proc/self/status
	EngineSeccomp string              `json:"engine_seccomp"` // its mode before the harness's own filter
	Unfiltered    string              `json:"unfiltered"`     // why the harness has no filter of its own, "" if it has
	Open          string              `json:"open"`           // why code may look into process 1, "" if it can't
	Mounts        []Mount             `json:"mounts"`
	Interfaces    []string            `json:"interfaces"`
	Memory        *int64              `json:"memory"` // bytes; nil: no limit
	Swap          *int64              `json:"swap"`   // bytes besides memory; nil: no limit
	Pids          *int64              `json:"pids"`
	Nofile        int64               `json:"nofile"` // hard limit
	Core          int64               `json:"core"`   // hard limit, bytes
}

// attest compares a posture with what spec promises. It returns the limits
// that have to be set otherwise, and an error that names all that falls short.
func attest(p *Posture, spec runtime.Spec) (degraded []string, err error) {
	var bad []string
	bad = append(bad, badIdentity(p, spec)...)
	bad = append(bad, badSeccomp(p)...)
	bad = append(bad, badMounts(p, spec)...)
	for _, name := range p.Interfaces {
		if name != "lo" {
			bad = append(bad, fmt.Sprintf("network interface %s", name))
		}
	}
	if p.Core != 0 {
		bad = append(bad, "core dumps are on")
	}
	if p.Nofile < 0 || uint64(p.Nofile) > spec.Nofile {
		bad = append(bad, fmt.Sprintf("open files: limit %d, want at most %d", p.Nofile, spec.Nofile))
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("sandbox is not hardened as asked: %s", strings.Join(bad, "; "))
	}
	return append(weakLimits(p, spec), weakerThanMeant(p)...), nil
}

// What status says of limits that the engine did not set.
const (
	degradedMemory = "memory limit by rlimit"
	degradedPids   = "pids limit by rlimit"
	degradedSwap   = "swap is not limited: turn on the kernel's swap accounting, or swap off"
)

// weakLimits names the limits that the engine did not set.
func weakLimits(p *Posture, spec runtime.Spec) []string {
	var weak []string
	switch {
	case p.Memory == nil || *p.Memory > spec.MemoryBytes:
		weak = append(weak, degradedMemory) // which holds for swap too
	case p.Swap == nil || *p.Memory+*p.Swap > spec.MemoryBytes:
		weak = append(weak, degradedSwap)
	}
	if p.Pids == nil || *p.Pids > spec.Pids {
		weak = append(weak, degradedPids)
	}
	return weak
}

// weakerThanMeant names what is missing from what is more than the Spec asks
// for: the harness's own filter, and engines' gifts.
func weakerThanMeant(p *Posture) []string {
	var weak []string
	switch {
	case p.Unfiltered != "":
		weak = append(weak, "the engine's seccomp profile alone: the sandbox can't set its own filter: "+head([]byte(p.Unfiltered)))
	case p.Open != "":
		weak = append(weak, "process 1 can be looked into: "+head([]byte(p.Open)))
	}
	for _, m := range p.Mounts {
		if m.Type == "cgroup2" && !m.ReadOnly() {
			weak = append(weak, "nothing but their owner keeps code from writing to cgroups")
		}
		if slices.Contains(gifts, m.Target) {
			weak = append(weak, "the engine shows "+m.Target+" of its machine to sandboxes")
		}
	}
	return weak
}

func badIdentity(p *Posture, spec runtime.Spec) []string {
	var bad []string
	uid, gid, _ := strings.Cut(spec.User, ":")
	for _, row := range [][2]string{{"Uid", uid}, {"Gid", gid}} {
		if len(p.Status[row[0]]) == 0 {
			bad = append(bad, row[0]+" is not reported")
		}
		for _, got := range p.Status[row[0]] {
			if got != row[1] {
				bad = append(bad, fmt.Sprintf("%s %s, want %s", row[0], got, row[1]))
				break
			}
		}
	}
	for _, name := range []string{"CapEff", "CapPrm", "CapBnd", "CapAmb"} {
		if v, err := strconv.ParseUint(p.First(name), 16, 64); err != nil || v != 0 {
			bad = append(bad, fmt.Sprintf("%s %s, want none", name, p.First(name)))
		}
	}
	if got := p.First("NoNewPrivs"); got != "1" {
		bad = append(bad, fmt.Sprintf("NoNewPrivs %q, want 1", got))
	}
	return bad
}

// badSeccomp holds that the engine's profile is on, and that the filter that
// the harness says it has put on top of it is there too.
func badSeccomp(p *Posture) []string {
	var bad []string
	if p.EngineSeccomp != "2" {
		bad = append(bad, fmt.Sprintf("the engine's Seccomp %q, want 2 (a filter)", p.EngineSeccomp))
	}
	if got := p.First("Seccomp"); got != "2" {
		bad = append(bad, fmt.Sprintf("Seccomp %q, want 2 (a filter)", got))
	}
	if n, ok := p.Filters(); ok && p.Unfiltered == "" && n < 2 {
		bad = append(bad, fmt.Sprintf("%d seccomp filters, want the engine's and the sandbox's own", n))
	}
	return bad
}

// Filters returns how many seccomp filters there are; kernels before 5.9 don't
// say.
func (p *Posture) Filters() (n int, ok bool) {
	n, err := strconv.Atoi(p.First("Seccomp_filters"))
	return n, err == nil
}

// First returns the first value of a status line, "" if there is none.
func (p *Posture) First(key string) string {
	if v := p.Status[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}
