package bridge

import (
	"net"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// Traffic is what a [Server] has had to do with agents since it was made.
type Traffic struct {
	Received, Sent int64 // bytes
	Refused        int64 // messages that were no JSON-RPC, too long, or too many at once
}

// Traffic returns what there was by now.
func (s *Server) Traffic() Traffic {
	return Traffic{Received: s.traffic.received.Load(), Sent: s.traffic.sent.Load(), Refused: s.traffic.refused.Load()}
}

type traffic struct{ received, sent, refused atomic.Int64 }

// A countedConn counts the bytes of a connection.
type countedConn struct {
	net.Conn
	traffic *traffic
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.traffic.received.Add(int64(n))
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.traffic.sent.Add(int64(n))
	return n, err
}

// Savings are the bytes that a result does not cost an agent.
type Savings struct {
	Cut  int64 // because it was too long
	TOON int64 // because it is told as TOON and not as JSON
}

// savings compares a result with what came of a run. What the sandbox has left
// out of a value by itself is not counted.
func (v view) savings(r sandbox.Result, told *mcp.CallToolResult) Savings {
	var s Savings
	shown := int64(0)
	for _, c := range told.Content {
		if text, ok := c.(mcp.TextContent); ok {
			shown += int64(len(text.Text))
		}
	}
	whole := int64(len(r.Value) + len(trace(r.Error)))
	for _, o := range r.Output {
		whole += int64(len(o.Text)) + o.Cut
	}
	s.Cut = max(0, whole-shown)
	if full, ok := told.StructuredContent.(structured); ok && v.mode == TOON {
		if line, err := encodeLine(full); err == nil {
			s.TOON = max(0, int64(len(line)-len("\n"))-shown)
		}
	}
	return s
}
