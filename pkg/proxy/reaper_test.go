package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/bridged/bridged/pkg/discovery"
)

// withDaemon starts a process that calls a server once and is ready to be
// killed.
func withDaemon(t *testing.T, server discovery.Server) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(server)
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(server.Command)
	daemon.Env = append(os.Environ(), daemonVar+"="+string(text))
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "called\n" {
		t.Errorf("the daemon says %q, %v", line, err)
	}
	return daemon
}

func kill(t *testing.T, daemon *exec.Cmd) {
	t.Helper()
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err == nil {
		t.Error("the daemon ended by itself")
	}
}

func TestWhatAServerHasStartedDiesWithTheDaemon(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // elsewhere nothing finds what has left its group
	}
	for _, row := range []struct {
		name   string
		config fakeConfig
	}{
		{"a server that is deaf", fakeConfig{DeafTo: "term"}},
		{"its children", fakeConfig{Sleepers: 3}},
		{"its children in sessions of their own", fakeConfig{Sleepers: 3, SleeperSid: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t)
			daemon := withDaemon(t, b.server("fake", row.config))
			eventually(t, "all run", func() bool { return len(b.processes()) > row.config.Sleepers })
			kill(t, daemon)
			if !b.settles(0) {
				t.Errorf("they live on: %v", b.processes())
			}
			eventually(t, "the reaper has ended", func() bool { return len(childrenWith(t, "reap")) == 0 })
		})
	}
}

// childrenWith returns the processes of this program that have an argument.
func childrenWith(t *testing.T, argument string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(line), os.Args[0]+"\x00"+argument+"\x00") {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

func TestReaperEndsWithTheProxyAndIsStartedAgainWhenItDies(t *testing.T) {
	o := quick()
	o.Reaper = []string{os.Args[0], "reap"}
	b := newBench(t)
	p := newProxy(t, o)
	if n := len(childrenWith(t, "reap")); n != 0 {
		t.Errorf("%d reapers before any server", n)
	}
	s := open(t, p, b.server("fake", fakeConfig{}), b.server("other", fakeConfig{Version: "2"}))
	must(t, s, "echo", args{})
	first := p.spawner.reaper.cmd.Process
	eventually(t, "the reaper runs", func() bool { return len(childrenWith(t, "reap")) > 0 })
	if n := len(childrenWith(t, "reap")); n != 1 {
		t.Errorf("%d reapers, want 1", n)
	}
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// One that is dying shows no command line, and may still hold its end of the
	// pipe, so that the proxy would not notice.
	(&process{cmd: p.spawner.reaper.cmd}).awaitExit()
	if _, err := call(t, s, "other", "echo", args{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another one runs", func() bool { return len(childrenWith(t, "reap")) > 0 })
	if n := len(childrenWith(t, "reap")); n != 1 || p.spawner.reaper.cmd.Process.Pid == first.Pid {
		t.Errorf("%d reapers after the first was killed", n)
	}
	closeProxy(t, p)
	if left := childrenWith(t, "reap"); len(left) != 0 {
		t.Errorf("reapers are left: %v", left)
	}
	checkNoZombies(t)
}

func TestServerStartsWithoutAReaperThatCannotBeStarted(t *testing.T) {
	o := quick()
	o.Reaper = []string{"/no/such/program"}
	_, s := one(t, o, fakeConfig{})
	must(t, s, "echo", args{})
}

func TestReaperTouchesOnlyWhatItWasToldAndWhatIsMarked(t *testing.T) {
	mark := markerVar + "=" + randomName() + "-"
	sleeper := func(env ...string) *exec.Cmd {
		cmd := exec.Command("sleep", "300")
		cmd.Env = append(os.Environ(), env...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	told, gone, other := sleeper(), sleeper(), sleeper(markerVar+"="+randomName()+"-1")
	Reap(strings.NewReader(fmt.Sprintf("+%d\n+%d\nrubbish\n+0\n+1\n-%d\n", told.Process.Pid, gone.Process.Pid, gone.Process.Pid)), mark)
	if err := told.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the group that was told: %v", err)
	}
	for _, cmd := range []*exec.Cmd{gone, other} {
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("a stranger was touched: %v", err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // we have killed it
	}
}
