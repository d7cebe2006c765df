package systemd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// handedOver is the variable that makes this test's program the service: it says
// which path it takes.
const handedOver = "SYSTEMD_TEST_TAKE"

func TestMain(m *testing.M) {
	if path := os.Getenv(handedOver); path != "" {
		fmt.Println(takeOver(path))
		return
	}
	os.Exit(m.Run())
}

// takeOver takes over sockets as a service does, and tells what came of it.
func takeOver(path string) string {
	s, err := Inherited()
	if err != nil {
		return "error: " + err.Error()
	}
	defer s.Close()
	ln := s.Take(path)
	if err := s.Unclaimed(); err != nil {
		return "unclaimed: " + err.Error()
	}
	if ln == nil {
		return "nothing"
	}
	conn, err := ln.Accept()
	if err != nil {
		return "error: " + err.Error()
	}
	defer conn.Close() //nolint:errcheck // the process ends
	if _, err := conn.Write([]byte("hello")); err != nil {
		return "error: " + err.Error()
	}
	return "served, LISTEN_FDS=" + os.Getenv("LISTEN_FDS")
}

// run starts the service with a file as systemd does.
func run(t *testing.T, path string, files ...*os.File) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), handedOver+"="+path, fmt.Sprintf("LISTEN_FDS=%d", len(files)))
	cmd.ExtraFiles = files
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestSocketsAreTakenOverByTheirPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // a test
	file, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a test
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test
	if got := run(t, path, file); got != "served, LISTEN_FDS=" {
		t.Errorf("got %q", got)
	}
	if got := run(t, path+"2", file); !strings.Contains(got, "unclaimed: systemd listens on "+path) {
		t.Errorf("a path that nobody takes: got %q", got)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("systemd's socket is gone: %v", err)
	}
}

func TestSocketsOfOtherKindsAreRefused(t *testing.T) {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // a test
	tcp, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close() //nolint:errcheck // a test
	plain, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close() //nolint:errcheck // a test
	for name, file := range map[string]*os.File{"TCP": tcp, "a file": plain} {
		if got := run(t, "/x", file); !strings.HasPrefix(got, "error: taking over the socket") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestWithoutSystemdThereAreNoSockets(t *testing.T) {
	if got := run(t, "/x"); got != "nothing" {
		t.Errorf("got %q", got)
	}
}
