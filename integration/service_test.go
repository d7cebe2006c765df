//go:build integration

package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/systemd"
)

// A service is bridged as a user's systemd runs it.
type service struct {
	*home
	logs string // folder

	engine *engines.Running
}

// newService starts a systemd for a home, and ends it with the test.
func newService(t *testing.T, r *engines.Running) *service {
	t.Helper()
	h := onEngine(t, r)
	run := filepath.Join(h.dir, "run")
	h.socket = filepath.Join(run, "bridged", "mcp.sock")
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, "BRIDGED_SOCKET=") })
	h.env = append(h.env, "XDG_RUNTIME_DIR="+run)
	s := &service{h, filepath.Join(h.dir, "log"), r}
	for _, dir := range []string{run, s.logs} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	said := &lockedBuffer{}
	cmd := h.command("unshare", "--mount", "service/manager.sh", s.logs)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended, which is told below
		select {
		case err := <-done:
			if err != nil || t.Failed() {
				t.Errorf("systemd: %v:\n%s", err, said)
			}
		case <-time.After(waitTime):
			_ = cmd.Process.Kill()
			t.Errorf("systemd does not end:\n%s", said)
		}
	})
	s.until(t, "systemd answers", func() bool {
		m, err := systemd.User(t.Context(), run)
		if err != nil {
			return false
		}
		m.Close()
		return true
	})
	return s
}

func (s *service) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTime); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			out, _ := s.command("systemctl", "--user", "--no-pager", "status", systemd.ServiceUnit).CombinedOutput() // the failure is told anyway
			t.Fatalf("waiting until %s: it does not come\n%s", what, out)
		}
	}
}

// must runs a program that must succeed, and returns what it printed.
func (s *service) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := s.command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// show returns a property of the service.
func (s *service) show(t *testing.T, property string) string {
	t.Helper()
	return strings.TrimSpace(s.must(t, "systemctl", "--user", "show", systemd.ServiceUnit, "--property="+property, "--value"))
}

// pid waits for a daemon that answers and is another process than before.
func (s *service) pid(t *testing.T, before int) int {
	t.Helper()
	var pid int
	s.until(t, "another daemon answers", func() bool {
		st, err := ops.Get(t.Context(), filepath.Join(filepath.Dir(s.socket), "ops.sock"))
		pid = st.PID
		return err == nil && pid != before
	})
	return pid
}

// TestUserService has a real systemd listen for the daemon, start it, watch it,
// start it again, log for it and stop it.
func TestUserService(t *testing.T) {
	s := newService(t, engines.ForTest(t, engines.Rootful))
	prefix := filepath.Join(s.dir, ".local")
	if out := s.must(t, bridged, "install", "--prefix", prefix); !strings.Contains(out, "bridged.socket listens on "+s.socket) {
		t.Fatalf("install said %s", out)
	}
	units := filepath.Join(s.dir, ".local", "share", "systemd", "user")
	s.must(t, "systemd-analyze", "--user", "--man=no", "verify", filepath.Join(units, systemd.ServiceUnit), filepath.Join(units, systemd.SocketUnit))
	s.must(t, "systemd-analyze", "security", "--offline=true", "--threshold=90", "--no-pager", filepath.Join(units, systemd.ServiceUnit))
	if state := s.show(t, "ActiveState"); state != "inactive" {
		t.Errorf("the service is %s before anybody asked for it", state)
	}
	a := s.agent(t, s.dir)
	if got := a.run("x = 40 + 2\nprint(x)"); got != "42" {
		t.Errorf("got %q", got)
	}
	pid := s.pid(t, 0)
	if main, text := s.show(t, "MainPID"), s.show(t, "StatusText"); main != strconv.Itoa(pid) || !strings.Contains(text, s.socket) {
		t.Errorf("systemd says process %s, %q; it is %d", main, text, pid)
	}
	t.Run("a daemon that is killed is started again", func(t *testing.T) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		pid = s.pid(t, pid)
		if got := a.run("print(x)"); got != "42" {
			t.Errorf("the session did not go on: got %q", got)
		}
	})
	t.Run("a daemon that hangs is started again", func(t *testing.T) { pid = s.hang(t, pid) })
	t.Run("the journal has levels and fields", func(t *testing.T) { s.journal(t) })
	t.Run("installing again hurts nobody", func(t *testing.T) {
		s.must(t, bridged, "install", "--prefix", prefix)
		if again := s.pid(t, 0); again != pid {
			t.Errorf("the daemon was started again")
		}
	})
	t.Run("uninstalling leaves nothing", func(t *testing.T) { s.uninstall(t, prefix, pid) })
}

// hang stops the daemon from running, with a watchdog that is impatient.
func (s *service) hang(t *testing.T, pid int) int {
	t.Helper()
	folder := filepath.Join(s.dir, ".config", "systemd", "user", systemd.ServiceUnit+".d")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "watchdog.conf"), []byte("[Service]\nWatchdogSec=6\nStartLimitBurst=50\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must(t, "systemctl", "--user", "daemon-reload")
	s.must(t, "systemctl", "--user", "restart", systemd.ServiceUnit)
	pid = s.pid(t, pid)
	before := s.show(t, "NRestarts")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.until(t, "the watchdog bites", func() bool { return s.show(t, "NRestarts") != before })
	return s.pid(t, pid)
}

func (s *service) journal(t *testing.T) {
	t.Helper()
	out := s.must(t, "journalctl", "--directory", filepath.Join(s.logs, "journal"), "--output=json", "_COMM=bridged", "MESSAGE=serve")
	line, _, _ := strings.Cut(out, "\n")
	var entry map[string]any
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	for field, want := range map[string]string{"PRIORITY": "6", "SOCKET": s.socket, "MESSAGE": "serve"} {
		if entry[field] != want {
			t.Errorf("%s: got %v, want %s", field, entry[field], want)
		}
	}
}

func (s *service) uninstall(t *testing.T, prefix string, pid int) {
	t.Helper()
	s.must(t, bridged, "uninstall", "--prefix", prefix)
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the daemon still runs")
	}
	noContainers(t, s.engine, map[string]string{runtime.LabelManaged: "true"})
	if _, err := os.Stat(s.socket); err == nil {
		t.Error("the socket is still there")
	}
	found, err := exec.Command("find", prefix, "-type", "f", "-not", "-path", "*/state/*").Output()
	if err != nil || len(found) > 0 {
		t.Errorf("left: %s, %v", found, err)
	}
}
