package systemd

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hang is how long a test waits for what should come at once.
const hang = time.Minute

// listener is systemd's end of the notifications of this process.
func listener(t *testing.T) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return conn
}

func next(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(hang)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestSystemdIsToldOfReadinessAndOfTheEnd(t *testing.T) {
	conn := listener(t)
	if err := Ready("serving"); err != nil {
		t.Fatal(err)
	}
	if err := Stopping(); err != nil {
		t.Fatal(err)
	}
	if got := next(t, conn); got != "READY=1\nSTATUS=serving" {
		t.Errorf("got %q", got)
	}
	if got := next(t, conn); got != "STOPPING=1" {
		t.Errorf("got %q", got)
	}
}

func TestNobodyIsToldWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	if err := errors.Join(Ready("x"), Stopping()); err != nil {
		t.Error(err)
	}
	Watch(t.Context(), func(context.Context) error { return errors.New("never asked") }, func(err error) { t.Error(err) }) // returns
}

func TestWatchdogHearsOfAProcessThatWorksOnly(t *testing.T) {
	conn := listener(t)
	t.Setenv("WATCHDOG_USEC", "60000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(t.Context())
	stuck, reports, ended := make(chan bool), make(chan error, 100), make(chan struct{})
	go func() {
		defer close(ended)
		sick := false
		Watch(ctx, func(ctx context.Context) error {
			select {
			case sick = <-stuck:
			default:
			}
			if !sick {
				return nil
			}
			<-ctx.Done() // like a lock that nobody gives up
			return ctx.Err()
		}, func(err error) { reports <- err })
	}()
	for range 3 {
		if got := next(t, conn); got != "WATCHDOG=1" {
			t.Fatalf("got %q", got)
		}
	}
	stuck <- true
	for range 2 {
		select {
		case err := <-reports:
			if !strings.Contains(err.Error(), "watchdog") {
				t.Errorf("got %v", err)
			}
		case <-time.After(hang):
			t.Fatal("nothing is reported")
		}
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(hang):
		t.Fatal("it watches on")
	}
}

func TestWatchdogTimeThatIsNoneIsReported(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "soon")
	var got error
	Watch(t.Context(), func(context.Context) error { return nil }, func(err error) { got = err })
	if got == nil {
		t.Error("nothing was reported")
	}
}
