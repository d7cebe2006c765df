package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/register"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

func TestConfigFaults(t *testing.T) {
	// load has a real file read, with variables.
	load := func(text string, environ ...string) func() outcome {
		path := writeConfig(t, text)
		getenv := env(environ...)
		_, err := loadConfig(flagsFor(t, "--config", path), getenv)
		f := configFacts{file: path, there: true, data: text, mode: 0o600, uid: 7, me: 7, err: err, getenv: getenv, environ: environ}
		return func() outcome {
			o := f.judge()
			for i, g := range o.findings { // the folder has another name each time
				o.findings[i].Command = strings.ReplaceAll(g.Command, path, "FILE")
			}
			return o
		}
	}
	testFaults(t, []fault{
		{"all is well", load("[pool]\nwarm = 3\n"), "", "", "", ""},
		{"an unknown key", load("\n[sandbox]\nmemroy = \"1g\"\n"), "config.invalid", "did you mean sandbox.memory", "${EDITOR:-vi} +3 FILE", ""},
		{"no TOML", load("[sandbox\n"), "config.invalid", ":1:", "${EDITOR:-vi} +1 FILE", ""},
		{"a value that can't be", load("[pool]\n\nwarm = \"many\"\n"), "config.invalid", "many", "${EDITOR:-vi} +3 FILE", ""},
		{"a value that is too small", load("[sandbox]\nmemory = \"1m\"\n"), "config.invalid", "at least 64m", "${EDITOR:-vi} +2 FILE", ""},
		{"a value that is too small, by a variable", load("[sandbox]\nmemory = \"1g\"\n", "MCP_BRIDGE_MEMORY=1m"), "config.invalid", "at least 64m", "unset MCP_BRIDGE_MEMORY", ""},
		{"a variable that can't be", load("", "MCP_BRIDGE_PIDS=lots"), "config.invalid", "MCP_BRIDGE_PIDS", "unset MCP_BRIDGE_PIDS", ""},
		{"a variable that is none", load("", "MCP_BRIDGE_MEMROY=1g"), "config.variable", "did you mean MCP_BRIDGE_MEMORY", "unset MCP_BRIDGE_MEMROY", ""},
		{"no such file", configFacts{file: "/c/x.toml", err: errors.New("reading configuration: open /c/x.toml: no such file or directory"), getenv: env("BRIDGED_CONFIG=/c/x.toml")}.judge,
			"config.invalid", "no such file", "unset BRIDGED_CONFIG", ""},
		{"a file that can't be read", configFacts{file: "/c/x.toml", there: true, err: errors.New("reading configuration: open /c/x.toml: permission denied"), getenv: env()}.judge,
			"config.invalid", "permission denied", "${EDITOR:-vi} /c/x.toml", ""},
		{"anybody's file", configFacts{file: "/c/x.toml", there: true, mode: 0o666, uid: 7, me: 7}.judge, "config.open", "mode 0666", "chmod go-w /c/x.toml", repairMode},
		{"somebody's file", configFacts{file: "/c/x.toml", there: true, mode: 0o600, uid: 8, me: 7}.judge, "config.open", "uid 8", "sudo chown 7 /c/x.toml", ""},
		{"a mount that is not there", func() outcome {
			return outcome{findings: judgeMounts(nil, errors.New("/c/x.toml:9: source /srv does not exist"))}
		}, "config.mount", "does not exist", "${EDITOR:-vi} +9 /c/x.toml", ""},
		{"a mount that nobody can read", func() outcome {
			return outcome{findings: judgeMounts([]string{"source /srv can't be read: allow others to, for example with `chmod -R o+rX /srv`"}, nil)}
		}, "config.unreadable", "/srv", "chmod -R o+rX /srv", ""},
	})
	p := testPatient(t, doctorFlags{})
	p.pathsErr = errors.New("finding the state folder: set HOME or XDG_STATE_HOME")
	if o := checkConfig(t.Context(), p); len(o.findings) != 1 || o.findings[0].Code != "config.home" {
		t.Errorf("%+v", o)
	}
}

// A configuration that is wrong keeps no check from the rest.
func TestABrokenConfigurationIsNotTheEnd(t *testing.T) {
	c := configAnyway(env("MCP_BRIDGE_RUNTIME=docker", "MCP_BRIDGE_PIDS=lots"))
	if c.Engine.Runtime != "docker" || c.Sandbox.Pids != defaultConfig().Sandbox.Pids {
		t.Errorf("%+v", c)
	}
}

