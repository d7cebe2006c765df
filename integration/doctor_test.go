//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/integration/engines"
)

// A diagnosis is what `bridged doctor --json` prints, as docs/doctor.md has it.
type diagnosis struct {
	Schema  int       `json:"schema"`
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	Status  string    `json:"status"`
	Checks  []struct {
		Name         string    `json:"name"`
		Status       string    `json:"status"`
		Summary      string    `json:"summary"`
		Milliseconds int64     `json:"milliseconds"`
		Findings     []finding `json:"findings"`
	} `json:"checks"`
	Repairs []struct {
		Code    string `json:"code"`
		Subject string `json:"subject"`
		Done    string `json:"done"`
		Error   string `json:"error"`
	} `json:"repairs"`

	exit int
}

type finding struct {
	Code    string `json:"code"`
	Level   string `json:"level"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Command string `json:"command"`
	Fixable bool   `json:"fixable"`
}

// doctor runs doctor in the home, and holds that what it prints is of the
// documented form.
func (h *home) doctor(t testing.TB, args ...string) diagnosis {
	t.Helper()
	return h.diagnose(t, append([]string{mustAbs(t, bridged), "doctor", "--json"}, args...))
}

// alone is doctor where the machine's own engines, if it has any, can't be seen.
func (h *home) alone(t testing.TB, args ...string) diagnosis {
	t.Helper()
	hidden := []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /run && exec "$@"`, "sh"}
	return h.diagnose(t, slices.Concat(hidden, []string{mustAbs(t, bridged), "doctor", "--json"}, args))
}

func (h *home) diagnose(t testing.TB, argv []string) diagnosis {
	t.Helper()
	cmd := h.command(argv[0], argv[1:]...)
	cmd.Dir = h.dir
	out, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("%v: run `make build` first", err)
	}
	var d diagnosis
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	d.exit = cmd.ProcessState.ExitCode()
	if want, ok := map[string]int{"ok": 0, "error": 1, "warning": 2}[d.Status]; !ok || d.exit != want || d.Schema != 1 || d.Version == "" || d.Time.IsZero() {
		t.Errorf("status %q, exit code %d, schema %d, version %q, time %s", d.Status, d.exit, d.Schema, d.Version, d.Time)
	}
	for _, c := range d.Checks {
		if !slices.Contains([]string{"ok", "warning", "error", "skipped"}, c.Status) || c.Findings == nil {
			t.Errorf("check %+v", c)
		}
		for _, f := range c.Findings {
			if !slices.Contains([]string{"note", "warning", "error"}, f.Level) || f.Code == "" || f.Text == "" {
				t.Errorf("finding %+v", f)
			}
		}
	}
	return d
}

// codes lists what was found, but for what is the machine's own fault.
func (d diagnosis) codes(except ...string) []string {
	codes := []string{}
	for _, c := range d.Checks {
		for _, f := range c.Findings {
			if !slices.Contains(except, f.Code) {
				codes = append(codes, f.Code)
			}
		}
	}
	return codes
}

// status is a check's status and summary.
func (d diagnosis) of(t testing.TB, name string) (status, summary string) {
	t.Helper()
	for _, c := range d.Checks {
		if c.Name == name {
			return c.Status, c.Summary
		}
	}
	t.Fatalf("there is no check %s", name)
	return "", ""
}

// one returns the only finding of a code.
func (d diagnosis) one(t testing.TB, code string) finding {
	t.Helper()
	var list []finding
	for _, c := range d.Checks {
		for _, f := range c.Findings {
			if f.Code == code {
				list = append(list, f)
			}
		}
	}
	if len(list) != 1 {
		t.Fatalf("found %d of %s in %+v", len(list), code, d.Checks)
	}
	return list[0]
}

// machine are faults that test machines may have, and that no test is about: the
// image is a test's own, engines run beside hybrid cgroups, and with swap that
// is not accounted.
var machine = []string{"image.foreign", "image.old", "image.stale", "cgroups.swap", "cgroups.cpu", "cgroups.v1", "cgroups.delegation", "cgroups.writable", "sandbox.weaker", "disk.low", "engine.open"}

