//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// Every driver is held to both suites by every engine.
func TestEngines(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			started := decoys(t)
			t.Run("behaviour", func(t *testing.T) { enginetest.Test(t, r.Engine, r.Image) })
			t.Run("hardening", func(t *testing.T) { enginetest.TestHardening(t, r.Engine, r.Image, r.Shared(t)) })
			t.Run("servers", func(t *testing.T) { enginetest.TestServers(t, r.Engine, r.Image, r.Shared(t)) })
			t.Run("the default folders of our image can be written to", func(t *testing.T) { testFolders(t, r) })
			t.Run("the engine keeps nothing that a sandbox says", func(t *testing.T) { testNoLog(t, r) })
			t.Run("the engine is found by its socket", func(t *testing.T) { testDetect(t, r) })
			if list := started(); len(list) > 0 {
				t.Errorf("the driver started programs: %v", list)
			}
		})
	}
}

// decoys puts programs with the names of container tools before all others. The
// result lists those that have been started since.
func decoys(t *testing.T) func() []string {
	dir := t.TempDir()
	log := filepath.Join(dir, "started")
	script := fmt.Sprintf("#!/bin/sh\necho \"$0\" >>%q\nexit 1\n", log)
	for _, name := range []string{"podman", "docker", "nerdctl", "buildah", "crun", "runc", "ssh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() []string {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil // nothing was
		}
		return strings.Fields(string(text))
	}
}

// started makes a container, attaches to it and starts it. It is removed with
// the test.
func started(t *testing.T, r *engines.Running, spec runtime.Spec, stderr io.Writer) runtime.Stream {
	t.Helper()
	id, err := r.Engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Engine.Remove(context.Background(), id); err != nil {
			t.Errorf("Remove: %v", err)
		}
	})
	s, err := r.Engine.Attach(t.Context(), id, stderr)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	if err := r.Engine.Start(t.Context(), id); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return s
}

// testFolders writes to the folders of the default spec as its user. An image
// that has one of them must give it a mode that allows that.
func testFolders(t *testing.T, r *engines.Running) {
	spec := runtime.DefaultSpec(r.Image)
	spec.Cmd = []string{"python3", "-c", "import sys\nfor d in sys.argv[1:]: print(open(d + '/f', 'w').write('x'))"}
	for _, m := range spec.Tmpfs {
		spec.Cmd = append(spec.Cmd, m.Target)
	}
	var stderr strings.Builder
	s := started(t, r, spec, &stderr)
	stdout, err := io.ReadAll(s)
	if got, want := string(stdout), strings.Repeat("1\n", len(spec.Tmpfs)); got != want || err != nil {
		t.Errorf("output = %q, %v; want %q; stderr: %s", got, err, want, stderr.String())
	}
}

// testNoLog says a word through a container's every file, and looks for it in
// all that the engine keeps.
func testNoLog(t *testing.T, r *engines.Running) {
	const canary = "canary-9f31c07d"
	spec := runtime.DefaultSpec(r.Image)
	spec.Cmd = []string{"python3", "-c", "import sys; w = input(); print(w); print(w, file=sys.stderr)"}
	var stderr strings.Builder
	s := started(t, r, spec, &stderr)
	if _, err := io.WriteString(s, canary+"\n"); err != nil {
		t.Fatalf("Write: %v", err)
	}
	stdout, err := io.ReadAll(s)
	if got, want := string(stdout)+stderr.String(), canary+"\n"+canary+"\n"; got != want || err != nil {
		t.Fatalf("output = %q, %v; want %q", got, err, want)
	}
	files, err := r.Grep(t.Context(), canary)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 0 {
		t.Errorf("the engine kept what was said in %v", files)
	}
}

// testDetect finds the engine as a user's daemon would, without being told
// which of the two it is.
func testDetect(t *testing.T, r *engines.Running) {
	env := map[string]string{"MCP_BRIDGE_RUNTIME": r.Endpoint}
	list, err := runtime.Candidates(func(k string) string { return env[k] }, runtime.DetectOptions{})
	if err != nil {
		t.Fatalf("Candidates: %v", err)
	}
	e, err := runtime.Detect(t.Context(), list, engines.Dialers)
	if err != nil {
		t.Fatalf("Detect: %v", err)
	}
	info, err := e.Info(t.Context())
	if err != nil {
		t.Errorf("Info: %v", err)
	}
	if info.Name != r.Kind || info.Rootless != (r.Name == engines.Rootless) {
		t.Errorf("Info = %+v, want a %s", info, r.Kind)
	}
	if err := e.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// A driver outlives its engine's service: what waits for the service is told,
// and the same driver works when it is back.
func TestEngineComesBack(t *testing.T) {
	for _, name := range []engines.Name{engines.Rootful, engines.Docker} {
		t.Run(string(name), func(t *testing.T) { testComeback(t, engines.ForTest(t, name)) })
	}
}

func testComeback(t *testing.T, r *engines.Running) {
	e := r.Engine
	spec := runtime.DefaultSpec(r.Image)
	spec.Cmd = []string{"python3", "-c", "import time\nprint('up', flush=True)\ntime.sleep(600)"}
	spec.Labels = map[string]string{"comeback": "yes"}
	id, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	s, err := e.Attach(t.Context(), id, nil)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatalf("Start: %v", err)
	}
	if _, err := s.Read(make([]byte, 3)); err != nil {
		t.Fatalf("Read: %v", err)
	}
	events, err := e.Events(t.Context(), spec.Labels)
	if err != nil {
		t.Fatalf("Events: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := e.Wait(t.Context(), id)
		waited <- err
	}()
	if err := r.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, runtime.ErrUnreachable) {
		t.Errorf("Wait while the service died: %v, want %v", err, runtime.ErrUnreachable)
	}
	for range events { // until it is closed
	}
	if rest, _ := io.ReadAll(s); strings.TrimSpace(string(rest)) != "" {
		t.Errorf("output after the service died = %q", rest)
	}
	if _, err := e.Info(t.Context()); !errors.Is(err, runtime.ErrUnreachable) {
		t.Errorf("Info of a dead service: %v, want %v", err, runtime.ErrUnreachable)
	}

	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := e.List(t.Context(), spec.Labels)
	if err != nil || len(list) != 1 || list[0].ID != id {
		t.Errorf("List after the comeback = %v, %v; want the container", list, err)
	}
	if err := e.Remove(t.Context(), id); err != nil {
		t.Errorf("Remove after the comeback: %v", err)
	}
}
