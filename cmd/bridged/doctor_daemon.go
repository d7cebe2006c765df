package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/systemd"
)

// answerTime bounds the wait for a daemon that accepts connections.
const answerTime = 8 * time.Second

// daemonFacts are the daemon and what is to start it.
type daemonFacts struct {
	socket   string
	pid      int  // of the daemon that listens there; 0 if none does, or nobody knows
	hangs    bool // it accepts connections, and says nothing
	answers  bool
	status   ops.Status
	err      error    // why it does not answer
	foreign  []string // what its environment has otherwise than ours, by name
	managed  bool     // systemd runs it
	manager  bool     // a systemd user manager answers
	service  unitFacts
	socketly unitFacts
	program  string // that the unit starts
	gone     bool   // it is not there
	other    bool   // it is another build than this program
	outdated bool   // the unit's file is of another version
	self     string // this program
}

// unitFacts is a unit as systemd knows it.
type unitFacts struct {
	state    string
	loaded   bool
	reload   bool // its file has changed since
	fragment string
}

func checkDaemon(ctx context.Context, p *patient) outcome {
	if p.pathsErr != nil {
		return outcome{skipped: noFolders}
	}
	f := daemonFacts{socket: p.paths.ops}
	f.ask(ctx)
	if f.answers {
		f.foreign = p.foreignEnvironment(f.status.PID)
	}
	if self, err := os.Executable(); err == nil {
		f.self = self
	}
	f.askSystemd(ctx, p.getenv("XDG_RUNTIME_DIR"))
	return f.judge()
}

// ask asks the daemon how it is. Where systemd alone listens, asking would start
// one, and looking is to change nothing.
func (f *daemonFacts) ask(ctx context.Context) {
	holders := socketHolders(f.socket)
	for _, pid := range holders {
		if strings.HasPrefix(processName(pid), "bridged") {
			f.pid = pid
		}
	}
	if len(holders) > 0 && f.pid == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	f.status, f.err = ops.Get(ctx, f.socket)
	f.answers = f.err == nil
	f.hangs = f.err != nil && isTimeout(f.err)
}

// processName is the name of a process's program, cut to 15 bytes.
func processName(pid int) string { return readLine(fmt.Sprintf("/proc/%d/comm", pid)) }

// socketHolders lists the processes of ours that have a socket on which somebody
// listens. It connects to nothing. There are none where there is no /proc.
func socketHolders(path string) []int {
	inode := listeningInode(path)
	if inode == "" {
		return nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil
	}
	var pids []int
	for _, file := range files {
		if target, err := os.Readlink(file); err != nil || target != "socket:["+inode+"]" {
			continue // another user's process, or one that has ended
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err == nil && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// listeningInode finds a socket on which somebody listens in the kernel's list,
// see proc_net_unix(5). It is "" if there is none, or no list.
func listeningInode(path string) string {
	data, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return ""
	}
	const accepts = "00010000" // __SO_ACCEPTCON
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 8 && fields[3] == accepts && strings.Join(fields[7:], " ") == path {
			return fields[6]
		}
	}
	return ""
}

// askSystemd looks at the units.
func (f *daemonFacts) askSystemd(ctx context.Context, runtimeDir string) {
	ctx, cancel := context.WithTimeout(ctx, systemdTimeout)
	defer cancel()
	m, err := systemd.User(ctx, runtimeDir)
	if err != nil {
		return // there is none, or it can't be asked; agents start the daemon then
	}
	defer m.Close()
	f.manager = true
	f.service, f.socketly = unit(ctx, m, systemd.ServiceUnit), unit(ctx, m, systemd.SocketUnit)
	f.managed = f.service.state == "active" || f.service.state == "activating" || f.service.state == "reloading"
	f.readUnits()
}

func unit(ctx context.Context, m *systemd.Manager, name string) unitFacts {
	var u unitFacts
	var err error
	if u.state, u.loaded, err = m.State(ctx, name); err != nil || !u.loaded {
		return u
	}
	u.fragment, u.reload, err = m.File(ctx, name)
	if err != nil {
		u.fragment = "" // it is not looked at then
	}
	return u
}

// startPattern finds the program in our service's file.
var startPattern = regexp.MustCompile(`(?m)^ExecStart="?(/[^"\n]*?)"? serve$`)

// readUnits compares the files of the units with those of this version.
func (f *daemonFacts) readUnits() {
	if f.service.fragment == "" {
		return
	}
	text, err := os.ReadFile(f.service.fragment)
	if err != nil {
		return
	}
	m := startPattern.FindSubmatch(text)
	if m == nil {
		return // it is the user's own
	}
	f.program = string(m[1])
	f.gone = !isFile(f.program)
	f.other = !f.gone && !sameFile(f.program, f.self)
	want, err := systemd.Units(f.program)
	if err != nil {
		return
	}
	socket, err := os.ReadFile(f.socketly.fragment)
	f.outdated = string(text) != want[systemd.ServiceUnit] || err == nil && string(socket) != want[systemd.SocketUnit]
}

// compared are the variables that decide what a daemon does.
func compared(name string) bool {
	return strings.HasPrefix(name, "MCP_BRIDGE_") ||
		slices.Contains([]string{"BRIDGED_CONFIG", "CONTAINER_HOST", "DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"}, name)
}

// foreignEnvironment lists the variables that a daemon has otherwise than we.
func (p *patient) foreignEnvironment(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil // another system, or another user's
	}
	return otherVariables(os.Environ(), strings.Split(strings.TrimRight(string(data), "\x00"), "\x00"))
}