// serversHere checks the definitions of a home.
func serversHere(t *testing.T, definitions, config string) func() outcome {
	t.Helper()
	return func() outcome {
		p := testPatient(t, doctorFlags{})
		writeServers(t, p.home, definitions)
		if config != "" {
			t.Setenv("BRIDGED_CONFIG", writeConfig(t, strings.ReplaceAll(config, "HOME", p.home)))
			c, err := loadConfig(flagsFor(t), os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			p.conf = c
		}
		o := checkServers(t.Context(), p)
		for i, g := range o.findings {
			o.findings[i].Command = strings.ReplaceAll(g.Command, p.home, "HOME")
		}
		return o
	}
}

func TestServerFaults(t *testing.T) {
	server := func(entry string) string { return `{"mcpServers": {` + "\n" + `"x": ` + entry + `}}` }
	const here = "${EDITOR:-vi} +2 HOME/.claude.json"
	secret := func(s secretFacts) func() outcome { return serverFacts{secrets: []secretFacts{s}}.judge }
	apt := func(name string) bool { return name == "apt-get" }
	notFound := errors.New(`server x cannot be started: command "npx" is not found in PATH (/bin)`)
	testFaults(t, []fault{
		{"all is well", serversHere(t, server(`{"command": "sh"}`), ""), "", "", "", ""},
		{"a URL", serversHere(t, server(`{"url": "https://example.com/mcp"}`), ""), "", "", "", ""},
		{"no program", serversHere(t, server(`{"command": "no-such-program"}`), ""), "servers.program", `command "no-such-program" is not found`, here, ""},
		{"no launcher", serverFacts{found: discovery.Result{Servers: []discovery.Server{{Name: "x"}}}, unusable: map[string]error{"x": notFound}, have: apt}.judge,
			"servers.program", "npx", "sudo apt-get install -y npm", ""},
		{"no variable", serversHere(t, server(`{"command": "sh", "env": {"KEY": "${NO_SUCH_VARIABLE}"}}`), ""), "servers.unusable", "NO_SUCH_VARIABLE", here, ""},
		{"no folder", serversHere(t, server(`{"command": "sh", "cwd": "/no/such/folder"}`), ""), "servers.unusable", "/no/such/folder", here, ""},
		{"no URL", serversHere(t, server(`{"url": "ftp://example.com/"}`), ""), "servers.definition", "scheme", here, ""},
		{"no JSON", serversHere(t, "{\n\n,", ""), "servers.definition", ".claude.json:3", "${EDITOR:-vi} +3 HOME/.claude.json", ""},
		{"our own shim is as it should be", serversHere(t, server(`{"command": "bridge-shim"}`), ""), "", "", "", ""},
		{"it does not work", serverFacts{found: discovery.Result{Servers: []discovery.Server{{Name: "x y"}}}, failed: map[string]string{"x y": "start: it ended"}}.judge,
			"servers.failed", "it ended", "bridged servers test 'x y'", ""},
		{"held", serverFacts{found: discovery.Result{Held: []discovery.Server{{Name: "x", Held: "run " + approveCommand}}}}.judge, "servers.held", "not used", "bridged servers approve x", ""},
		{"a secret that is not there", serversHere(t, server(`{"command": "sh"}`), "[[server]]\nname = \"x\"\nenv = {KEY = \"file:/no/such/secret\"}\n"),
			"servers.secret", "/no/such/secret", "ls -l /no/such/secret", ""},
		{"a secret's program that is not there", serversHere(t, server(`{"command": "sh"}`), "[[server]]\nenv = {KEY = {command = [\"/no/such/program\"]}}\n"),
			"servers.secret", "/no/such/program", "ls -l /no/such/program", ""},
		{"a secret's program that can't be run", secret(secretFacts{name: "KEY", path: "/p", runs: true, mode: 0o644, err: errors.New("it is not executable")}), "servers.secret", "not executable", "chmod u+x /p", ""},
		{"a secret for all", secret(secretFacts{name: "KEY", path: "/p", mode: 0o644}), "servers.exposed", "mode 0644", "chmod 600 /p", ""},
		{"a table for nobody", serversHere(t, server(`{"command": "sh"}`), "[[server]]\nname = \"y*\"\nmax = 3\n"), "servers.unmatched", `"y*"`, "", ""},
	})
}

// Programs that print secrets are not run by looking.
func TestSecretProgramsAreNotRun(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "secret")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+dir+"/ran\necho key\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := testPatient(t, doctorFlags{})
	p.conf.Server = serverTables{{Env: map[string]secretValue{"KEY": {Command: []string{program}}}}}
	writeServers(t, p.home, `{"mcpServers": {"x": {"command": "sh"}}}`)
	if o := checkServers(t.Context(), p); len(o.findings) > 0 {
		t.Errorf("%+v", o.findings)
	}
	if exists(filepath.Join(dir, "ran")) {
		t.Error("the program was run")
	}
	if got := withoutPrograms(map[string]proxy.Secret{"A": {Text: "a"}}); got["A"].Text != "a" {
		t.Errorf("got %v", got)
	}
}

