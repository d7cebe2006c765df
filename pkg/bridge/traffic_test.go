package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bridged/bridged/pkg/sandbox"
)

func TestTrafficAndSavingsAreCounted(t *testing.T) {
	b := &bench{run: func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
		return sandbox.Result{Status: sandbox.StatusOK, Output: []sandbox.Output{{Stream: 1, Text: strings.Repeat("word ", 100_000), Cut: 1000}}}, nil
	}}
	saved, heard := make(chan Savings, 1), make(chan string, 2)
	srv, path := start(t, b.open, Options{
		Saved:     func(s Savings) { saved <- s },
		Connected: func(s SessionInfo) { heard <- "connected " + s.CWD },
		Gone:      func(s SessionInfo) { heard <- "gone " + s.CWD },
	})
	a := connect(t, path, Hello{})
	a.send(callLine(`1`, `{"code":"x"}`))
	answer := a.recv()
	if s := <-saved; s.Cut < 450_000 || s.Cut > 501_000 || s.TOON != 0 {
		t.Errorf("saved %+v of 501000 bytes", s)
	}
	a.send(`no JSON`)
	refusal := a.recv()
	_ = a.conn.Close()
	for _, want := range []string{"connected /work", "gone /work"} {
		if got := <-heard; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	// Bytes are counted once they are written, which an agent can be ahead of: not before its end.
	got := srv.Traffic()
	if want := int64(len(answer) + len(refusal)); got.Sent < want || got.Received < int64(len(callLine(`1`, `{"code":"x"}`))) || got.Refused != 1 {
		t.Errorf("got %+v, want %d sent at least and 1 refused", got, want)
	}
}

func TestWhatTOONSaves(t *testing.T) {
	rows := `[` + strings.Repeat(`{"id":1,"name":"a","size":2},`, 50) + `{"id":1,"name":"a","size":2}]`
	v := view{mode: TOON, budget: DefaultMaxTokens, structured: true}
	r := sandbox.Result{Status: sandbox.StatusOK, Value: rows, Data: json.RawMessage(rows)}
	if s := v.savings(r, v.result(r)); s.TOON < 500 {
		t.Errorf("TOON saves %d bytes of %d, want a third at least", s.TOON, len(rows))
	}
	v.mode = JSON
	if s := v.savings(r, v.result(r)); s.TOON != 0 || s.Cut != 0 {
		t.Errorf("JSON saves %+v", s)
	}
}
