package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	elicit = string(mcp.MethodElicitationCreate)
	form   = `{"message":"which?","requestedSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}}`
)

// asks makes code in b ask the agent something, and its value what came of it.
func (b *bench) asks(method, params string) {
	b.run = func(ctx context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		raw, err := b.agent.Load().Ask(ctx, method, json.RawMessage(params))
		res := sandbox.Result{Status: sandbox.StatusOK, Value: req.Code + " " + string(raw)}
		if err != nil {
			res.Value = err.Error()
		}
		return res, nil
	}
}

// greet is the handshake of a client with these capabilities.
func (a *agent) greet(capabilities string) {
	a.t.Helper()
	a.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities +
		`,"clientInfo":{"name":"tester","version":"9"}}}`)
	if r := a.reply(); r.Error != nil {
		a.t.Fatalf("initialize: %+v", r.Error)
	}
	a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func TestTheAgentIsAskedAndItsAnswerPassesUntouched(t *testing.T) {
	b := &bench{}
	b.asks(elicit, form)
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.greet(`{"elicitation":{}}`)
	a.send(callLine("1", `{"code":"x"}`))
	q := a.reply()
	if q.Method != elicit || string(q.Params) != form || !strings.HasPrefix(string(q.ID), `"bridged-`) {
		t.Fatalf("question: got %s %s %s", q.ID, q.Method, q.Params)
	}
	a.send(`{"jsonrpc":"2.0","id":7,"result":{"action":"cancel"}}`)               // of nobody's
	a.send(`{"jsonrpc":"2.0","id":"bridged-old-1","result":{"action":"cancel"}}`) // of an earlier daemon's
	a.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{"n":9007199254740993}}}`)
	a.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"decline"}}`) // the second is ignored
	r := a.reply()
	if got := r.call(t).Content[0].Text; got != `x {"action":"accept","content":{"n":9007199254740993}}` {
		t.Errorf("answer: got %s", got)
	}
}

func TestWhatTheAgentAnswersIsJudged(t *testing.T) {
	rows := []struct{ name, answer, want string }{
		{"an error", `"error":{"code":-32603,"message":"not now"}`, "the agent refused: not now (code -32603)"},
		{"no object", `"result":3`, "a result that is no object"},
		{"an error that is none", `"error":"x"`, "cannot be read"},
	}
	b := &bench{}
	b.asks(elicit, form)
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.greet(`{"elicitation":{}}`)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			a.send(callLine("1", `{"code":"x"}`))
			a.send(`{"jsonrpc":"2.0","id":` + string(a.reply().ID) + `,` + row.answer + `}`)
			r := a.reply()
			if got := r.call(t).Content[0].Text; !strings.Contains(got, row.want) {
				t.Errorf("got %s, want %s in it", got, row.want)
			}
		})
	}
}

func TestAClientThatDoesNotOfferWhatIsAskedIsNotAsked(t *testing.T) {
	const sampling = string(mcp.MethodSamplingCreateMessage)
	rows := []struct{ name, can, method, params, want string }{
		{"no elicitation", `{}`, elicit, form, "tester does not offer elicitation"},
		{"a form alone", `{"elicitation":{}}`, elicit, `{"mode":"url","url":"https://x"}`, "elicitation by URL"},
		{"URLs alone", `{"elicitation":{"url":{}}}`, elicit, form, "elicitation by a form"},
		{"no sampling", `{"elicitation":{}}`, sampling, `{}`, "does not offer sampling"},
		{"sampling without tools", `{"sampling":{}}`, sampling, `{"tools":[]}`, "sampling with tools"},
		{"what there is not", `{"sampling":{},"elicitation":{}}`, "x/y", `{}`, "requests for x/y"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := &bench{}
			b.asks(row.method, row.params)
			_, path := start(t, b.open, Options{})
			a := connect(t, path, Hello{})
			a.greet(row.can)
			a.send(callLine("1", `{"code":"x"}`))
			r := a.reply()
			if got := r.call(t).Content[0].Text; !strings.Contains(got, row.want) || !strings.HasPrefix(got, proxy.ErrCannotAsk.Error()) {
				t.Errorf("got %s, want %s in it", got, row.want)
			}
		})
	}
	t.Run("before initialize", func(t *testing.T) {
		b := &bench{}
		b.asks(elicit, form)
		_, path := start(t, b.open, Options{})
		a := connect(t, path, Hello{})
		a.send(callLine("1", `{"code":"x"}`))
		r := a.reply()
		if got := r.call(t).Content[0].Text; !strings.Contains(got, "has not said yet") {
			t.Errorf("got %s", got)
		}
	})
}

