//go:build integration

package engines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
)

// kept are the engines that this process's tests have started. Starting one
// takes seconds, and there are many tests.
var kept = struct {
	sync.Mutex
	running map[Name]*Running
}{running: map[Name]*Running{}}

// ForTest returns an engine without containers, for one test at a time. The
// first test that asks has it started; [Main] stops it, and so does a test that
// fails, which may have spoilt it.
func ForTest(tb testing.TB, name Name) *Running {
	tb.Helper()
	// What is made here outlives the test.
	r, err := take(context.WithoutCancel(tb.Context()), name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if !tb.Failed() {
			return
		}
		if err := stopKept(name); err != nil {
			tb.Error(err)
		}
	})
	return r
}

func take(ctx context.Context, name Name) (*Running, error) {
	kept.Lock()
	defer kept.Unlock()
	if r := kept.running[name]; r != nil {
		return r, r.removeContainers(ctx)
	}
	r, err := Start(ctx, name)
	if err == nil {
		kept.running[name] = r
	}
	return r, err
}

func stopKept(name Name) error {
	kept.Lock()
	defer kept.Unlock()
	r := kept.running[name]
	delete(kept.running, name)
	if r == nil {
		return nil
	}
	return r.Stop()
}

// Port returns a port of 127.0.0.1 that nobody listens at. It is none of those
// that the kernel gives to whoever asks for any, so that it is still free when a
// program is started that is to listen there, and when that is started again.
func Port(tb testing.TB) int {
	tb.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(10_000)
		ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			_ = ln.Close() // nobody has connected
			return port
		}
	}
	tb.Fatal("no port is free")
	return 0
}

// Main runs a package's tests and stops the engines that they used. It never
// returns.
func Main(m *testing.M) {
	code := m.Run()
	var err error
	for _, name := range All {
		err = errors.Join(err, stopKept(name))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
