package bridge

import (
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// A shelf is a session's servers and its sandbox, which note what is asked.
type shelf struct {
	loaded []sandbox.Server
	told   [][]sandbox.Server
	closed []string
}

func (s *shelf) Load(_ context.Context, names []string) error {
	for _, n := range names {
		s.loaded = append(s.loaded, sandbox.Server{Name: n, Alias: n})
	}
	return nil
}

func (s *shelf) Loaded() []sandbox.Server { return s.loaded }

func (s *shelf) Servers() []string { return []string{"a", "b"} }
func (s *shelf) Waiting() []string { return nil }

func (s *shelf) Forget() { s.closed = append(s.closed, "what was read") }

func (s *shelf) Close() { s.closed = append(s.closed, "servers") }

// interpreter is the sandbox's side of a shelf.
type interpreter struct{ *shelf }

func (i interpreter) Run(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
	i.told = append(i.told, req.Servers)
	return sandbox.Result{Status: sandbox.StatusOK}, nil
}

func (i interpreter) Reset(context.Context) error {
	i.closed = append(i.closed, "interpreter")
	return nil
}

func (i interpreter) Unfinished() []sandbox.Unfinished { return nil }

func (i interpreter) Resume(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
	return sandbox.Result{}, nil
}

func (i interpreter) Ack(string) {}

func (i interpreter) Status() sandbox.SessionStatus {
	return sandbox.SessionStatus{State: sandbox.StateNone}
}

func (i interpreter) Files() []sandbox.File { return nil }

func (i interpreter) CopyFile(context.Context, io.Writer, string, int64) (sandbox.File, error) {
	return sandbox.File{}, sandbox.ErrNoFile
}

func (i interpreter) Watch(func()) {}

func (i interpreter) Close() { i.closed = append(i.closed, "code") }

func TestAWorkspaceTellsTheSandboxWhatIsLoaded(t *testing.T) {
	s := &shelf{}
	w := &workspace{runner: interpreter{s}, Upstreams: s}
	ctx := context.Background()
	for _, names := range [][]string{nil, {"a"}, {"b"}} {
		if err := w.Load(ctx, names); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Run(ctx, sandbox.Request{Code: "x"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	a, b := sandbox.Server{Name: "a", Alias: "a"}, sandbox.Server{Name: "b", Alias: "b"}
	if diff := cmp.Diff([][]sandbox.Server{nil, {a}, {a, b}}, s.told); diff != "" {
		t.Errorf("servers of the runs (-want +got):\n%s", diff)
	}
	if err := w.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.Close()
	if diff := cmp.Diff([]string{"interpreter", "what was read", "code", "servers"}, s.closed); diff != "" {
		t.Errorf("closed (-want +got):\n%s", diff)
	}
}