// TestDoctorOnEngines finds nothing wrong on a machine with an engine that works,
// leaves nothing there, and finds a missing image.
func TestDoctorOnEngines(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			started := decoys(t)
			h := onEngine(t, r)
			h.servers(t, map[string]any{"time": map[string]any{"command": "mcp-server-time"}})
			d := h.doctor(t)
			if got := d.codes(append(machine, "agents.none")...); len(got) > 0 {
				t.Errorf("found %v in %+v", got, d.Checks)
			}
			for check, want := range map[string]string{"engine": r.Endpoint, "sandbox": "made and attested", "servers": "1 of 1", "clock": "the engine agrees", "seccomp": "2 in all"} {
				if status, summary := d.of(t, check); status == "error" || !strings.Contains(summary, want) {
					t.Errorf("%s: %s, %q, want %q", check, status, summary, want)
				}
			}
			weak := slices.Contains(d.codes(), "cgroups.v1") || slices.Contains(d.codes(), "cgroups.delegation")
			if weak && name != engines.Rootless {
				t.Errorf("limits: %+v", d.Checks)
			}
			noContainers(t, r, map[string]string{"io.bridged.doctor": "true"})
			h.untouched(t)
			h.env = append(h.env, "MCP_BRIDGE_IMAGE=localhost/no-such-image:latest")
			d = h.doctor(t)
			if f := d.one(t, "image.missing"); d.exit != 1 || f.Command != "bridged image build" || !f.Fixable {
				t.Errorf("%d: %+v", d.exit, f)
			}
			if status, _ := d.of(t, "sandbox"); status != "skipped" {
				t.Errorf("the sandbox is %s without an image", status)
			}
			if list := started(); len(list) > 0 {
				t.Errorf("doctor started %v", list)
			}
		})
	}
}

