//go:build integration

package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asStranger connects to a socket as nobody, and prints what comes of it: an
// error, or what the daemon answers.
const asStranger = `
import os, socket, sys
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
try:
    s.connect(sys.argv[1])
    try: s.sendall(sys.argv[2].encode())
    except OSError: pass
    print('answer', s.recv(100))
except OSError as e: print(type(e).__name__)
`

// asRoot prepares a command of root's.
func asRoot(argv ...string) *exec.Cmd {
	if os.Geteuid() != 0 {
		argv = append([]string{"sudo", "-n"}, argv...)
	}
	return exec.Command(argv[0], argv[1:]...)
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestStrangersLearnNothing connects to the daemon's sockets as another user:
// as they are, and after somebody has opened them to everybody.
func TestStrangersLearnNothing(t *testing.T) {
	h := newHome(t)
	d := h.serve(t)
	sockets := map[string]string{
		h.socket: `{"bridged":1}` + "\n",
		filepath.Join(filepath.Dir(h.socket), "ops.sock"): "GET /status HTTP/1.0\r\n\r\n",
	}
	for path, hello := range sockets {
		if got := output(t, asRoot("python3", "-c", asStranger, path, hello)); got != "PermissionError" {
			t.Errorf("connecting to %s as another user: got %s, want PermissionError", path, got)
		}
	}
	for path := range sockets {
		for _, p := range []string{h.dir, filepath.Dir(path), path} {
			if err := os.Chmod(p, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, hello := range sockets {
		got := output(t, asRoot("python3", "-c", asStranger, path, hello))
		if got != "answer b''" && got != "ConnectionResetError" && got != "BrokenPipeError" {
			t.Errorf("connecting to %s, open to all, as another user: got %s, want no answer", path, got)
		}
	}
	if !d.status(t).Started.IsZero() {
		return
	}
	t.Error("the daemon does not answer its own user")
}

// TestDaemonListensOnItsSocketsAlone looks for a port in the daemon's files.
func TestDaemonListensOnItsSocketsAlone(t *testing.T) {
	d := newHome(t).serve(t)
	proc := fmt.Sprintf("/proc/%d/", d.cmd.Process.Pid)
	fds, err := filepath.Glob(proc + "fd/*")
	if err != nil || len(fds) == 0 {
		t.Fatalf("listing the daemon's files: %v, %v", fds, err)
	}
	inodes := map[string]bool{}
	for _, fd := range fds {
		link, _ := os.Readlink(fd) // it may be closed by now
		inodes[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
	}
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6"} {
		text, err := os.ReadFile(proc + "net/" + name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && inodes[f[9]] {
				t.Errorf("the daemon has a socket of %s: %s", name, line)
			}
		}
	}
}

// TestDaemonRefusesSomebodyElsesFolder starts daemons whose socket's folder
// another user has made first.
func TestDaemonRefusesSomebodyElsesFolder(t *testing.T) {
	for _, row := range []struct {
		name string
		make []string // as root, in a folder that all may write to
		want string
	}{
		{"a folder of somebody else's", []string{"install", "-d", "-o", "65534", "-m", "0777", "run"}, "belongs to uid 65534"},
		{"a link that somebody else has placed", []string{"sh", "-c", "install -d -m 0700 own && ln -s own run && chown -h 65534 run"}, "a link that uid 65534 placed"},
		{"a folder that everybody may write to", []string{"sh", "-c", "install -d -m 0777 -o " + fmt.Sprint(os.Geteuid()) + " run"}, "others may write to"},
		{"a file in the folder's place", []string{"touch", "run"}, "not a directory"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHome(t)
			cmd := asRoot(row.make...)
			cmd.Dir = h.dir
			output(t, cmd)
			out, err := h.command(bridged, "serve").CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), row.want) {
				t.Errorf("got %v, %s; want a failure that says %q", err, out, row.want)
			}
		})
	}
}
