package ops

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestStopIsAnsweredBeforeTheEnd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{}, 1)
	mux := Handler(func() Status { return Status{} }, func() error { return nil })
	HandleStop(mux, func() { stopped <- struct{}{} })
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), ln, mux) }()
	if err := Stop(t.Context(), socket); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("nothing was stopped")
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err == nil {
		t.Error("it serves on a closed socket")
	}
}
