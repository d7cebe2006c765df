package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/policy"
)

// A person is an Agent whose client asks somebody who answers as told.
type person struct {
	answer func(ctx context.Context) (string, error) // the client's result

	mu    sync.Mutex // guards the fields below
	asked []string
	notes []string
}

func (p *person) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	p.mu.Lock()
	p.asked = append(p.asked, method+" "+string(params))
	p.mu.Unlock()
	text, err := p.answer(ctx)
	return json.RawMessage(text), err
}

func (p *person) Tell(string, json.RawMessage) {}

func (p *person) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, text)
}

func (p *person) noted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notes
}

func says(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

// absent is a client that can't ask.
func absent(context.Context) (string, error) {
	return "", fmt.Errorf("%w: it has no dialogs", ErrCannotAsk)
}

// confirmed returns a session with a fake whose echo a person is asked about.
func confirmed(t *testing.T, c policy.Config, answer func(context.Context) (string, error)) (*Session, *person) {
	t.Helper()
	if c.Rules == nil {
		c.Rules = []policy.Rule{{Tools: []string{"echo"}, Action: policy.Confirm, Reason: "it costs money"}}
	}
	_, s := one(t, ruled(t, c), fakeConfig{})
	p := &person{answer: answer}
	s.opts.Agent = p
	return s, p
}

func accept(answer string) string { return `{"action":"accept","content":{"answer":"` + answer + `"}}` }

func TestAPersonIsAskedByTheAgent(t *testing.T) {
	for _, row := range []struct {
		name, answer string
		want         bool
		asked        int // in two calls
	}{
		{"once", accept(answerOnce), true, 2},
		{"for the session", accept(answerAlways), true, 1},
		{"no", accept(answerNo), false, 2},
		{"declined", `{"action":"decline"}`, false, 2},
		{"dismissed", `{"action":"cancel"}`, false, 2},
		{"an empty form", `{"action":"accept"}`, false, 2},
		{"another form", `{"action":"accept","content":{"answer":true}}`, false, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, p := confirmed(t, policy.Config{}, says(row.answer))
			for range 2 {
				_, err := call(t, s, "fake", "echo", args{"to": "eve"})
				if (err == nil) != row.want {
					t.Errorf("got %v", err)
				}
				if err != nil {
					wantCode(t, err, CodeDenied, "policy.rule 1", "asked and said no", "it costs money.")
					wantData(t, err, errorData{"fake", "echo", "policy.rule 1", "it costs money"})
				}
			}
			if len(p.asked) != row.asked || !strings.Contains(p.asked[0], "elicitation/create") || !strings.Contains(p.asked[0], `{\"to\":\"eve\"}`) {
				t.Errorf("asked: %q", p.asked)
			}
			if _, err := call(t, s, "fake", "big", args{}); err != nil {
				t.Errorf("a tool that needs no answer: %v", err)
			}
		})
	}
}

func TestACallWaitsInTheListWhileOthersGoOn(t *testing.T) {
	s, p := confirmed(t, policy.Config{}, absent)
	list := s.proxy.opts.Approvals
	done := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), "tools.call", json.RawMessage(`{"server":"fake","tool":"echo"}`))
		done <- err
	}()
	eventually(t, "the agent's note", func() bool { return len(p.noted()) == 1 })
	if _, err := call(t, s, "fake", "big", args{}); err != nil {
		t.Errorf("another call meanwhile: %v", err)
	}
	waiting := list.List()
	if len(waiting) != 1 || waiting[0].Tool != "echo" || !strings.Contains(p.noted()[0], "bridged approvals allow "+waiting[0].ID) {
		t.Fatalf("waiting: %+v, note %q", waiting, p.noted())
	}
	if err := list.Answer(waiting[0].ID, policy.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	if err := next(t, done); err != nil {
		t.Errorf("the call: %v", err)
	}
}

func TestACallThatNobodyAllowsIsDenied(t *testing.T) {
	s, _ := confirmed(t, policy.Config{ConfirmTimeout: 30 * time.Millisecond}, func(ctx context.Context) (string, error) {
		<-ctx.Done() // the question is withdrawn
		return "", context.Cause(ctx)
	})
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeDenied, "Nobody allowed it within 30ms (policy.confirm_timeout).")
	if n := len(s.proxy.opts.Approvals.List()); n != 0 {
		t.Errorf("%d questions are left", n)
	}
}

