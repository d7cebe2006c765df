package enginetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// upper answers every line with "<line>" until stdin ends.
func upper(_ context.Context, _ runtime.Spec, stdin io.Reader, stdout, stderr io.Writer) int {
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		fmt.Fprintf(stdout, "<%s>\n", lines.Text())
		fmt.Fprintln(stderr, "answered")
	}
	return 3
}

func launch(t *testing.T, m *Memory) (runtime.ID, runtime.Stream) {
	t.Helper()
	id, err := m.Create(t.Context(), runtime.DefaultSpec(MemoryImage))
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	s, err := m.Attach(t.Context(), id, nil)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	if err := m.Start(t.Context(), id); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return id, s
}

func TestFuncContainersWorkInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(t, Options{Run: upper, StdinOnce: true})
		m.Delay("create", time.Hour) // the bubble's clock
		id, s := launch(t, m)
		if _, err := io.WriteString(s, "a\n"); err != nil {
			t.Fatalf("Write: %v", err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatalf("CloseWrite: %v", err)
		}
		out, err := io.ReadAll(s)
		if got, want := string(out), "<a>\n"; got != want || err != nil {
			t.Errorf("output = %q, %v; want %q", got, err, want)
		}
		exit, err := m.Wait(t.Context(), id)
		if want := (runtime.Exit{Code: 3}); exit != want || err != nil {
			t.Errorf("Wait = %v, %v; want %v", exit, err, want)
		}
	})
}

func TestKilledFuncSeesItsStreamsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(t, Options{Run: upper})
		id, s := launch(t, m)
		if err := m.End(id, runtime.Exit{Code: 137, OOM: true}); err != nil {
			t.Fatalf("End: %v", err)
		}
		if n, err := s.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("Read after End = %d, %v; want io.EOF", n, err)
		}
		if _, err := s.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Write after End: %v; want io.ErrClosedPipe", err)
		}
		exit, err := m.Wait(t.Context(), id)
		if want := (runtime.Exit{Code: 137, OOM: true}); exit != want || err != nil {
			t.Errorf("Wait = %v, %v; want %v", exit, err, want)
		}
	})
}

func TestFaults(t *testing.T) {
	m := NewMemory(t, Options{Run: upper})
	m.Fail("create", 2, nil)
	spec := runtime.DefaultSpec(MemoryImage)
	for i := range 3 {
		_, err := m.Create(t.Context(), spec)
		var refused *runtime.EngineError
		if failed, want := errors.As(err, &refused), i < 2; failed != want {
			t.Errorf("Create %d: %v; want a refusal: %v", i, err, want)
		}
	}
	m.SetUnreachable(true)
	if _, err := m.Info(t.Context()); !errors.Is(err, runtime.ErrUnreachable) {
		t.Errorf("Info of an unreachable engine: %v", err)
	}
	m.SetUnreachable(false)
	if _, err := m.Info(t.Context()); err != nil {
		t.Errorf("Info after that: %v", err)
	}
	if got, want := m.Counts(), (Counts{Created: 1, Present: 1}); got != want {
		t.Errorf("Counts = %+v, want %+v", got, want)
	}
}

func TestDroppedStreamLeavesTheContainerRunning(t *testing.T) {
	m := NewMemory(t, Options{Run: upper})
	id, s := launch(t, m)
	if err := m.DropStreams(id); err != nil {
		t.Fatalf("DropStreams: %v", err)
	}
	if n, err := s.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read = %d, %v; want io.EOF", n, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got := m.Counts(); got.Running != 1 || got.OpenStreams != 0 {
		t.Errorf("Counts = %+v, want one running and no stream", got)
	}
}
