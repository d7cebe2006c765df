package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// newTestPipe returns a pipe whose streams the test runs, and the server's ends.
func newTestPipe(t *testing.T) (p *pipe, in, out *os.File) {
	t.Helper()
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p = newPipe(inW, outR, 1<<20, &strayLog{})
	t.Cleanup(func() {
		for _, c := range []io.Closer{p, in, out, outR} {
			if err := c.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
		}
	})
	return p, in, out
}

func request(id int64) transport.JSONRPCRequest {
	return transport.JSONRPCRequest{ID: mcp.NewRequestId(id), Method: "x", Params: json.RawMessage(`{}`)}
}

func TestNoRequestOvertakesANotification(t *testing.T) {
	for range 20 { // a wrong order would come up half of the time
		p, in, _ := newTestPipe(t)
		n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
		n.Method = "notifications/initialized"
		if err := p.SendNotification(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			if _, err := p.SendRequest(ctx, request(firstID)); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		eventually(t, "the request is queued", func() bool { return len(p.frames) == 1 })
		done.Go(p.write)
		lines := bufio.NewReader(in)
		for _, want := range []string{"initialized", `"id":1000`} {
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, want) {
				t.Errorf("got %q, %v, want %s in it", line, err, want)
			}
		}
		cancel()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		done.Wait()
	}
}

func TestRequestThatWasNotWrittenSaysSo(t *testing.T) {
	cause := &deathError{reason: "it ended"}
	t.Run("its caller gives up", func(t *testing.T) {
		p, in, _ := newTestPipe(t)
		ctx, cancel := context.WithCancel(t.Context())
		var sent sync.WaitGroup
		sent.Go(func() {
			if _, err := p.SendRequest(ctx, request(firstID)); !errors.Is(err, errNotSent) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		eventually(t, "the request is queued", func() bool { return len(p.frames) == 1 })
		cancel()
		sent.Wait()
		var writing sync.WaitGroup
		writing.Go(p.write)
		eventually(t, "the queue is taken in", func() bool { return len(p.frames) == 0 })
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		writing.Wait()
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("the server got %q, %v", rest, err)
		}
	})
	t.Run("the server is dead", func(t *testing.T) {
		p, _, _ := newTestPipe(t)
		p.fail(cause)
		if _, err := p.SendRequest(t.Context(), request(firstID)); !errors.Is(err, errNotSent) || !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the server has closed its stdin", func(t *testing.T) {
		p, in, _ := newTestPipe(t)
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		done.Go(p.write)
		done.Go(func() {
			<-p.broken
			p.fail(cause)
		})
		if _, err := p.SendRequest(t.Context(), request(firstID)); !errors.Is(err, errNotSent) || !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		done.Wait()
		if p.why() != "it closed its stdin" {
			t.Errorf("why: %q", p.why())
		}
	})
	t.Run("the server dies after it was written", func(t *testing.T) {
		p, in, _ := newTestPipe(t)
		var done sync.WaitGroup
		done.Go(p.write)
		done.Go(func() {
			if _, err := p.SendRequest(t.Context(), request(firstID)); errors.Is(err, errNotSent) || !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
		})
		if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
			t.Error(err)
		}
		p.fail(cause)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		done.Wait()
	})
}

// A server that ends right after an answer has answered, even if whoever asked
// gets to run only after its end was looked into.
func TestAnAnswerCountsBeforeItsCallerHasIt(t *testing.T) {
	p, _, _ := newTestPipe(t)
	u := &upstream{link: link{wire: p}}
	p.tellAnswers(u.serves)
	for i, row := range []struct {
		method string
		served bool
	}{{"initialize", false}, {"logging/setLevel", false}, {"tools/call", true}} {
		id := firstID + int64(i)
		answers, err := p.expect(id, row.method)
		if err != nil {
			t.Fatal(err)
		}
		p.inbox.take(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, id), p.settle)
		if got := u.served.Load(); got != row.served {
			t.Errorf("after the answer to %s: got %v, want %v", row.method, got, row.served)
		}
		if a := <-answers; a.err != nil {
			t.Error(a.err)
		}
	}
	var told []string
	l := &ledger{told: func(method string) { told = append(told, method) }}
	x := &exchange{id: firstID, method: "tools/call"}
	if err := l.expect(x); err != nil {
		t.Fatal(err)
	}
	m, _ := parseMessage([]byte(`{"jsonrpc":"2.0","id":1000,"result":{}}`))
	if l.claim(nil, m) != x || len(told) != 1 || told[0] != "tools/call" {
		t.Errorf("over HTTP: told of %q", told)
	}
}

func TestRepliesThatAServerDoesNotReadAreDroppedAndReadingGoesOn(t *testing.T) {
	p, _, out := newTestPipe(t)
	var done sync.WaitGroup
	done.Go(p.read)
	for range 10 * controlQueue {
		if _, err := io.WriteString(out, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	done.Wait()
	if n := len(p.control); n != controlQueue {
		t.Errorf("%d replies wait, want %d", n, controlQueue)
	}
}