func TestQuestionsAreWithdrawnWithTheirRun(t *testing.T) {
	b := &bench{}
	b.asks(elicit, form)
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.greet(`{"elicitation":{}}`)
	a.send(callLine("1", `{"code":"x"}`))
	q := a.reply()
	a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	n := a.reply()
	if n.Method != "notifications/cancelled" || !strings.Contains(string(n.Params), `"requestId":`+string(q.ID)) {
		t.Fatalf("got %s %s, want the end of %s", n.Method, n.Params, q.ID)
	}
	a.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`) // too late, and ignored
	a.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if r := a.reply(); string(r.ID) != "2" {
		t.Errorf("after the late answer: got %s", r.ID)
	}
}

func TestQuestionsAreBoundedInNumberAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		q := newQuestions("p", func(any) { sent.Add(1) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var waiting sync.WaitGroup
		for range maxQuestions {
			waiting.Go(func() {
				if _, err := q.ask(ctx, elicit, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a question without an answer: got %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := q.ask(ctx, elicit, nil); !errors.Is(err, errTooManyQuestions) {
			t.Errorf("one too many: got %v", err)
		}
		waiting.Wait()
		if len(q.open) != 0 || sent.Load() != 2*maxQuestions {
			t.Errorf("%d are open, %d messages were sent, want a question and its end for each", len(q.open), sent.Load())
		}
	})
}

// A person answers what a client shows.
type person struct {
	want int // questions at once before any is answered
	mu   sync.Mutex
	seen int
	all  chan struct{} // closed when that many have been seen
}

func (p *person) Elicit(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.mu.Lock()
	if p.seen++; p.seen == p.want {
		close(p.all)
	}
	p.mu.Unlock()
	select {
	case <-p.all:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	res := &mcp.ElicitationResult{}
	res.Action, res.Content = mcp.ElicitationResponseActionAccept, map[string]any{"to": r.Params.Message}
	return res, nil
}

func TestARealClientOfEveryVersionIsAsked(t *testing.T) {
	for _, version := range mcp.ValidProtocolVersions {
		t.Run(version, func(t *testing.T) {
			b := &bench{}
			runs := 0
			b.run = func(ctx context.Context, _ sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
				runs++
				return sandbox.Result{Status: sandbox.StatusOK, Value: askTwice(ctx, b.agent.Load())}, nil
			}
			_, path := start(t, b.open, Options{})
			p := &person{want: 2, all: make(chan struct{})}
			if mcp.IsModernProtocol(version) {
				p.want = 1 // its client sees what was asked up to an answer
			}
			c, _ := mcpClient(t, path, version, client.WithElicitationHandler(p))
			res := call(t, c, map[string]any{"code": "x"}, nil)
			want := `{"action":"accept","content":{"to":"one"}}{"action":"accept","content":{"to":"two"}}` +
				`{"action":"accept","content":{"to":"three"}}`
			if got := shown(t, res); got[0] != want {
				t.Errorf("got %s, want %s", got[0], want)
			}
			if runs != 1 {
				t.Errorf("the code ran %d times", runs)
			}
		})
	}
}

// askTwice asks two things at once and then a third.
func askTwice(ctx context.Context, a *Agent) string {
	got := make([]string, 2)
	var asking sync.WaitGroup
	ask := func(what string) string {
		raw, err := a.Ask(ctx, elicit, json.RawMessage(fmt.Sprintf(`{"message":%q,"requestedSchema":{}}`, what)))
		if err != nil {
			return err.Error()
		}
		return string(raw)
	}
	for i, what := range []string{"one", "two"} {
		asking.Go(func() { got[i] = ask(what) })
	}
	asking.Wait()
	return strings.Join(got, "") + ask("three")
}

func TestACallWithoutInitializeCarriesTheQuestionInItsOrder(t *testing.T) {
	b := &bench{}
	b.asks(elicit, form)
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	modern := func(id, more string) {
		a.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"x"},` + meta + more + `}}`)
	}
	modern("1", "")
	line := a.recv()
	if !strings.Contains(line, `"params":`+form) || !strings.Contains(line, `"resultType":"input_required"`) {
		t.Fatalf("got %s", line)
	}
	var r struct {
		Result struct {
			RequestState  string
			InputRequests map[string]question
		}
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil || len(r.Result.InputRequests) != 1 {
		t.Fatalf("got %s, %v", line, err)
	}
	modern("2", `,"requestState":"other","inputResponses":{}`)
	if res := a.reply(); !strings.Contains(res.call(t).Content[0].Text, "does not know") {
		t.Errorf("a state of nobody's: got %s", res.Result)
	}
	state, _ := json.Marshal(r.Result.RequestState)
	modern("3", `,"requestState":`+string(state)) // without an answer it is asked again
	if again := a.recv(); strings.Replace(again, `"id":3`, `"id":1`, 1) != line {
		t.Errorf("asked again: got %s, want %s", again, line)
	}
	for key := range r.Result.InputRequests {
		modern("4", `,"requestState":`+string(state)+`,"inputResponses":{"`+key+`":{"action":"accept","content":{"n":9007199254740993}},"q99":{}}`)
	}
	res := a.reply()
	if got := res.call(t).Content[0].Text; got != `x {"action":"accept","content":{"n":9007199254740993}}` {
		t.Errorf("got %s", got)
	}
	modern("5", `,"requestState":`+string(state))
	if res := a.reply(); !strings.Contains(res.call(t).Content[0].Text, "has ended") {
		t.Errorf("after the end: got %s", res.Result)
	}
}

