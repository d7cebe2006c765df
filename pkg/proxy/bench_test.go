package proxy

import (
	"context"
	"encoding/json"
	"fmt"
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
	u := &upstream{link: link{wire: pp}, conn: pp, opts: &p.opts, dead: make(chan struct{})}
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

// BenchmarkCheckAndLearn is what checked arguments and learnt types add to one
// call.
func BenchmarkCheckAndLearn(b *testing.B) {
	p := New(Options{})
	defer p.Close(context.Background()) //nolint:errcheck // there is no process
	servers := []discovery.Server{{Name: "fake", Transport: discovery.Stdio, Command: "sh"}}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }})
	t, err := s.find(s.look(), "fake")
	if err != nil {
		b.Fatal(err)
	}
	tools, _ := discovery.ParseTools([]json.RawMessage{issueTool})
	p.opts.Catalog.Put(t.ref.Digest, tools)
	c := &toolCall{session: s, target: t, tool: "create_issue", definition: &tools[0],
		arguments: json.RawMessage(`{"title":"A title","labels":["bug","p1"],"state":"open"}`)}
	result := json.RawMessage(`{"content":[{"type":"text","text":"{\"number\":12,\"title\":\"A title\",\"labels\":[\"bug\"]}"}]}`)
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if err := c.fits(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("learn", func(b *testing.B) {
		for b.Loop() {
			c.learn(result)
		}
	})
}

// thousandTools are tools as people's servers have them.
func thousandTools() []json.RawMessage {
	var list []json.RawMessage
	for i := range 1000 {
		list = append(list, json.RawMessage(fmt.Sprintf(`{"name":"tool_%d","title":"Tool %d","description":"Does the thing number %d, and tells what it did. %s",
			"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["owner","repo"],"additionalProperties":false,"properties":{
			"owner":{"type":"string","description":"Repository owner"},"repo":{"type":"string","description":"Repository name"},
			"labels":{"type":"array","items":{"type":"string"},"description":"Labels to filter by"},"state":{"type":"string","enum":["open","closed","all"],"default":"open"},
			"page":{"type":"number","minimum":1,"description":"Page number"},"filter":{"type":"object","properties":{"since":{"type":"string","format":"date-time"},"by":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}},
			"outputSchema":{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"title":{"type":"string"}},"required":["id"]}}}}}`,
			i, i, i, strings.Repeat("More words about it. ", 10))))
	}
	return list
}

// BenchmarkThousandTools is what we add to listing 1000 tools: when they come
// from the server, and when they are known.
func BenchmarkThousandTools(b *testing.B) {
	raws := thousandTools()
	p := New(Options{})
	defer p.Close(context.Background()) //nolint:errcheck // there is no process
	servers := []discovery.Server{{Name: "fake", Transport: discovery.Stdio, Command: "sh"}}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }})
	t, err := s.find(s.look(), "fake")
	if err != nil {
		b.Fatal(err)
	}
	back := p.lease(t)
	back.shelf.have = true // so that nothing is started
	tools, _ := discovery.ParseTools(raws)
	p.opts.Catalog.Put(back.digest, tools)
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			discovery.ParseTools(raws)
		}
	})
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			p.opts.Catalog.Put(back.digest, tools)
		}
	})
	for name, request := range map[string][2]string{
		"tools.list": {"tools.list", `{"server":"fake"}`}, "docs summary": {"docs.query", `{"server":"fake"}`},
		"docs full": {"docs.query", `{"server":"fake","detail":"full"}`}, "docs of one": {"docs.query", `{"server":"fake","tool":"tool_500"}`},
		"search": {"docs.search", `{"query":"thing number 77"}`}, "servers.list": {"servers.list", `{}`},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Call(context.Background(), request[0], json.RawMessage(request[1])); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