// otherVariables lists the variables that decide what a daemon does, and that are not
// the same in both environments.
func otherVariables(ours, its []string) []string {
	values := func(environ []string) map[string]string {
		m := map[string]string{}
		for _, pair := range environ {
			if name, value, ok := strings.Cut(pair, "="); ok && compared(name) {
				m[name] = value
			}
		}
		return m
	}
	a, b := values(ours), values(its)
	var names []string
	for name, value := range a {
		if b[name] != value {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (f daemonFacts) judge() outcome {
	var o outcome
	add := func(code, subject, text, fix string) {
		o.findings = append(o.findings, found(code, subject, text, fix))
	}
	switch {
	case f.answers:
		o.summary = fmt.Sprintf("%s, pid %d, %d sessions", f.status.Version, f.status.PID, len(f.status.Sessions))
		o.findings = append(o.findings, f.judgeRunning()...)
	case f.hangs:
		add("daemon.hung", f.socket, fmt.Sprintf("the daemon accepts connections and does not answer: %v", f.err), f.restart())
	case f.socketly.state == "active":
		o.summary = "not running; systemd listens, and starts it when an agent asks"
	default:
		o.summary = "not running; the first agent starts it"
	}
	if f.service.state == "failed" || f.socketly.state == "failed" {
		add("daemon.failed", systemd.ServiceUnit, "systemd has given up on the daemon: `journalctl --user -u bridged -n 50` says why",
			"systemctl --user reset-failed bridged.service bridged.socket && systemctl --user restart bridged.socket")
	} else if f.socketly.loaded && f.socketly.state != "active" && !f.answers {
		add("daemon.unused", systemd.SocketUnit, "the units are installed, and systemd does not listen", "systemctl --user enable --now bridged.socket")
	}
	o.findings = append(o.findings, f.judgeUnits()...)
	return o
}

func (f daemonFacts) judgeRunning() []finding {
	var list []finding
	s := f.status
	if s.Version != version {
		list = append(list, found("daemon.version", s.Version, fmt.Sprintf("the daemon is version %s, and this program is %s", s.Version, version), f.restart()))
	}
	if !s.Ready && s.Reason != "sandboxes are being made" {
		list = append(list, found("daemon.notready", "", "the daemon can't start sessions: "+firstLine(s.Reason), "bridged doctor --check engine,image,sandbox"))
	}
	if len(f.foreign) > 0 {
		list = append(list, found("daemon.environment", strings.Join(f.foreign, " "),
			fmt.Sprintf("the daemon was started with another %s than you have here: settings of this shell do not count for it", strings.Join(f.foreign, ", ")), f.adopt()))
	}
	if s.Audit != nil && s.Audit.Error != "" {
		list = append(list, found("daemon.audit", s.Audit.Path, "the audit log can't be written: "+s.Audit.Error, "bridged doctor --check disk,sockets"))
	}
	if s.Approvals > 0 {
		list = append(list, found("daemon.approvals", "", plural(s.Approvals, "call")+" of servers' tools for your approval", "bridged approvals"))
	}
	return list
}

// restart is the command that has another daemon run.
func (f daemonFacts) restart() string {
	switch {
	case f.managed:
		return "systemctl --user restart bridged.service"
	case f.hangs && f.pid != 0:
		return fmt.Sprintf("kill -KILL %d", f.pid) // it would not listen to less
	case f.status.PID != 0:
		return fmt.Sprintf("kill %d", f.status.PID) // agents start the next one
	}
	return "fuser -k " + shellWord(f.socket)
}

// adopt is the command that gives a daemon this shell's environment.
func (f daemonFacts) adopt() string {
	if f.managed {
		return "systemctl --user import-environment " + strings.Join(f.foreign, " ") + " && systemctl --user restart bridged.service"
	}
	return f.restart()
}

func (f daemonFacts) judgeUnits() []finding {
	if f.program == "" {
		return nil
	}
	var list []finding
	again := shellLine(f.self, "install", "--prefix", filepath.Dir(filepath.Dir(f.program)))
	switch {
	case f.gone:
		list = append(list, found("daemon.gone", f.program, systemd.ServiceUnit+" starts "+f.program+", which is not there", again))
	case f.outdated:
		list = append(list, found("daemon.outdated", f.service.fragment, "the units of systemd are of another version of bridged, or were changed", again))
	case f.other:
		list = append(list, found("daemon.other", f.program, systemd.ServiceUnit+" starts "+f.program+", which is another build than this program, "+f.self, again))
	case f.service.reload || f.socketly.reload:
		list = append(list, found("daemon.reload", systemd.ServiceUnit, "systemd has not read the units since they were changed", "systemctl --user daemon-reload"))
	}
	return list
}
