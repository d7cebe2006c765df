package podman

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containers/podman/v5/pkg/errorhandling"
	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/runtime"
)

// serve answers as a service does, with handle for all but the ping, and
// returns an engine that talks to it.
func serve(t *testing.T, handle http.HandlerFunc) runtime.Engine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", handle)
	mux.HandleFunc("GET /{version}/libpod/_ping", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Libpod-Api-Version", "4.3.1")
	})
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	e, err := Dial(t.Context(), "unix://"+socket)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestDialOfNothingIsUnreachable(t *testing.T) {
	_, err := Dial(t.Context(), "unix://"+filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, runtime.ErrUnreachable) || !strings.Contains(err.Error(), "none") {
		t.Errorf("Dial = %v, want one that is unreachable and names the socket", err)
	}
	for _, endpoint := range []string{"", "ftp://x", "unix://%zz"} {
		if _, err := Dial(t.Context(), endpoint); err == nil {
			t.Errorf("Dial(%q) succeeded", endpoint)
		}
	}
}

func TestACreateIsNeverSentTwice(t *testing.T) {
	var posts, gets atomic.Int32
	e := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
		} else {
			gets.Add(1)
		}
		panic(http.ErrAbortHandler) // the service dies
	})
	if _, err := e.Create(t.Context(), runtime.DefaultSpec("x")); !errors.Is(err, runtime.ErrUnreachable) {
		t.Errorf("Create = %v, want %v", err, runtime.ErrUnreachable)
	}
	if got := posts.Load(); got != 1 {
		t.Errorf("create was sent %d times, want once", got)
	}
	if _, err := e.List(t.Context(), nil); !errors.Is(err, runtime.ErrUnreachable) {
		t.Errorf("List = %v, want %v", err, runtime.ErrUnreachable)
	}
	if got := gets.Load(); got < 2 {
		t.Errorf("list was sent %d times, and trying again does no harm", got)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name, op, msg string
		status        int
		want          error // the condition
	}{
		{"an image that create does not find", "create", "no such image", 404, runtime.ErrNoImage},
		{"the same of another version", "create", "x: image not known", 500, runtime.ErrNoImage},
		{"a create that fails otherwise", "create", "no space left on device", 500, nil},
		{"an image that is asked for", "image", "x", 404, runtime.ErrNoImage},
		{"a container that is gone", "kill", "x", 404, runtime.ErrNoContainer},
		{"the same of another version", "wait", "no such container", 500, runtime.ErrNoContainer},
		{"a container in the wrong state", "kill", "can only kill running containers", 409, nil},
		{"a registry without the image", "pull", "manifest unknown", 404, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := engineError(t.Context(), tt.op, &errorhandling.ErrorModel{Message: tt.msg + "\n", ResponseCode: tt.status})
			var got *runtime.EngineError
			if !errors.As(err, &got) {
				t.Fatalf("error = %v, want a refusal", err)
			}
			if got.Op != tt.op || got.Status != tt.status || got.Msg != tt.msg || got.Err != tt.want {
				t.Errorf("error = %+v, want %+v", got, tt)
			}
		})
	}
}

func TestTheCallersContextIsTold(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	cancel(stop)
	if err := engineError(ctx, "list", errors.New("read: EOF")); !errors.Is(err, stop) {
		t.Errorf("error = %v, want %v", err, stop)
	}
}

func TestStepsMakesLines(t *testing.T) {
	var got []string
	s := &steps{progress: func(step string, _, _ int64) { got = append(got, step) }}
	for _, part := range []string{"on", "e\n\ntwo\nth", "ree\n", strings.Repeat("x", maxStep+1)} {
		if n, err := s.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	want := []string{"one", "two", "three", strings.Repeat("x", maxStep+1)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestUnlimited(t *testing.T) {
	all := []string{"cpuset", "cpu", "io", "memory", "pids"}
	for _, tt := range []struct {
		name        string
		info        runtime.Info
		controllers []string
		want        string
	}{
		{"version 2", runtime.Info{CgroupVersion: "2", Rootless: true}, all, ""},
		{"version 2, what systemd delegates to users by itself", runtime.Info{CgroupVersion: "2", Rootless: true}, []string{"memory", "pids"}, "cpu"},
		{"version 2, nothing delegated", runtime.Info{CgroupVersion: "2", Rootless: true}, nil, "memory pids cpu"},
		{"version 1 as root", runtime.Info{CgroupVersion: "1"}, nil, ""},
		{"version 1 without root", runtime.Info{CgroupVersion: "1", Rootless: true}, all, "memory pids cpu"},
	} {
		if got := unlimited(tt.info, tt.controllers); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
