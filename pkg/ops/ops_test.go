package ops

import (
	"context"
	"errors"
	"fmt"
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
	go func() { served <- Serve(ctx, ln, Handler(func() Status { return want }, nil)) }()
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
	h := Handler(func() Status { return Status{} }, func() error { return errors.New("no container engine") })
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

func TestApprovalsTravelOverTheSocket(t *testing.T) {
	want := []Approval{{ID: "ABC", Session: "s", Server: "github", Tool: "create", Arguments: `{"a":1}`, Since: time.Unix(1700000000, 0).UTC()}}
	var got []string
	mux := Handler(func() Status { return Status{} }, nil)
	HandleApprovals(mux, func() []Approval { return want }, func(id string, a Answer) error {
		if id != "ABC" {
			return None("no such call waits")
		}
		got = append(got, fmt.Sprint(id+" ", a.Allow, a.Always))
		return nil
	})
	path := filepath.Join(t.TempDir(), "ops.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, mux) }()
	list, err := Approvals(ctx, path)
	if diff := cmp.Diff(want, list); err != nil || diff != "" {
		t.Errorf("list: %v (-want +got):\n%s", err, diff)
	}
	if err := Approve(ctx, path, "ABC", Answer{Allow: true, Always: true}); err != nil {
		t.Error(err)
	}
	if err := Approve(ctx, path, "XYZ", Answer{}); !errors.Is(err, ErrNone) || err.Error() != "no such call waits" {
		t.Errorf("a call that is not there: got %v", err)
	}
	if diff := cmp.Diff([]string{"ABC true true"}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/approvals/ABC", strings.NewReader("allow")))
	if w.Code != http.StatusBadRequest || len(got) != 1 {
		t.Errorf("an answer that is none: got %d %q", w.Code, w.Body)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