func TestAgentFaults(t *testing.T) {
	reg := register.Registration{Path: "/a/mcp.json", Entry: "bridged", Command: "/old/bridge-shim"}
	facts := func(a agentFacts) func() outcome {
		a.client = "cursor"
		return agentsFacts{shim: "/new/bridge-shim", agents: []agentFacts{a}}.judge
	}
	testFaults(t, []fault{
		{"all is well", facts(agentFacts{reg: reg}), "", "", "", ""},
		{"no agent", agentsFacts{}.judge, "", "", "", ""},
		{"no shim", agentsFacts{shimErr: errors.New("bridge-shim is neither beside bridged nor on PATH")}.judge, "agents.shim", "neither", "make install", ""},
		{"not registered", facts(agentFacts{}), "agents.none", "no agent", "bridged register", ""},
		{"the shim is gone", facts(agentFacts{reg: reg, missing: fs.ErrNotExist}), "agents.gone", "cursor starts /old/bridge-shim", "bridged register --client cursor --yes", ""},
		{"a project's shim is gone", facts(agentFacts{reg: reg, missing: fs.ErrNotExist, project: true}), "agents.gone", "cursor starts /old/bridge-shim", "bridged register --client cursor --yes --project", ""},
		{"another build", facts(agentFacts{reg: reg, other: true}), "agents.other", "another build", "bridged register --client cursor --yes", ""},
		{"twice", facts(agentFacts{reg: register.Registration{Path: "/a/mcp.json", Entry: "bridged", Command: "x", Twins: []string{"old"}}}), "agents.twice", "bridged and old", "${EDITOR:-vi} /a/mcp.json", ""},
		{"the same servers", facts(agentFacts{reg: reg, twice: []string{"git", "time"}}), "agents.duplicates", "git, time", "bridged register --client cursor --take-over", ""},
		{"no JSON", facts(agentFacts{err: errors.New("cursor: /a/mcp.json:3:7: it is no JSON; the file was left alone")}), "agents.unreadable", "no JSON", "${EDITOR:-vi} +3 /a/mcp.json", ""},
		{"no permission", facts(agentFacts{err: &fs.PathError{Op: "open", Path: "/a/mcp.json", Err: fs.ErrPermission}}), "agents.unreadable", "permission", "${EDITOR:-vi} /a/mcp.json", ""},
	})
}

