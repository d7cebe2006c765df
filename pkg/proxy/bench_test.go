package proxy

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/discovery"
)

// echoPeer answers each request on r at once, in this process, so that a
// benchmark sees what we cost and not what a server costs.
func echoPeer(r io.Reader, w io.Writer, result string) {
	lines := newLineReader(r, 1<<20)
	for {
		line, _, err := lines.next()
		if err != nil {
			return
		}
		if m, ok := parseMessage(line); ok && m.hasID() {
			if _, err := io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.id)+`,"result":`+result+"}\n"); err != nil {
				return
			}
		}
	}
}

// benchPipe returns a pipe to an echoPeer over the system's pipes.
func benchPipe(b *testing.B, result string) *pipe {
	b.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	p := newPipe(inW, outR, DefaultMaxMessage, &strayLog{})
	go echoPeer(inR, outW, result)
	go p.read()
	go p.write()
	b.Cleanup(func() {
		for _, c := range []io.Closer{p, inR, outW, outR} {
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	return p
}

func BenchmarkPipeRoundTrip(b *testing.B) {
	p := benchPipe(b, `{"content":[{"type":"text","text":"ok"}]}`)
	params := json.RawMessage(`{"name":"echo","arguments":{"a":1}}`)
	id := int64(firstID)
	for b.Loop() {
		id++
		if _, err := p.SendRequest(context.Background(), transport.JSONRPCRequest{ID: mcp.NewRequestId(id), Method: "tools/call", Params: params}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPipeTenMegabytes(b *testing.B) {
	p := benchPipe(b, `{"content":[{"type":"text","text":"`+strings.Repeat(`some text\n`, 1<<20)+`"}]}`)
	b.SetBytes(10 << 20)
	id := int64(firstID)
	for b.Loop() {
		id++
		if _, err := p.SendRequest(context.Background(), transport.JSONRPCRequest{ID: mcp.NewRequestId(id), Method: "tools/call"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSessionOverhead is what a call costs before it is sent and after it
// is answered: everything but the process.
func BenchmarkSessionOverhead(b *testing.B) {
	p := New(Options{})
	defer p.Close(context.Background()) //nolint:errcheck // there is no process
	server := discovery.Server{Name: "fake", Transport: discovery.Stdio, Command: "sh"}
	servers := []discovery.Server{server}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }})
	if _, err := s.Load([]string{"fake"}); err != nil {
		b.Fatal(err)
	}
	t, err := s.find(s.look(), "fake")
	if err != nil {
		b.Fatal(err)
	}
	back := p.lease(t)
	pp := benchPipe(b, `{"content":[]}`)
	u := &upstream{conn: pp, pipe: pp, opts: &p.opts, dead: make(chan struct{})}
	u.lastID.Store(firstID)
	back.mu.Lock()
	back.up = u
	back.mu.Unlock()
	tools, _ := discovery.ParseTools(fakeList(fakeTools))
	p.opts.Catalog.Put(back.key, tools)
	params := json.RawMessage(`{"server":"fake","tool":"echo","arguments":{"a":1}}`)
	for b.Loop() {
		if _, err := s.Call(context.Background(), "tools.call", params); err != nil {
			b.Fatal(err)
		}
	}
	back.mu.Lock()
	back.up = nil
	back.mu.Unlock()
}
