package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/discovery"
)

// httpEcho answers each request at once with a result, as one event.
func httpEcho(b *testing.B, result string) string {
	b.Helper()
	srv := listen(b, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a client that has gone
		m, ok := parseMessage(body)
		if !ok || !m.hasID() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.id)+",\"result\":"+result+"}\n\n")
	})
	return srv.URL
}

// requester is what both mcp-go's transport and ours are.
type requester interface {
	SendRequest(context.Context, transport.JSONRPCRequest) (*transport.JSONRPCResponse, error)
}

// BenchmarkRemoteRoundTrip compares a request over our connection with one over
// mcp-go's bare transport, to the same server.
func BenchmarkRemoteRoundTrip(b *testing.B) {
	for size, text := range map[string]string{"100 B": strings.Repeat("x", 100), "10 MB": strings.Repeat("x", 10_000_000)} {
		address := httpEcho(b, `{"content":[{"type":"text","text":"`+text+`"}]}`)
		at, err := newEndpoint(discovery.Server{}, discovery.Server{URL: address, Transport: discovery.HTTP}, &tokenStore{}, "")
		if err != nil {
			b.Fatal(err)
		}
		o := Options{}.withDefaults()
		ours, err := newRemote(at, discovery.HTTP, &o)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = ours.Close() })
		theirs, err := transport.NewStreamableHTTP(address)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = theirs.Close() })
		for name, conn := range map[string]requester{"through the gate": ours, "bare": theirs} {
			b.Run(fmt.Sprintf("%s %s", size, name), func(b *testing.B) {
				id := int64(firstID)
				for b.Loop() {
					id++
					r := transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id), Method: "tools/call", Params: json.RawMessage(`{"name":"x"}`)}
					if _, err := conn.SendRequest(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