// The facts about agents come from their real files.
func TestAgentsAreLookedAt(t *testing.T) {
	p := testPatient(t, doctorFlags{})
	dir := filepath.Dir(os.Args[0])
	shim := filepath.Join(dir, "bridge-shim") // beside this program, which stands for bridged
	if err := os.WriteFile(shim, []byte("shim"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(shim) })
	old := filepath.Join(p.home, "bridge-shim")
	for path, text := range map[string]string{
		".cursor/mcp.json":      `{"mcpServers": {"bridged": {"command": "` + shim + `"}, "git": {"command": "mcp-server-git"}}}`,
		".gemini/settings.json": `{"mcpServers": {"bridged": {"command": "` + old + `"}, "again": {"command": "` + shim + `"}}}`,
		".claude.json":          "{\n\"mcpServers\": ,}",
		".codex/config.toml":    "[mcp_servers.bridged]\ncommand = \"/no/such/bridge-shim\"\n",
	} {
		path = filepath.Join(p.home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(old, []byte("old"), 0o700); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range checkAgents(t.Context(), p).findings {
		got = append(got, f.Subject+" "+f.Code)
		checkLine(t, f.Command)
	}
	slices.Sort(got)
	want := []string{"claude-code agents.unreadable", "codex agents.gone", "cursor agents.duplicates", "gemini-cli agents.other", "gemini-cli agents.twice"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSocketFaults(t *testing.T) {
	facts := func(edit func(*pathFacts)) func() outcome {
		f := pathFacts{what: "the state folder", path: "/s", want: aFolder, private: true, there: true, mode: fs.ModeDir | 0o700, owner: 7}
		edit(&f)
		return func() outcome { return judgePaths([]pathFacts{f}, 7) }
	}
	testFaults(t, []fault{
		{"all is well", facts(func(*pathFacts) {}), "", "", "", ""},
		{"not there yet", facts(func(f *pathFacts) { *f = pathFacts{} }), "", "", "", ""},
		{"root's", facts(func(f *pathFacts) { f.owner = 0 }), "sockets.owner", "belongs to uid 0", "sudo chown -R 7 /s", ""},
		{"writable", facts(func(f *pathFacts) { f.mode = fs.ModeDir | 0o777 }), "sockets.writable", "mode 0777", "chmod 700 /s", repairMode},
		{"readable", facts(func(f *pathFacts) { f.mode = fs.ModeDir | 0o755 }), "sockets.readable", "mode 0755", "chmod 700 /s", repairMode},
		{"readable, and not private", facts(func(f *pathFacts) { f.mode, f.private = fs.ModeDir|0o755, false }), "", "", "", ""},
		{"a socket for all", facts(func(f *pathFacts) { f.mode, f.want = fs.ModeSocket|0o666, aSocket }), "sockets.writable", "mode 0666", "chmod 600 /s", repairMode},
		{"a file", facts(func(f *pathFacts) { f.mode = 0o600 }), "sockets.kind", "something else", "mv /s /s.old", ""},
		{"out of reach", facts(func(f *pathFacts) { f.err = fs.ErrPermission }), "sockets.unknown", "permission", "ls -ld / /s", ""},
		{"a relative path", func() outcome { return outcome{findings: judgeSocketPath("mcp.sock")} }, "sockets.path", "absolute", "unset BRIDGED_SOCKET", ""},
		{"a long path", func() outcome { return outcome{findings: judgeSocketPath("/" + strings.Repeat("x", 120))} }, "sockets.path", "121 bytes", "export BRIDGED_SOCKET=/tmp/bridged-$(id -u)/mcp.sock", ""},
	})
}

func TestDaemonFaults(t *testing.T) {
	running := func(edit func(*daemonFacts)) func() outcome {
		f := daemonFacts{socket: "/r/ops.sock", answers: true, pid: 5, status: ops.Status{Version: version, PID: 5, Ready: true}, self: "/b/bridged"}
		edit(&f)
		return f.judge
	}
	units := func(edit func(*daemonFacts)) func() outcome {
		f := daemonFacts{manager: true, self: "/b/bridged", program: "/usr/local/bin/bridged",
			service: unitFacts{state: "inactive", loaded: true, fragment: "/u/bridged.service"}, socketly: unitFacts{state: "active", loaded: true}}
		edit(&f)
		return f.judge
	}
	const again = "/b/bridged install --prefix /usr/local"
	const restart = "systemctl --user restart bridged.service"
	testFaults(t, []fault{
		{"it runs", running(func(*daemonFacts) {}), "", "", "", ""},
		{"it does not run", daemonFacts{}.judge, "", "", "", ""},
		{"systemd listens", units(func(*daemonFacts) {}), "", "", "", ""},
		{"it starts", running(func(f *daemonFacts) { f.status.Ready, f.status.Reason = false, "sandboxes are being made" }), "", "", "", ""},
		{"it hangs", running(func(f *daemonFacts) { f.answers, f.hangs, f.err = false, true, context.DeadlineExceeded }), "daemon.hung", "does not answer", "kill -KILL 5", ""},
		{"it hangs, nobody knows who", daemonFacts{socket: "/r/ops.sock", hangs: true}.judge, "daemon.hung", "does not answer", "fuser -k /r/ops.sock", ""},
		{"the service hangs", running(func(f *daemonFacts) { f.answers, f.hangs, f.managed = false, true, true }), "daemon.hung", "does not answer", restart, ""},
		{"another version", running(func(f *daemonFacts) { f.status.Version = "0.0.1" }), "daemon.version", "0.0.1", "kill 5", ""},
		{"the service is another version", running(func(f *daemonFacts) { f.status.Version, f.managed = "0.0.1", true }), "daemon.version", "0.0.1", restart, ""},
		{"no engine", running(func(f *daemonFacts) { f.status.Ready, f.status.Reason = false, "no container engine found" }), "daemon.notready", "no container engine", "bridged doctor --check engine,image,sandbox", ""},
		{"other settings", running(func(f *daemonFacts) { f.foreign, f.managed = []string{"DOCKER_HOST"}, true }), "daemon.environment", "DOCKER_HOST",
			"systemctl --user import-environment DOCKER_HOST && systemctl --user restart bridged.service", ""},
		{"other settings, without systemd", running(func(f *daemonFacts) { f.foreign = []string{"DOCKER_HOST"} }), "daemon.environment", "DOCKER_HOST", "kill 5", ""},
		{"the log", running(func(f *daemonFacts) { f.status.Audit = &ops.Audit{Path: "/a", Error: "disk full"} }), "daemon.audit", "disk full", "bridged doctor --check disk,sockets", ""},
		{"approvals", running(func(f *daemonFacts) { f.status.Approvals = 2 }), "daemon.approvals", "2 calls", "bridged approvals", ""},
		{"failed", units(func(f *daemonFacts) { f.service.state = "failed" }), "daemon.failed", "journalctl",
			"systemctl --user reset-failed bridged.service bridged.socket && systemctl --user restart bridged.socket", ""},
		{"not enabled", units(func(f *daemonFacts) { f.socketly.state = "inactive" }), "daemon.unused", "does not listen", "systemctl --user enable --now bridged.socket", ""},
		{"no program", units(func(f *daemonFacts) { f.gone = true }), "daemon.gone", "/usr/local/bin/bridged", again, ""},
		{"other units", units(func(f *daemonFacts) { f.outdated = true }), "daemon.outdated", "another version", again, ""},
		{"another program", units(func(f *daemonFacts) { f.other = true }), "daemon.other", "another build", again, ""},
		{"not read", units(func(f *daemonFacts) { f.service.reload = true }), "daemon.reload", "has not read", "systemctl --user daemon-reload", ""},
	})
	got := otherVariables([]string{"MCP_BRIDGE_PIDS=1", "PATH=a", "HOME=x", "DOCKER_HOST=y"}, []string{"MCP_BRIDGE_PIDS=2", "PATH=b", "HOME=x", "CONTAINER_HOST=z"})
	if want := []string{"CONTAINER_HOST", "DOCKER_HOST", "MCP_BRIDGE_PIDS"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStateFaults(t *testing.T) {
	now := time.Now()
	testFaults(t, []fault{
		{"all is well", stateFacts{}.judge, "", "", "", ""},
		{"the daemon's own", stateFacts{orphans: 3, daemon: true}.judge, "", "", "", ""},
		{"a socket", stateFacts{stale: []string{"/r/mcp.sock"}}.judge, "state.socket", "was killed", "rm /r/mcp.sock", repairSocket},
		{"a damaged file", stateFacts{damaged: map[string]error{"/s/a b": errors.New("no JSON")}}.judge, "state.damaged", "no JSON", "mv '/s/a b' '/s/a b.damaged'", ""},
		{"a sandbox", stateFacts{now: now, left: []runtime.Container{{ID: "c1", Created: now.Add(-time.Hour)}}}.judge, "state.sandbox", "earlier", "bridged doctor --check state --fix", repairContainer},
		{"another doctor's sandbox", stateFacts{now: now, left: []runtime.Container{{ID: "c1", Created: now}}}.judge, "", "", "", ""},
		{"orphans", stateFacts{orphans: 1}.judge, "state.orphans", "1 container of a daemon", "bridged serve", ""},
		{"no list", stateFacts{listErr: runtime.ErrUnreachable}.judge, "state.unknown", "unreachable", "bridged doctor --check engine", ""},
	})
}

// What --fix does is done, and what it can't do is told.
func TestRepairs(t *testing.T) {
	p := testPatient(t, doctorFlags{fix: true})
	e := enginetest.NewMemory(t, enginetest.Options{})
	p.engine = func() engineFacts { return engineFacts{engine: e} }
	id, err := e.Create(t.Context(), runtime.DefaultSpec(enginetest.MemoryImage))
	if err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(p.home, "open")
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	list := []finding{
		found("sockets.writable", open, "x", "").with(repair{deed: repairMode, path: open, mode: 0o600}),
		found("state.sandbox", string(id), "x", "").with(repair{deed: repairContainer, path: string(id)}),
		found("sockets.readable", "gone", "x", "").with(repair{deed: repairMode, path: "/no/such/file", mode: 0o600}),
		found("engine.none", "", "x", "").with(repair{deed: repairUnit, path: podmanUnit}),
		found("image.missing", "", "x", "").with(repair{deed: repairImage, path: defaultImage}), // --image is not given
		found("disk.low", "", "x", ""),
	}
	done := p.mend(t.Context(), doctorReport{Checks: []checkReport{{Findings: list}}})
	if len(done) != 4 || done[0].Error+done[1].Error != "" || done[2].Error == "" || done[2].Done != "" || !strings.Contains(done[3].Error, "XDG_RUNTIME_DIR") {
		t.Errorf("%+v", done)
	}
	info, err := os.Stat(open)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if left, err := e.List(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
