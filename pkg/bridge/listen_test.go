package bridge

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListenMakesAPrivateSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "mcp.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700, path + ".lock": 0o600} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, error %v; want %04o", filepath.Base(file), info.Mode().Perm(), err, want)
		}
	}
	if err := ln.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is there after Close: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: got %v", err)
	}
}

func TestOfManyStartersOneListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.sock")
	for round := range 50 {
		leaveStale(t, path)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []net.Listener
		for range 30 {
			wg.Go(func() {
				ln, err := Listen(path)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, ln)
				} else if !errors.Is(err, ErrInUse) {
					t.Errorf("a loser got %v, want %v", err, ErrInUse)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("round %d: %d listen, want 1", round, len(won))
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("the winner's socket: %v", err)
		}
		_ = conn.Close()
		_ = won[0].Close()
	}
}

// leaveStale leaves a socket as a killed daemon does.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
}

func TestADaemonWhoseLockFileWasDeletedIsRespected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // the test is over
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v, want %v", err, ErrInUse)
	}
}

func TestASocketOfSomebodyElsesIsAdoptedAndStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.sock")
	theirs, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Adopt(theirs)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test
	if _, err := ln.Accept(); err != nil {
		t.Error(err)
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a second daemon got %v, want %v", err, ErrInUse)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket is gone: %v", err)
	}
}

func TestListenRefusesPlacesThatAreNotSafe(t *testing.T) {
	dir := t.TempDir()
	chmod := func(name string, mode os.FileMode) string {
		d := filepath.Join(dir, name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, mode); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(d, "s")
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	shared := chmod("linked", 0o777)
	linkDir := filepath.Join(dir, "linkdir")
	if err := os.Symlink(filepath.Dir(shared), linkDir); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, says string }{
		{"a folder for everybody", chmod("all", 0o777), "others may write to"},
		{"a folder for a group", chmod("group", 0o770), "run chmod 700"},
		{"a folder like /tmp", chmod("sticky", 0o777|os.ModeSticky), "others may write to"},
		{"a link to a folder for everybody", filepath.Join(linkDir, "s"), "others may write to"},
		{"a file in the way", file, "something that is no socket is there"},
		{"a link in the way", link, "something that is no socket is there"},
		{"a folder that is a file", filepath.Join(file, "s"), "not a directory"},
		{"a relative path", "mcp.sock", "must be absolute"},
		{"a path that is too long", filepath.Join(dir, strings.Repeat("x", 108)), "set BRIDGED_SOCKET to a shorter one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ln, err := Listen(tt.path)
			if err == nil {
				_ = ln.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
	if got, err := os.ReadFile(file); string(got) != "mine" || err != nil {
		t.Errorf("the file in the way: got %q, %v", got, err)
	}
}

func TestPeersAreThisUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // the test is over
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // the test is over
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		t.Fatalf("a connection of type %T", conn)
	}
	if uid, err := peerUID(unixConn); err != nil || uid != os.Geteuid() {
		t.Errorf("got uid %d, %v; want %d", uid, err, os.Geteuid())
	}
}

func TestSocketPath(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"said outright", map[string]string{"BRIDGED_SOCKET": "/s", "XDG_RUNTIME_DIR": "/r"}, "/s"},
		{"in the runtime folder", map[string]string{"XDG_RUNTIME_DIR": "/r", "XDG_STATE_HOME": "/st"}, "/r/bridged/mcp.sock"},
		{"in the state folder", map[string]string{"XDG_STATE_HOME": "/st", "HOME": "/h"}, "/st/bridged/mcp.sock"},
		{"at home", map[string]string{"HOME": "/h"}, "/h/.local/state/bridged/mcp.sock"},
		{"nowhere", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := SocketPath(func(k string) string { return tt.env[k] })
			if diff := cmp.Diff(tt.want, got); diff != "" || (err != nil) != (tt.want == "") {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
