package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// note is a progress notification as an agent sees it.
type note struct {
	Method string
	Params struct {
		ProgressToken json.RawMessage
		Progress      float64
		Message       string
	}
}

// collect returns a function to report through, and the notes so far.
func collect(t *testing.T) (func([]byte), *[]note) {
	var notes []note
	return func(line []byte) {
		var n note
		if err := json.Unmarshal(line, &n); err != nil || n.Method != "notifications/progress" {
			t.Errorf("no progress: %s", line)
		}
		notes = append(notes, n)
	}, &notes
}

func withToken(raw string) context.Context {
	return withProgressToken(context.Background(), message{
		method: "tools/call", params: json.RawMessage(`{"_meta":{"progressToken":` + raw + `}}`),
	})
}

func TestProgressBeatsWhileNothingIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offer, notes := collect(t)
		p := newProgress(withToken(`0`), offer, nil)
		time.Sleep(90 * time.Second)
		p.close()
		time.Sleep(time.Minute) // none after the end
		if len(*notes) < 9 {
			t.Fatalf("%d notes in 90 s, want one every 10 s", len(*notes))
		}
		last := -1.0
		for _, n := range *notes {
			if n.Params.Progress <= last || n.Params.Progress-max(last, 0) > 10 || string(n.Params.ProgressToken) != "0" {
				t.Errorf("got %+v after %v", n.Params, last)
			}
			last = n.Params.Progress
		}
		if got, want := (*notes)[0].Params.Message, "running for 9 s"; got != want {
			t.Errorf("message: got %q, want %q", got, want)
		}
	})
}

func TestProgressTellsWhatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offer, notes := collect(t)
		p := newProgress(withToken(`0`), offer, func() []string { return []string{"a starts", "b starts", "c", "d", "e"} })
		time.Sleep(10 * time.Second)
		p.close()
		if len(*notes) != 1 {
			t.Fatalf("%d notes", len(*notes))
		}
		if got, want := (*notes)[0].Params.Message, "running for 9 s; a starts; b starts; c; 2 more are starting"; got != want {
			t.Errorf("message: got %q, want %q", got, want)
		}
	})
}

func TestProgressCarriesOutputAtMostTenTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offer, notes := collect(t)
		p := newProgress(withToken(`"p"`), offer, nil)
		for range 1000 {
			p.output(sandbox.Output{Text: "x\n"})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		p.close()
		all := ""
		for _, n := range *notes {
			all += n.Params.Message + "\n"
		}
		if len(*notes) > 11 || strings.Count(all, "x\n") != 1000 {
			t.Errorf("%d notes with %d lines, want at most 11 with 1000", len(*notes), strings.Count(all, "x\n"))
		}
	})
}

func TestProgressShowsBarsInTheirLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offer, notes := collect(t)
		p := newProgress(withToken(`1`), offer, nil)
		p.output(sandbox.Output{Stream: 1, Text: "begin\n"})
		back := int64(0)
		for i := range 1000 {
			text := strings.Repeat("#", i%100)
			p.output(sandbox.Output{Stream: 2, Text: text, Back: back})
			back = int64(len(text))
			time.Sleep(time.Millisecond)
		}
		p.close()
		for _, n := range *notes {
			if m := strings.TrimPrefix(n.Params.Message, "begin\n"); len(m) > 99 {
				t.Errorf("got %q, want one state of the bar", m)
			}
		}
	})
}

func TestProgressIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offer, notes := collect(t)
		p := newProgress(withToken(`1e400`), offer, nil)
		for range 100 {
			p.output(sandbox.Output{Text: strings.Repeat("漢", 5000) + "END"})
		}
		time.Sleep(time.Second)
		p.close()
		got := (*notes)[len(*notes)-1].Params
		if len(got.Message) > maxProgress || !strings.HasSuffix(got.Message, "漢END") || string(got.ProgressToken) != "1e400" {
			t.Errorf("got %d bytes, token %s", len(got.Message), got.ProgressToken)
		}
	})
}

// A report that was woken for output has also what is printed before it is made,
// of which there is nothing to tell a second time.
func TestProgressIsNotReportedTwice(t *testing.T) {
	p := &progress{wake: make(chan struct{}, 1)}
	p.output(sandbox.Output{Text: "one\n"})
	<-p.wake
	p.output(sandbox.Output{Text: "two\n"})
	p.note("three")
	if got, want := p.take(), "one\ntwo\nthree"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	select {
	case <-p.wake:
		t.Error("there is another report, of nothing")
	default:
	}
	p.output(sandbox.Output{Text: "four\n"})
	<-p.wake
}

func TestProgressIsSentOnlyWhenAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name, params string
		want         bool
	}{
		{"a string", `{"_meta":{"progressToken":"p"}}`, true},
		{"zero", `{"_meta":{"progressToken":0}}`, true},
		{"an object", `{"_meta":{"progressToken":{"a":1}}}`, true},
		{"null", `{"_meta":{"progressToken":null}}`, false},
		{"no token", `{"_meta":{}}`, false},
		{"no meta", `{}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := withProgressToken(context.Background(), message{method: "tools/call", params: json.RawMessage(tt.params)})
			p := newProgress(ctx, func([]byte) {}, nil)
			p.output(sandbox.Output{Text: "x"}) // harmless without a token
			p.close()
			if got := p != nil; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A hold keeps a run from ending until its agent has heard of it.
type hold chan struct{}

func (h hold) wait(ctx context.Context) {
	select {
	case <-h:
	case <-ctx.Done():
	}
}

func TestProgressComesBeforeTheResult(t *testing.T) {
	heard := make(hold)
	b := &bench{run: func(ctx context.Context, _ sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
		for range 5 {
			output(sandbox.Output{Stream: 1, Text: "line\n"})
			time.Sleep(progressGap / 2)
		}
		heard.wait(ctx)
		return sandbox.Result{Status: "ok", Value: "done"}, nil
	}}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","_meta":{"progressToken":9007199254740993},"arguments":{"code":"x"}}}`)
	a.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	var seen []string
	for {
		r := a.reply()
		if r.Method != "" && !strings.Contains(string(r.Params), `"progressToken":9007199254740993`) {
			t.Errorf("token: got %s", r.Params)
		}
		if r.Method != "" {
			if seen = append(seen, r.Method); len(seen) == 1 {
				close(heard)
			}
			continue
		}
		if string(r.ID) == "1" {
			break
		}
	}
	a.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if r := a.reply(); string(r.ID) != "3" {
		t.Errorf("after the result: got %+v", r)
	}
	if len(seen) == 0 {
		t.Error("no progress came")
	}
}

func TestProgressHasNoMessageInTheOldestVersion(t *testing.T) {
	heard := make(hold)
	b := &bench{run: func(ctx context.Context, _ sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
		output(sandbox.Output{Stream: 1, Text: "line\n"})
		heard.wait(ctx)
		return sandbox.Result{Status: "ok"}, nil
	}}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}`)
	a.recv()
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","_meta":{"progressToken":1},"arguments":{"code":"x"}}}`)
	var params map[string]any
	if err := json.Unmarshal(a.reply().Params, &params); err != nil {
		t.Fatal(err)
	}
	close(heard)
	delete(params, "progress")
	if diff := cmp.Diff(map[string]any{"progressToken": 1.0}, params); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