func TestACallThatIsGivenUpAsksNobodyAnyMore(t *testing.T) {
	s, p := confirmed(t, policy.Config{}, absent)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Call(ctx, "tools.call", json.RawMessage(`{"server":"fake","tool":"echo"}`))
		done <- err
	}()
	eventually(t, "the question", func() bool { return len(p.noted()) == 1 })
	why := errors.New("interrupted")
	cancel(why)
	if err := next(t, done); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if n := len(s.proxy.opts.Approvals.List()); n != 0 {
		t.Errorf("%d questions are left", n)
	}
}

func TestWaitingForAPersonIsNotTheCallsTime(t *testing.T) {
	s, _ := confirmed(t, policy.Config{Rules: []policy.Rule{
		{Tools: []string{"echo"}, Action: policy.Confirm}, {Tools: []string{"echo"}, Timeout: time.Minute},
	}}, func(context.Context) (string, error) {
		time.Sleep(50 * time.Millisecond)
		return accept(answerOnce), nil
	})
	c, err := s.newCall(json.RawMessage(`{"server":"fake","tool":"echo"}`))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	s.opts.Waits = func() func() {
		told = append(told, "waits")
		return func() { told = append(told, "waits no more") }
	}
	defer func() {
		if strings.Join(told, ", ") != "waits, waits no more" {
			t.Errorf("told: %q", told)
		}
	}()
	before := time.Now()
	if _, err := c.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.entered.Sub(before) < 50*time.Millisecond {
		t.Error("the call's time began before the answer")
	}
}

func TestNobodyIsAskedWhereTheAnswerIsKnown(t *testing.T) {
	for _, row := range []struct {
		name     string
		honour   bool
		approved []string
		tool     string
		asked    int
		code     string // of the error; empty is none
	}{
		{"a tool that the agent approves", true, []string{"echo"}, "echo", 0, ""},
		{"all tools approved", true, []string{"*"}, "echo", 0, ""},
		{"a tool that the agent does not approve", true, []string{"big"}, "echo", 1, CodeDenied},
		{"the agent's approval where it is not honoured", false, []string{"echo"}, "echo", 1, CodeDenied},
		{"a tool that there is not", false, nil, "nothing", 0, CodeUnknownTool},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t)
			server := b.server("fake", fakeConfig{})
			server.Approved = row.approved
			s := open(t, newProxy(t, ruled(t, policy.Config{Rules: []policy.Rule{{Action: policy.Confirm, AutoApprove: row.honour}}})), server)
			who := &person{answer: says(`{"action":"decline"}`)}
			s.opts.Agent = who
			_, err := call(t, s, "fake", row.tool, args{})
			if row.code == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if row.code != "" {
				wantCode(t, err, row.code)
			}
			if len(who.asked) != row.asked {
				t.Errorf("asked %d times, want %d", len(who.asked), row.asked)
			}
		})
	}
}

func TestAFlowMayBeLeftToAPerson(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, ruled(t, policy.Config{Flows: []policy.Flow{{From: []string{"mail"}, To: []string{"web"}, Action: policy.Confirm}}}))
	s := open(t, p, b.server("mail", fakeConfig{}), b.server("web", fakeConfig{}))
	who := &person{answer: says(accept(answerNo))}
	s.opts.Agent = who
	for _, server := range []string{"web", "mail"} {
		if _, err := call(t, s, server, "echo", args{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := call(t, s, "web", "echo", args{})
	wantCode(t, err, CodeDenied, "policy.flow 1", "said no")
	if len(who.asked) != 1 || !strings.Contains(who.asked[0], "has read results of server mail (tool echo)") {
		t.Errorf("asked: %q", who.asked)
	}
	who.answer = says(accept(answerAlways))
	for range 2 {
		if _, err := call(t, s, "web", "echo", args{}); err != nil {
			t.Error(err)
		}
	}
	if len(who.asked) != 2 {
		t.Errorf("asked %d times, want 2", len(who.asked))
	}
}
