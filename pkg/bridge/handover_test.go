package bridge

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pair is the two ends of a connection.
func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // the connection is what counts
	a = dial(t, path)
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b, ok := conn.(*net.UnixConn)
	if !ok {
		t.Fatalf("a connection of type %T", conn)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

func listenIn(t *testing.T, dir, name string) net.Listener {
	t.Helper()
	ln, err := Listen(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func TestListenersAreHandedOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	one, two := listenIn(t, dir, "one"), listenIn(t, dir, "two")
	a, b := pair(t)
	if err := HandOver(a, one, two); err != nil {
		t.Fatal(err)
	}
	waiting := dial(t, one.Addr().String()) // before anybody else listens
	list, err := Receive(b, one.Addr().String(), two.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(two.Addr().String()); !errors.Is(err, ErrInUse) {
		t.Errorf("a third daemon: got %v, want %v", err, ErrInUse)
	}
	for _, ln := range list {
		conn := dial(t, ln.Addr().String())
		if ln == list[0] {
			_ = conn.Close()
			conn = waiting
		}
		got, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = got.Write([]byte("x"))
		if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("%s does not answer: %v", ln.Addr(), err)
		}
		_ = got.Close()
		_ = conn.Close()
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(ln.Addr().String()); !os.IsNotExist(err) {
			t.Errorf("the socket is left: %v", err)
		}
	}
	listenIn(t, dir, "one") // the lock is free
}

func TestAHandoverInVainChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	one := listenIn(t, dir, "one")
	a, b := pair(t)
	if err := HandOver(a, one); err != nil {
		t.Fatal(err)
	}
	if _, err := Receive(b, filepath.Join(dir, "other")); err == nil || !strings.Contains(err.Error(), "is to listen on "+dir+"/other") {
		t.Errorf("another path: got %v", err)
	}
	Retake(one)
	if err := HandOver(a, one); err != nil {
		t.Fatal(err)
	}
	if _, err := Receive(b, one.Addr().String(), "/x"); err == nil || !strings.Contains(err.Error(), "2 files came, and 4 are wanted") {
		t.Errorf("too few: got %v", err)
	}
	Retake(one)
	conn := dial(t, one.Addr().String())
	got, err := one.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Close()
	_ = conn.Close()
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(one.Addr().String()); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	plain, err := net.Listen("unix", filepath.Join(dir, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close() //nolint:errcheck // the test is over
	if err := HandOver(a, plain); err == nil {
		t.Error("a listener without a lock was handed over")
	}
}
