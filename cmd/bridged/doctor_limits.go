package main

import (
	"context"
	"fmt"
	"os"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// limitFacts are what limits sandboxes.
type limitFacts struct {
	info     runtime.Info
	reached  bool
	local    bool
	hybrid   bool // versions 1 and 2 of cgroups side by side, on this machine
	uid      int
	degraded []string // of a sandbox that was made
	posture  *sandbox.Posture
	spec     runtime.Spec
	systemd  bool

	kernelArgument string // the command that has the kernel start with cgroups v2; "" if nobody knows
	memory         int64  // what the pool's sandboxes may use together; 0 is no bound
	file           string // of the configuration
	line           int    // of sandbox.memory in it
}

func checkCgroups(_ context.Context, p *patient) outcome {
	e, l := p.engine(), p.launch()
	f := limitFacts{
		info: e.info, reached: e.engine != nil, local: e.local(), uid: p.uid, degraded: l.degraded, posture: l.posture, spec: l.spec,
		systemd: exists("/run/systemd/system"), memory: p.conf.Pool.Memory.of(e.info.MemoryBytes),
		file: p.file, line: p.lineOf("sandbox", "memory"), kernelArgument: unifiedCgroups(onPath),
	}
	f.hybrid = goruntime.GOOS == "linux" && exists("/sys/fs/cgroup/unified/cgroup.controllers")
	return f.judge()
}

func (f limitFacts) judge() outcome {
	if !f.reached {
		return outcome{skipped: "there is no engine"}
	}
	o := outcome{summary: f.summary()}
	var memory, pids bool
	for _, d := range f.degraded {
		switch {
		case strings.HasPrefix(d, "memory limit"):
			memory = true
		case strings.HasPrefix(d, "pids limit"):
			pids = true
		case strings.HasPrefix(d, "swap"):
			o.findings = append(o.findings, found("cgroups.swap", "", "a sandbox may use swap beyond its memory limit: the kernel does not account for it", shellLine("sudo", "swapoff", "-a")))
		case strings.Contains(d, "cgroups"):
			o.findings = append(o.findings, found("cgroups.writable", "", d, ""))
		}
	}
	unlimited := strings.Fields(f.info.Unlimited)
	if f.posture == nil { // nobody has looked from inside
		memory, pids = slices.Contains(unlimited, "memory"), slices.Contains(unlimited, "pids")
	}
	if memory || pids {
		o.findings = append(o.findings, f.weak(memory, pids))
	} else if slices.Contains(unlimited, "cpu") {
		o.findings = append(o.findings, found("cgroups.cpu", "", "the engine can't limit the cores that a sandbox uses: one sandbox may slow down all others", f.delegate()))
	}
	if need := f.spec.MemoryBytes; f.memory > 0 && need > f.memory {
		o.findings = append(o.findings, found("cgroups.room", "", fmt.Sprintf("one sandbox may use %d MiB, and all together %d MiB of the engine's machine: none can be made", need>>20, f.memory>>20),
			edit(f.file, f.line)))
	}
	return o
}

// weak is that the engine sets no limits. The harness sets rlimits then, which
// count per process and per user.
func (f limitFacts) weak(memory, pids bool) finding {
	var what []string
	if memory {
		what = append(what, "memory")
	}
	if pids {
		what = append(what, "processes")
	}
	text := "the engine does not limit the " + strings.Join(what, " and ") + " of a sandbox; bridged sets limits on its processes instead, which are weaker"
	if f.info.CgroupVersion == "1" {
		return found("cgroups.v1", "", text+". Without root that needs cgroups v2 (from the next start of the machine on)",
			f.kernelArgument)
	}
	return found("cgroups.delegation", "", text+". systemd has not handed the controllers to you", f.delegate())
}

// unifiedCgroups is the command that has this machine start with cgroups v2
// alone, "" where nobody knows how.
func unifiedCgroups(have func(string) bool) string {
	const argument = "systemd.unified_cgroup_hierarchy=1"
	switch {
	case have("grubby"):
		return "sudo grubby --update-kernel=ALL --args=" + argument
	case have("update-grub"):
		return `sudo sed -i 's/^GRUB_CMDLINE_LINUX="/&` + argument + ` /' /etc/default/grub && sudo update-grub`
	}
	return ""
}

// delegate is the command that has systemd hand controllers to users.
func (f limitFacts) delegate() string {
	if !f.systemd {
		return ""
	}
	return `sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\nDelegate=cpu cpuset io memory pids\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload`
}

// summary tells what limits a sandbox really has.
func (f limitFacts) summary() string {
	text := "cgroups v" + or(f.info.CgroupVersion, "?")
	if f.hybrid && f.local {
		text += " (hybrid)"
	}
	if f.posture == nil {
		if f.info.Unlimited != "" {
			return text + "; the engine can't limit " + strings.ReplaceAll(f.info.Unlimited, " ", ", ")
		}
		return text
	}
	memory, pids := "by rlimit", "by rlimit"
	if m := f.posture.Memory; m != nil && *m <= f.spec.MemoryBytes {
		memory = fmt.Sprintf("%d MiB", *m>>20)
	}
	if n := f.posture.Pids; n != nil && *n <= f.spec.Pids {
		pids = fmt.Sprint(*n)
	}
	return fmt.Sprintf("%s; a sandbox has memory %s, processes %s, %d open files", text, memory, pids, f.posture.Nofile)
}

// seccompFacts are what filters system calls.
type seccompFacts struct {
	kernel  bool // the kernel of this machine can filter; true where another runs the engine
	engine  bool
	reached bool
	product string
	root    bool
	posture *sandbox.Posture
}

func checkSeccomp(_ context.Context, p *patient) outcome {
	e, l := p.engine(), p.launch()
	f := seccompFacts{kernel: true, engine: e.info.Seccomp, reached: e.engine != nil, product: e.info.Name, root: !e.info.Rootless, posture: l.posture}
	if goruntime.GOOS == "linux" && (e.engine == nil || e.local()) {
		status, err := os.ReadFile("/proc/self/status")
		f.kernel = err != nil || strings.Contains(string(status), "\nSeccomp:")
	}
	return f.judge()
}

func (f seccompFacts) judge() outcome {
	if !f.kernel {
		return outcome{findings: []finding{found("seccomp.kernel", "", "this kernel can't filter system calls (CONFIG_SECCOMP_FILTER), and no sandbox is used without that", "")}}
	}
	if !f.reached {
		return outcome{skipped: "there is no engine"}
	}
	if !f.engine {
		fix := edit("/etc/containers/containers.conf", 0)
		if f.product == runtime.Docker {
			fix = "sudoedit /etc/docker/daemon.json"
		}
		return outcome{findings: []finding{found("seccomp.engine", f.product, "the engine puts no filter of system calls on containers: its settings or its build switch it off, and no sandbox is used without one", fix)}}
	}
	if f.posture == nil {
		return outcome{summary: "the engine has a profile"}
	}
	n, _ := f.posture.Filters()
	o := outcome{summary: fmt.Sprintf("the engine's profile, and the sandbox's own filter (%d in all)", n)}
	if f.posture.Unfiltered != "" {
		o.summary = "the engine's profile alone"
		o.findings = append(o.findings, found("seccomp.own", "", "a sandbox can't set its own filter on top of the engine's: "+f.posture.Unfiltered, ""))
	}
	return o
}
