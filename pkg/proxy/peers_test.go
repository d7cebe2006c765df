package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bridged/bridged/pkg/discovery"
)

// peer is a server as mcp-go makes them: it behaves.
func peer() *server.MCPServer {
	m := server.NewMCPServer("peer", "1", server.WithToolCapabilities(true))
	m.EnableSampling()
	text := func(s string) (*mcp.CallToolResult, error) { return mcp.NewToolResultText(s), nil }
	m.AddTool(mcp.NewTool("echo"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(r.GetString("v", "none"))
	})
	m.AddTool(mcp.NewTool("unlock"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		m.AddTool(mcp.NewTool("secret"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("secret") })
		return text("unlocked")
	})
	m.AddTool(mcp.NewTool("think"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, err := m.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{MaxTokens: 5}}) //nolint:staticcheck // servers of our versions do it
		if err == nil {
			return text("thought")
		}
		return text("no thought: " + err.Error())
	})
	m.AddTool(mcp.NewTool("note"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for range 3 {
			if err := m.SendNotificationToClient(ctx, "notifications/message", map[string]any{"level": "info", "data": "x"}); err != nil {
				return nil, err
			}
		}
		return text("noted")
	})
	return m
}

// peerSession returns a session with a peer.
func peerSession(t *testing.T, legacy bool) *Session {
	t.Helper()
	var handler http.Handler = server.NewStreamableHTTPServer(peer())
	kind, path := discovery.HTTP, "/mcp"
	if legacy {
		handler, kind, path = server.NewSSEServer(peer()), discovery.SSE, "/sse"
	}
	srv := listen(t, handler.ServeHTTP)
	s := open(t, newProxy(t, quick()), discovery.Server{Name: "fake", Transport: kind, URL: srv.URL + path})
	if _, err := s.Load([]string{"fake"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServersOfAnotherMakeAreSpokenWith(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		s := peerSession(t, legacy)
		for range 3 {
			if got := must(t, s, "echo", args{"v": "<hello>"}); got != "<hello>" {
				t.Errorf("echo: got %q", got)
			}
		}
		if got := must(t, s, "note", args{}); got != "noted" {
			t.Errorf("a call with notifications: got %q", got)
		}
		if got := must(t, s, "unlock", args{}); got != "unlocked" {
			t.Fatalf("unlock: got %q", got)
		}
		eventually(t, "the new tool is listed", func() bool {
			raw, err := ask(t, s, "tools.list", args{"server": "fake"})
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(raw), `"secret"`)
		})
		if got := must(t, s, "secret", args{}); got != "secret" {
			t.Errorf("the new tool: got %q", got)
		}
	})
}

func TestManyCallsAtOnceGoOverHTTP(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		s := peerSession(t, legacy)
		const n = 200
		results := make(chan string, n)
		for i := range n {
			go func() {
				v := strings.Repeat("v", i)
				raw, err := call(t, s, "fake", "echo", args{"v": v})
				if err == nil && !strings.Contains(string(raw), `"`+v+`"`) {
					t.Errorf("call %d got %s", i, raw)
				}
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				results <- ""
			}()
		}
		for range n {
			next(t, results)
		}
	})
}

func TestWhatARemoteServerAsksOfUsIsAnswered(t *testing.T) {
	s := peerSession(t, false)
	raw, err := call(t, s, "fake", "think", json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), "cannot be asked") {
		t.Errorf("got %s, want that nobody thinks for it", raw)
	}
}
