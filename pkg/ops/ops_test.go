package ops

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStatusTravelsOverTheSocket(t *testing.T) {
	want := Status{
		Schema: SchemaVersion, Version: "1.2.3", PID: 42, Started: time.Unix(1700000000, 0).UTC(), Ready: true,
		Engine: Engine{Name: "podman", Version: "4.3.1", Rootless: true, Image: "img", Degraded: []string{"memory limit by rlimit"}},
		Pool:   Pool{Target: 2, Max: 32, Warm: 1, Leased: 3},
		Sandboxes: []Sandbox{{ID: "s", State: "warm", Degraded: []string{"x"}, Posture: Posture{
			UID: "65534", Mounts: []Mount{{Target: "/tmp", Type: "tmpfs", Options: []string{"rw"}, Bytes: 64}},
		}}},
		Sessions: []Session{{ID: "abc", Client: "test 1", PID: 7, Cwd: "/p", Calls: 9}},
		Servers:  []Server{{Name: "fs", State: "ready", PID: 8, Calls: 5}},
	}
	path := filepath.Join(t.TempDir(), "ops.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, Handler(func() Status { return want })) }()
	got, err := Get(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve after its context ended: %v", err)
	}
	if _, err := Get(context.Background(), path); err == nil {
		t.Error("Get from a daemon that is gone: got no error")
	}
}

func TestReadyzSaysWhyNot(t *testing.T) {
	s := Status{Reason: "no container engine"}
	h := Handler(func() Status { return s })
	for _, row := range []struct {
		path string
		code int
		text string
	}{
		{"/healthz", http.StatusOK, "ok"},
		{"/readyz", http.StatusServiceUnavailable, "no container engine"},
		{"/nothing", http.StatusNotFound, "not found"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, row.path, nil))
		if w.Code != row.code || !strings.Contains(w.Body.String(), row.text) {
			t.Errorf("GET %s: got %d %q, want %d with %q", row.path, w.Code, w.Body, row.code, row.text)
		}
	}
}
