package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/ops"
)

// soon bounds a test's waits for what must come.
const soon = time.Minute

// socketsDaemon is as much of a daemon as hands over its sockets.
func socketsDaemon(t *testing.T) (*daemon, paths) {
	t.Helper()
	dir, err := os.MkdirTemp("", "b") // t.TempDir is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := paths{socket: filepath.Join(dir, "r", "mcp.sock"), ops: filepath.Join(dir, "r", "ops.sock")}
	d := &daemon{paths: p, log: zerolog.Nop(), replaced: make(chan struct{}, 1)}
	for _, path := range []string{p.socket, p.ops} {
		ln, err := bridge.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		d.sockets = append(d.sockets, ln)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /replace", d.handOver)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = ops.Serve(ctx, d.sockets[1], mux) }) // the test looks at what it does
	t.Cleanup(func() { cancel(); serving.Wait() })
	return d, p
}

func TestADaemonIsReplacedWithoutARefusedConnection(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	d, p := socketsDaemon(t)
	stop, dialed := make(chan struct{}), make(chan error, 1)
	go func() { // as shims do
		for {
			select {
			case <-stop:
				dialed <- nil
				return
			default:
			}
			conn, err := net.Dial("unix", p.socket)
			if err == nil {
				// Once it was accepted it ends. So there is one at a time: thousands
				// that wait to be accepted are more than a socket takes.
				_ = conn.SetDeadline(time.Now().Add(soon))
				if _, err = conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
					err = conn.Close()
				}
			}
			if err != nil {
				dialed <- err
				return
			}
		}
	}()
	accepting := func(ln net.Listener) {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}
	go accepting(d.sockets[0]) // ends with the listener
	shims, operators, err := takeSockets(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.replaced:
	case <-time.After(soon):
		t.Fatal("the daemon does not leave")
	}
	for _, ln := range d.sockets {
		_ = ln.Close() // ops.Serve may have
	}
	go accepting(shims) // likewise
	for range 100 {
		conn, err := net.Dial("unix", p.socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	close(stop)
	if err := <-dialed; err != nil {
		t.Errorf("a shim was refused: %v", err)
	}
	if err := errors.Join(shims.Close(), operators.Close()); err != nil {
		t.Error(err)
	}
	if _, _, err := takeSockets(t.Context(), p); !errors.Is(err, errNobody) {
		t.Errorf("without a daemon: got %v, want %v", err, errNobody)
	}
}

func TestADaemonGoesOnAfterAHandoverInVain(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	d, p := socketsDaemon(t)
	other := p
	other.socket += "x"
	if _, _, err := takeSockets(t.Context(), other); err == nil || !strings.Contains(err.Error(), "the other daemon listens on") {
		t.Errorf("another socket: got %v", err)
	}
	conn, err := net.Dial("unix", p.ops)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("POST /replace HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"))
	if n, err := conn.Read(make([]byte, 12)); n != 12 || err != nil {
		t.Fatal(n, err)
	}
	_ = conn.Close() // the new daemon is gone
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	if _, _, err := takeSockets(t.Context(), p); err == nil || !strings.Contains(err.Error(), "systemctl --user restart bridged") {
		t.Errorf("as a service: got %v", err)
	}
	select {
	case <-d.replaced:
		t.Error("the daemon leaves")
	default:
	}
	if conn, err = net.Dial("unix", p.socket); err != nil {
		t.Fatal(err)
	}
	got, err := d.sockets[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Close()
	_ = conn.Close()
}
