package bridge

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
)

func buildShim(t testing.TB) string {
	t.Helper()
	shim := filepath.Join(t.TempDir(), "bridge-shim")
	if out, err := exec.Command("go", "build", "-o", shim, "../../cmd/bridge-shim").CombinedOutput(); err != nil {
		t.Fatalf("building the shim: %v\n%s", err, out)
	}
	return shim
}

// TestARealClientThroughTheRealShim holds both ends of the wire together.
func TestARealClientThroughTheRealShim(t *testing.T) {
	shim := buildShim(t)
	for _, version := range []string{mcp.ProtocolVersion20241105, mcp.LATEST_LEGACY_PROTOCOL_VERSION, mcp.LATEST_PROTOCOL_VERSION} {
		t.Run(version, func(t *testing.T) { throughShim(t, shim, version) })
	}
}

func throughShim(t *testing.T, shim, version string) {
	var hello Hello
	b := &bench{}
	b.run = func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		return sandbox.Result{Status: sandbox.StatusOK, Value: req.Code + " by " + hello.Env["AGENT"]}, nil
	}
	srv, path := start(t, func(_ context.Context, h Hello, _ *Agent) (Workspace, error) {
		hello = h
		return b, nil
	}, Options{})
	c := client.NewClient(transport.NewStdio(shim, []string{"BRIDGED_SOCKET=" + path, "AGENT=me"}), client.WithProtocolVersion(version))
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	req := mcp.InitializeRequest{}
	req.Params.ProtocolVersion = version
	req.Params.ClientInfo = mcp.Implementation{Name: "tester", Version: "9"}
	if _, err := c.Initialize(ctx, req); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, call(t, c, map[string]any{"code": "run"}, nil)); !cmp.Equal(got, []string{"run by me"}) {
		t.Errorf("result: got %q", got)
	}
	if s := srv.Sessions(); len(s) != 1 || s[0].PID == os.Getpid() || s[0].PID != hello.PID {
		t.Errorf("sessions: got %+v, hello's pid %d", s, hello.PID)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}