func TestNotesAreProgressOfTheRun(t *testing.T) {
	b, heard := &bench{}, make(hold)
	b.run = func(ctx context.Context, _ sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		b.agent.Load().Note("github.search: 3/10 fetching")
		heard.wait(ctx)
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.greet(`{}`)
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"x"},"_meta":{"progressToken":"p"}}}`)
	if r := a.reply(); r.Method != "notifications/progress" || !strings.Contains(string(r.Params), "github.search: 3/10 fetching") {
		t.Errorf("got %s %s", r.Method, r.Params)
	}
	close(heard)
}

func TestNotesComeBehindOutputAndAreBounded(t *testing.T) {
	p := &progress{wake: make(chan struct{}, 1)}
	for i := range 3 * maxHints {
		p.note(fmt.Sprintf("%d %s", i, strings.Repeat("x", 5000)))
	}
	if n := len(p.take()); n > maxProgress {
		t.Errorf("got %d bytes, want at most %d", n, maxProgress)
	}
	p.output(sandbox.Output{Stream: sandbox.Stdout, Text: "half a line"})
	p.note("one")
	p.output(sandbox.Output{Stream: sandbox.Stdout, Text: ", the rest\n"})
	p.note("two")
	if got, want := p.take(), "half a line, the rest\none\ntwo"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheTimeLimitDoesNotCountQuestions(t *testing.T) {
	b := &bench{}
	waited := make(chan time.Duration, 1)
	b.run = func(ctx context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		_, _ = b.agent.Load().Ask(ctx, elicit, json.RawMessage(form)) // its time is what counts
		waited <- req.Waited()
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.greet(`{"elicitation":{}}`)
	for range 2 { // each run has its own count
		began := time.Now()
		a.send(callLine("1", `{"code":"x"}`))
		q := a.reply()
		asked := time.Now()
		time.Sleep(20 * time.Millisecond) // a person thinks
		thought := time.Since(asked)
		a.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`)
		if got := <-waited; got < thought || got > time.Since(began) {
			t.Errorf("waited: got %s, want at least %s", got, thought)
		}
		a.reply()
	}
}

func TestAClientWithoutInitializeHasTheNameOfItsCall(t *testing.T) {
	b := &bench{}
	b.run = func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
		name, version := b.agent.Load().Client()
		return sandbox.Result{Status: sandbox.StatusOK, Value: "by " + name + " " + version}, nil
	}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"x"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"tester","version":"9"}}}}`)
	if line := a.recv(); !strings.Contains(line, "by tester 9") {
		t.Errorf("got %s", line)
	}
}