// untouched holds that there is nothing in the home but what tests put there.
func (h *home) untouched(t testing.TB, but ...string) {
	t.Helper()
	err := filepath.WalkDir(h.dir, func(path string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(h.dir, path) // both are absolute
		if err == nil && rel != "." && rel != "MCPs" && rel != filepath.Join("MCPs", "test.json") && !slices.Contains(but, rel) {
			t.Errorf("doctor made %s", rel)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A machine without an engine, one whose engine hangs, and one whose socket is
// everybody's.
func TestDoctorFindsEngineFaults(t *testing.T) {
	t.Run("no engine", func(t *testing.T) {
		h := newHome(t)
		h.env = append(h.env, "XDG_RUNTIME_DIR="+h.dir)
		d := h.alone(t, "--check", "engine,sandbox,image,cgroups,seccomp")
		if f := d.one(t, "engine.none"); d.exit != 1 || !strings.Contains(f.Text, h.dir+"/podman/podman.sock (Podman's user socket): no such socket") || f.Command == "" {
			t.Errorf("%d: %+v", d.exit, f)
		}
		for _, check := range []string{"sandbox", "image", "cgroups", "seccomp"} {
			if status, why := d.of(t, check); status != "skipped" || !strings.Contains(why, "no engine") {
				t.Errorf("%s: %s, %s", check, status, why)
			}
		}
	})
	t.Run("a socket that never answers", func(t *testing.T) {
		h := newHome(t)
		silent(t, filepath.Join(h.dir, "podman", "podman.sock"))
		h.env = append(h.env, "XDG_RUNTIME_DIR="+h.dir)
		d := h.alone(t)
		if f := d.one(t, "engine.hung"); f.Level != "error" || f.Command != "systemctl --user restart podman.socket podman.service" {
			t.Errorf("%+v", f)
		}
		if slices.Contains(d.codes(), "doctor.timeout") {
			t.Errorf("other checks hang with it: %+v", d.Checks)
		}
	})
	r := engines.ForTest(t, engines.Rootful)
	t.Run("a socket that never answers before one that does", func(t *testing.T) {
		h := newHome(t, "MCP_BRIDGE_IMAGE="+r.Image)
		socket := strings.TrimPrefix(r.Endpoint, "unix://")
		silent(t, filepath.Join(h.dir, "podman", "podman.sock"))
		if err := os.Symlink(socket, filepath.Join(h.dir, "docker.sock")); err != nil { // as podman-docker does
			t.Fatal(err)
		}
		h.env = append(h.env, "XDG_RUNTIME_DIR="+h.dir)
		d := h.doctor(t, "--check", "engine")
		if f := d.one(t, "engine.hung"); f.Level != "warning" || d.exit != 2 {
			t.Errorf("%d: %+v", d.exit, f)
		}
	})
	t.Run("a socket for everybody", func(t *testing.T) {
		socket := strings.TrimPrefix(r.Endpoint, "unix://")
		info, err := os.Stat(socket)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(socket, 0o777); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.Chmod(socket, info.Mode().Perm()); err != nil {
				t.Error(err)
			}
		}()
		d := onEngine(t, r).doctor(t, "--check", "engine")
		if f := d.one(t, "engine.open"); f.Command != "sudo chmod o-rw "+socket || d.exit != 1 {
			t.Errorf("%d: %+v", d.exit, f)
		}
	})
}

// silent listens at a path and never says a word.
func silent(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
}

// What a person has set up wrongly is found, each fault with what mends it, and
// none hides another.
func TestDoctorFindsFaultsOfASetUp(t *testing.T) {
	h := newHome(t)
	write := func(path, text string) string {
		path = filepath.Join(h.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write(".config/bridged/config.toml", "[sandbox]\nmemroy = \"1g\"\n")
	write(".claude.json", `{"mcpServers": {"bridged": {"type": "stdio", "command": "/no/such/bridge-shim"}}}`)
	broken := write("MCPs/broken.json", "{\n\"mcpServers\":\n}")
	h.servers(t, map[string]any{"lost": map[string]any{"command": "no-such-program"}, "time": map[string]any{"command": "mcp-server-time"}})
	state := filepath.Join(h.dir, ".local", "state", "bridged")
	trust := write(".local/state/bridged/approved-servers.json", "{")
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	d := h.doctor(t, "--quick")
	for code, fix := range map[string]string{
		"config.invalid":     "${EDITOR:-vi} +2 " + config,
		"agents.gone":        "bridged register --client claude-code --yes",
		"servers.definition": "${EDITOR:-vi} +3 " + broken,
		"servers.program":    fmt.Sprintf("${EDITOR:-vi} +1 %s/MCPs/test.json", h.dir),
		"state.damaged":      "mv " + trust + " " + trust + ".damaged",
		"sockets.writable":   "chmod 700 " + state,
	} {
		if f := d.one(t, code); f.Command != fix {
			t.Errorf("%s: %s, want %s", code, f.Command, fix)
		}
	}
	// What it says is done, and then all is well.
	for _, code := range []string{"agents.gone", "state.damaged", "sockets.writable"} {
		cmd := h.command("sh", "-c", d.one(t, code).Command)
		cmd.Env = append(slices.Clone(h.env), "PATH="+filepath.Join(mustAbs(t, "../bin"))+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", code, err, out)
		}
	}
	again := h.doctor(t, "--quick").codes()
	for _, code := range []string{"agents.gone", "state.damaged", "sockets.writable"} {
		if slices.Contains(again, code) {
			t.Errorf("%s is still there after its command: %v", code, again)
		}
	}
}

func mustAbs(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// With --servers, servers are really started.
func TestDoctorTriesServers(t *testing.T) {
	h := newHome(t)
	h.servers(t, map[string]any{
		"time": map[string]any{"command": "mcp-server-time"},
		"dies": map[string]any{"command": "sh", "args": []string{"-c", "echo no such key >&2; exit 3"}},
	})
	if got := h.doctor(t, "--check", "servers").codes(); len(got) > 0 {
		t.Errorf("without a start: %v", got)
	}
	d := h.doctor(t, "--check", "servers", "--servers")
	if f := d.one(t, "servers.failed"); f.Subject != "dies" || !strings.Contains(f.Text, "no such key") || f.Command != "bridged servers test dies" {
		t.Errorf("%+v", f)
	}
}

// A daemon that runs is no fault; one that hangs is; what a killed one leaves is
// mended.
func TestDoctorOnDaemons(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_POOL_WARM=1")
	d := h.serve(t)
	d.ready(t)
	checks := []string{"--check", "daemon,state,sockets"}
	if got := h.doctor(t, checks...).codes(); len(got) > 0 {
		t.Errorf("a daemon that runs: %v", got)
	}
	other := *h
	other.env = append(slices.Clone(h.env), "MCP_BRIDGE_PIDS=99")
	if f := other.doctor(t, checks...).one(t, "daemon.environment"); f.Subject != "MCP_BRIDGE_PIDS" || f.Command != fmt.Sprintf("kill %d", d.cmd.Process.Pid) {
		t.Errorf("%+v", f)
	}
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f := h.doctor(t, checks...).one(t, "daemon.hung")
	if f.Command != fmt.Sprintf("kill -KILL %d", d.cmd.Process.Pid) {
		t.Errorf("%+v", f)
	}
	if out, err := exec.Command("sh", "-c", f.Command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", f.Command, err, out)
	}
	<-d.done
	got := h.doctor(t, checks...)
	if codes := got.codes("state.orphans"); !slices.Equal(codes, []string{"state.socket", "state.socket"}) {
		t.Errorf("after a kill: %v", codes)
	}
	if err := os.Chmod(filepath.Dir(h.socket), 0o777); err != nil {
		t.Fatal(err)
	}
	// The folder first: nobody listens in one that is everybody's.
	fixed := h.doctor(t, append(checks, "--fix")...)
	if codes := fixed.codes("state.orphans"); len(codes) > 0 || len(fixed.Repairs) != 3 {
		t.Errorf("after --fix: %v, %+v", codes, fixed.Repairs)
	}
	if _, err := os.Lstat(h.socket); err == nil {
		t.Error("the socket is still there")
	}
}

// TestDoctorStartsPodmansSocket has a real systemd start a real socket.
func TestDoctorStartsPodmansSocket(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	s := newService(t, r)
	run := filepath.Join(s.dir, "run")
	s.env = slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, "MCP_BRIDGE_RUNTIME=") })
	s.env = append(s.env, "MCP_BRIDGE_RUNTIME=podman")
	units := filepath.Join(s.dir, ".config", "systemd", "user")
	if err := os.MkdirAll(units, 0o700); err != nil {
		t.Fatal(err)
	}
	// The machine's own units of Podman are for its own storage: these hand over
	// to the engine of the test.
	engine := strings.TrimPrefix(r.Endpoint, "unix://")
	for name, text := range map[string]string{
		"podman.socket":  "[Socket]\nListenStream=%t/podman/podman.sock\nSocketMode=0660\n[Install]\nWantedBy=sockets.target\n",
		"podman.service": "[Service]\nExecStart=/lib/systemd/systemd-socket-proxyd " + engine + "\n",
	} {
		if err := os.WriteFile(filepath.Join(units, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.must(t, "systemctl", "--user", "daemon-reload")
	if f := s.alone(t, "--check", "engine").one(t, "engine.none"); !f.Fixable || f.Command != "systemctl --user enable --now podman.socket" {
		t.Fatalf("%+v", f)
	}
	d := s.alone(t, "--check", "engine", "--fix")
	if len(d.Repairs) == 0 || d.Repairs[0].Done != "had systemd enable and start podman.socket" || d.Status != "ok" {
		t.Fatalf("%+v", d)
	}
	if _, summary := d.of(t, "engine"); !strings.Contains(summary, run+"/podman/podman.sock") {
		t.Errorf("the engine is %s", summary)
	}
	if out := s.must(t, "systemctl", "--user", "is-enabled", "podman.socket"); strings.TrimSpace(out) != "enabled" {
		t.Errorf("podman.socket is %s", out)
	}
}
