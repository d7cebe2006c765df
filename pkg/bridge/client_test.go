package bridge

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// mcpClient connects a real client, as a shim that has said hello would.
func mcpClient(t *testing.T, path, version string, o ...client.ClientOption) (*client.Client, *mcp.InitializeResult) {
	t.Helper()
	a := connect(t, path, Hello{})
	tr := transport.NewIO(io.Reader(a.r), a.conn, io.NopCloser(strings.NewReader("")))
	c := client.NewClient(tr, append(o, client.WithProtocolVersion(version))...)
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	req := mcp.InitializeRequest{}
	req.Params.ProtocolVersion = version
	req.Params.ClientInfo = mcp.Implementation{Name: "tester", Version: "9"}
	res, err := c.Initialize(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return c, res
}

func call(t *testing.T, c *client.Client, arguments map[string]any, token any) *mcp.CallToolResult {
	t.Helper()
	req := mcp.CallToolRequest{}
	req.Params.Name = "run_python"
	req.Params.Arguments = arguments
	if token != nil {
		req.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	res, err := c.CallTool(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestARealClientOfEveryVersion(t *testing.T) {
	for _, version := range mcp.ValidProtocolVersions {
		t.Run(version, func(t *testing.T) { testClient(t, version) })
	}
}

func testClient(t *testing.T, version string) {
	b := &bench{servers: []string{"github", "jira"}}
	b.load = func(names []string) error {
		if names[0] == "nope" {
			return errors.New("Server nope is not available. Did you mean jira?") //nolint:staticcheck // as the proxy words it
		}
		return nil
	}
	b.run = func(_ context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
		o := sandbox.Output{Stream: sandbox.Stdout, Text: "hi\n"}
		output(o)
		return sandbox.Result{Status: sandbox.StatusOK, Output: []sandbox.Output{o}, Value: req.Code,
			Rich: []sandbox.Rich{{MIME: "image/png", Data: encoded("png", 1, 1)}}}, nil
	}
	srv, path := start(t, b.open, Options{})
	c, init := mcpClient(t, path, version)
	if init.ProtocolVersion != version || init.ServerInfo.Name != "bridged" || init.Instructions != instructions {
		t.Errorf("initialize: got %q, %q", init.ProtocolVersion, init.ServerInfo.Name)
	}

	ctx := context.Background()
	tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "run_python" {
		t.Fatalf("tools/list: got %+v, %v", tools, err)
	}
	if got, want := tools.Tools[0].Description, description+"\nServers: github, jira"; got != want {
		t.Errorf("description: got %q, want %q", got, want)
	}

	res := call(t, c, map[string]any{"code": "1+1"}, "p")
	if got, want := shown(t, res), []string{"hi\n1+1", "image/png"}; !cmp.Equal(got, want) || res.IsError {
		t.Errorf("result: got %q, isError %v; want %q", got, res.IsError, want)
	}
	if img, ok := res.Content[1].(mcp.ImageContent); !ok || img.Data != base64.StdEncoding.EncodeToString(encoded("png", 1, 1)) {
		t.Errorf("picture: got %q", img.Data)
	}
	if got, want := res.StructuredContent != nil, version >= "2025-06-18"; got != want {
		t.Errorf("structuredContent: got %v, want %v", got, want)
	}
	res = call(t, c, map[string]any{"code": "1", "servers": []string{"nope"}}, nil)
	if got := shown(t, res); !res.IsError || got[0] != "Server nope is not available. Did you mean jira?" {
		t.Errorf("a server that is not there: got %q, isError %v", got, res.IsError)
	}
	res = call(t, c, map[string]any{"script": "1"}, nil)
	if got := shown(t, res); !res.IsError || !strings.Contains(got[0], `"code" is missing`) {
		t.Errorf("no code: got %q, isError %v", got, res.IsError)
	}
	testResources(t, c)
	if s := srv.Sessions(); len(s) != 1 || s[0].ClientName != "tester" || s[0].Calls != 3 {
		t.Errorf("sessions: got %+v", s)
	}
}

func testResources(t *testing.T, c *client.Client) {
	t.Helper()
	list, err := c.ListResources(context.Background(), mcp.ListResourcesRequest{})
	if err != nil || len(list.Resources) != 2 {
		t.Fatalf("resources/list: got %+v, %v", list, err)
	}
	for _, uri := range []string{capabilitiesURI, seedCapabilitiesURI} {
		req := mcp.ReadResourceRequest{}
		req.Params.URI = uri
		res, err := c.ReadResource(context.Background(), req)
		if err != nil || len(res.Contents) != 1 {
			t.Fatalf("resources/read %s: got %+v, %v", uri, res, err)
		}
		if text, ok := res.Contents[0].(mcp.TextResourceContents); !ok || text.Text != capabilities || text.URI != uri {
			t.Errorf("resources/read %s: got %+v", uri, res.Contents[0])
		}
	}
}

func TestCallsOfOneSessionNeverOverlap(t *testing.T) {
	var running atomic.Int32
	var seen []string // by one call at a time
	b := &bench{run: func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		if n := running.Add(1); n != 1 {
			t.Errorf("%d calls run at once", n)
		}
		defer running.Add(-1)
		time.Sleep(time.Millisecond) // so that the others could overtake
		seen = append(seen, req.Code)
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	}}
	_, path := start(t, b.open, Options{})
	c, _ := mcpClient(t, path, "2025-06-18")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { call(t, c, map[string]any{"code": strconv.Itoa(i)}, nil) })
	}
	wg.Wait()
	if len(seen) != 8 {
		t.Errorf("ran %q, want 8 calls", seen)
	}
}

func TestAPanicEndsItsRequestAlone(t *testing.T) {
	b := &bench{run: func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		if req.Code == "boom" {
			panic("boom")
		}
		return sandbox.Result{Status: sandbox.StatusOK, Value: "fine"}, nil
	}}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.send(callLine(`"x"`, `{"code":"boom"}`))
	if r := a.reply(); string(r.ID) != `"x"` || r.Error == nil || r.Error.Code != codeInternal || strings.Contains(r.Error.Message, "boom") {
		t.Errorf("got %s %+v, want an internal error", r.ID, r.Error)
	}
	a.send(callLine(`"y"`, `{"code":"ok"}`))
	if c := a.reply().call(t); c.Structured.Result != "fine" {
		t.Errorf("the next call: got %+v", c)
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := NewServer((&bench{}).open, Options{}).Serve(context.Background(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}
