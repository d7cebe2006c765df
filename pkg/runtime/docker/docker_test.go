package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/system"
	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/runtime"
)

// serve answers as an engine of the API version does.
func serve(t *testing.T, api string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", api)
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return "unix://" + socket
}

func TestDialSettlesOnAVersion(t *testing.T) {
	tests := []struct {
		api string
		ok  bool
	}{{"1.41", true}, {"1.47", true}, {"1.99", true}, {"1.40", false}, {"1.9", false}}
	for _, tt := range tests {
		t.Run(tt.api, func(t *testing.T) {
			e, err := Dial(t.Context(), serve(t, tt.api))
			if (err == nil) != tt.ok {
				t.Errorf("Dial of API %s: %v, want success: %v", tt.api, err, tt.ok)
			}
			if err == nil {
				_ = e.Close()
			}
		})
	}
}

func TestDialOfNothingIsUnreachable(t *testing.T) {
	_, err := Dial(t.Context(), "unix://"+filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, runtime.ErrUnreachable) || !strings.Contains(err.Error(), "none") {
		t.Errorf("Dial = %v, want one that is unreachable and names the socket", err)
	}
	for _, endpoint := range []string{"", "ssh://x", "unix://%zz"} {
		if _, err := Dial(t.Context(), endpoint); err == nil {
			t.Errorf("Dial(%q) succeeded", endpoint)
		}
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name, op string
		class    error
		status   int
		want     error // the condition
	}{
		{"an image that create does not find", "create", cerrdefs.ErrNotFound, 404, runtime.ErrNoImage},
		{"an image that is asked for", "image", cerrdefs.ErrNotFound, 404, runtime.ErrNoImage},
		{"a container that is gone", "kill", cerrdefs.ErrNotFound, 404, runtime.ErrNoContainer},
		{"a container in the wrong state", "kill", cerrdefs.ErrConflict, 409, nil},
		{"a registry without the image", "pull", cerrdefs.ErrNotFound, 404, nil},
		{"an engine in trouble", "start", cerrdefs.ErrInternal, 500, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := engineError(t.Context(), tt.op, fmt.Errorf("Error response from daemon: %w", tt.class))
			var got *runtime.EngineError
			if !errors.As(err, &got) {
				t.Fatalf("error = %v, want a refusal", err)
			}
			if got.Op != tt.op || got.Status != tt.status || got.Msg != tt.class.Error() || got.Err != tt.want {
				t.Errorf("error = %+v, want %+v", got, tt)
			}
		})
	}
}

func TestTheCallersContextIsTold(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	cancel(stop)
	if err := engineError(ctx, "list", io.EOF); !errors.Is(err, stop) {
		t.Errorf("error = %v, want %v", err, stop)
	}
}

func TestFollowReadsReportsToTheirEnd(t *testing.T) {
	tests := []struct {
		name, in string
		steps    []string
		err      string
	}{
		{name: "nothing is success"},
		{
			name:  "steps are told",
			in:    `{"stream":"Step 1\n"}{"status":"Extracting","id":"ab","progressDetail":{"current":3,"total":9}}`,
			steps: []string{"Step 1 0/0", "Extracting ab 3/9"},
		},
		{name: "an error after success counts", in: `{"status":"ok"}{"error":"disk full"}`, steps: []string{"ok 0/0"}, err: "disk full"},
		{name: "an end in the middle is no success", in: `{"status":`, err: "unreachable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var steps []string
			progress := func(step string, done, total int64) {
				steps = append(steps, fmt.Sprintf("%s %d/%d", step, done, total))
			}
			err := follow(t.Context(), "build", io.NopCloser(strings.NewReader(tt.in)), progress)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error = %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.steps, steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnerOptions(t *testing.T) {
	tests := map[string][]string{
		"65534:65534": {"uid=65534", "gid=65534"},
		"nobody":      nil,
		"1:wheel":     nil,
		"1":           nil,
		"1:2,suid":    nil,
	}
	for user, want := range tests {
		if diff := cmp.Diff(want, ownerOptions(user)); diff != "" {
			t.Errorf("ownerOptions(%q) (-want +got):\n%s", user, diff)
		}
	}
}

func TestUnlimited(t *testing.T) {
	all := system.Info{MemoryLimit: true, SwapLimit: true, PidsLimit: true, CPUCfsQuota: true}
	none := all
	none.SwapLimit, none.CPUCfsQuota = false, false
	for want, info := range map[string]system.Info{"": all, "swap cpu": none, "memory swap pids cpu": {}} {
		if got := unlimited(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
