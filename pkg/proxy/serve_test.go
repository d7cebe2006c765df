package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// A fakeAgent notes what it is asked, and answers as a test wants.
type fakeAgent struct {
	answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

	mu    sync.Mutex // guards the fields below
	asked []string
	notes []string
	told  []string
}

func (a *fakeAgent) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	a.mu.Lock()
	a.asked = append(a.asked, method+" "+string(params))
	a.mu.Unlock()
	return a.answer(ctx, method, params)
}

func (a *fakeAgent) Tell(method string, params json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, method+" "+string(params))
}

func (a *fakeAgent) Note(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, text)
}

func (a *fakeAgent) list(of *[]string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), *of...)
}

// accepts is an agent whose person says yes.
func accepts() *fakeAgent {
	return &fakeAgent{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"action":"accept","content":{"n":9007199254740993}}`), nil
	}}
}

// in returns a session of an agent in a folder that has loaded the servers.
func in(t *testing.T, p *Proxy, agent Agent, cwd string, servers ...discovery.Server) *Session {
	t.Helper()
	s := p.NewSession(SessionOptions{Servers: openServers(servers...), Getenv: os.LookupEnv, Home: "/", Cwd: cwd, Agent: agent})
	t.Cleanup(s.Close)
	for _, server := range servers {
		if _, err := s.Load([]string{server.Name}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const elicitation = `{"jsonrpc":"2.0","id":1000,"method":"elicitation/create","params":{"message":"which?","requestedSchema":{"z":1,"a":2},"_meta":{"progressToken":3}}}`

func TestAServersQuestionsReachTheAgentOfItsCall(t *testing.T) {
	rows := []struct{ name, line, asked, answered string }{
		{"a question to the person", elicitation,
			`elicitation/create {"message":"fake: which?","requestedSchema":{"z":1,"a":2}}`,
			`{"jsonrpc":"2.0","id":1000,"result":{"action":"accept","content":{"n":9007199254740993}}}`},
		{"a completion, without what the agent knows of others",
			`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[{"x":1.0}],"includeContext":"allServers"}}`,
			`sampling/createMessage {"messages":[{"x":1.0}]}`, `"id":"s","result":`},
		{"a message that is none", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":1}}`, "", `"error":{"code":-32602`},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`, "", `"error":{"code":-32602`},
		{"a task", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"task":{}}}`, "", `this client runs no tasks`},
		{"what we don't serve", `{"jsonrpc":"2.0","id":1,"method":"x/y"}`, "", `"error":{"code":-32601,"message":"this client does not serve x/y"`},
		{"too much", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"t":"` + strings.Repeat("x", maxForwarded) + `"}}`, "", "is the limit"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t)
			agent := accepts()
			s := in(t, newProxy(t, quick()), agent, b.dir, b.server("fake", fakeConfig{}))
			if got := must(t, s, "send", args{"raw": row.line}); !strings.Contains(got, row.answered) {
				t.Errorf("the server got %s, want %s", got, row.answered)
			}
			if got := strings.Join(agent.list(&agent.asked), "\n"); got != row.asked {
				t.Errorf("the agent was asked %s, want %s", got, row.asked)
			}
		})
	}
}

func TestAnAgentThatCannotBeAskedIsNamed(t *testing.T) {
	rows := []struct {
		name string
		err  error
		want string
	}{
		{"it offers nothing", fmt.Errorf("%w: its client x does not offer sampling", ErrCannotAsk), `{"code":-32601,"message":"the agent cannot be asked: its client x does not offer sampling"}`},
		{"it refuses", &AgentError{Code: -1, Message: "user said no"}, `{"code":-1,"message":"user said no"}`},
		{"it fails", errors.New("busy"), `{"code":-32603,"message":"busy"}`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t)
			agent := &fakeAgent{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, row.err }}
			s := in(t, newProxy(t, quick()), agent, b.dir, b.server("fake", fakeConfig{}))
			if got := must(t, s, "send", args{"raw": elicitation}); !strings.Contains(got, row.want) {
				t.Errorf("the server got %s, want %s in it", got, row.want)
			}
		})
	}
}

func TestAQuestionThatCouldBeOfTwoSessionsIsAskedOfNobody(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	server := b.server("fake", fakeConfig{})
	one, two := accepts(), accepts()
	first, second := in(t, p, one, b.dir, server), in(t, p, two, b.dir, server)
	must(t, first, "echo", args{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = askCtx(ctx, t, second, "tools.call", args{"server": "fake", "tool": "hang"}) // ends with ctx
	}()
	eventually(t, "the other session's call is under way", func() bool { return pendingOf(first) == 1 })
	if got := must(t, first, "send", args{"raw": elicitation}); !strings.Contains(got, "calls of 2 sessions are under way") {
		t.Errorf("two sessions: the server got %s", got)
	}
	cancel()
	next(t, over)
	if got := must(t, first, "send", args{"raw": elicitation}); !strings.Contains(got, "accept") {
		t.Errorf("one session: the server got %s", got)
	}
	if len(one.list(&one.asked)) != 1 || len(two.list(&two.asked)) != 0 {
		t.Errorf("asked: %v, %v", one.asked, two.asked)
	}
}

func TestAQuestionEndsWithItsCallAndWithItsServersWord(t *testing.T) {
	b := newBench(t)
	ended := make(chan error, 2)
	begun := make(chan struct{}, 2)
	agent := &fakeAgent{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}}
	s := in(t, newProxy(t, quick()), agent, b.dir, b.server("fake", fakeConfig{}))
	t.Run("the call is canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "send", "arguments": args{"raw": elicitation}}) // ends with ctx
		}()
		next(t, begun)
		cancel()
		if err := next(t, ended); !errors.Is(err, errOver) {
			t.Errorf("got %v, want %v", err, errOver)
		}
		next(t, over)
	})
	t.Run("the server cancels", func(t *testing.T) {
		var canceling sync.WaitGroup
		defer canceling.Wait()
		canceling.Go(func() {
			select {
			case <-begun:
			case <-time.After(hang):
				t.Error("the agent is not asked")
				return
			}
			if _, err := call(t, s, "fake", "raw", args{"raw": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}` + "\n" +
				`{"jsonrpc":"2.0","id":ID,"result":{}}`}); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		over := make(chan struct{})
		go func() {
			defer close(over)
			raw := strings.Replace(elicitation, "1000", "7", 1)
			_, _ = askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "send", "arguments": args{"raw": raw}}) // waits for an answer in vain
		}()
		if err := next(t, ended); !errors.Is(err, errWithdrawn) {
			t.Errorf("got %v, want %v", err, errWithdrawn)
		}
		cancel()
		next(t, over)
	})
}

func TestServersThatAskForRootsAreKeptApartByProject(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	server := b.server("fake", fakeConfig{Asks: "roots/list", Report: b.path("roots"), Starts: b.path("starts")})
	starts := func() int { return len(b.lines("starts")) }
	one := in(t, p, accepts(), "/work/a b", server)
	must(t, one, "echo", args{})
	eventually(t, "the server knows its root", func() bool { return len(b.lines("roots")) == 1 })
	want := `{"jsonrpc":"2.0","id":"mine","result":{"roots":[{"name":"a b","uri":"file:///work/a%20b"}]}}`
	if got := b.lines("roots")[0]; got != want {
		t.Errorf("roots: got %s, want %s", got, want)
	}
	must(t, in(t, p, accepts(), "/work/a b", server), "echo", args{})
	if n := starts(); n != 1 {
		t.Errorf("the same project: %d processes were started, want 1", n)
	}
	other := in(t, p, accepts(), "/work/b", server)
	must(t, other, "echo", args{})
	eventually(t, "another project has a process of its own", func() bool { return len(b.lines("roots")) == 2 })
	if got := b.lines("roots")[1]; !strings.Contains(got, "file:///work/b") {
		t.Errorf("roots of the other project: got %s", got)
	}
	must(t, one, "echo", args{})
	if n := starts(); n != 2 {
		t.Errorf("%d processes were started, want 2", n)
	}
	project := server
	project.Root = "/work/c"
	must(t, in(t, p, accepts(), "/work/c/sub", project), "echo", args{})
	eventually(t, "a project's definition has the project's root", func() bool {
		return strings.Contains(strings.Join(b.lines("roots"), "\n"), `"uri":"file:///work/c"`)
	})
}

func TestRootsThatCouldBeOfTwoProjectsAreRefusedAndTheServerIsNotSharedOn(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	server := b.server("fake", fakeConfig{Starts: b.path("starts")})
	one, two := in(t, p, accepts(), "/a", server), in(t, p, accepts(), "/b", server)
	must(t, one, "echo", args{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = askCtx(ctx, t, two, "tools.call", args{"server": "fake", "tool": "hang"}) // ends with ctx
	}()
	eventually(t, "the other session's call is under way", func() bool { return pendingOf(one) == 1 })
	roots := `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	if got := must(t, one, "send", args{"raw": roots}); !strings.Contains(got, "2 sessions") {
		t.Errorf("got %s", got)
	}
	cancel()
	next(t, over)
	for cwd, s := range map[string]*Session{"/a": one, "/b": two} {
		if got := must(t, s, "send", args{"raw": roots}); !strings.Contains(got, `"uri":"file://`+cwd+`"`) {
			t.Errorf("session in %s: got %s", cwd, got)
		}
	}
	if n := len(b.lines("starts")); n != 3 {
		t.Errorf("%d processes were started, want one that nobody gets any more and one for each project", n)
	}
}

func TestProgressIsNotedWithTheToolsName(t *testing.T) {
	progress := func(rest string) string {
		return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,` + rest + `}}`
	}
	b := newBench(t)
	agent := accepts()
	s := in(t, newProxy(t, quick()), agent, b.dir, b.server("fake", fakeConfig{}))
	var burst []string
	for i := range 500 {
		burst = append(burst, progress(fmt.Sprintf(`"progress":%d,"total":1000,"message":"a\n\u001b[1mb"`, i)))
	}
	began := time.Now()
	must(t, s, "send", args{"raw": strings.Join(burst, "\n")})
	most := 1 + int(time.Since(began)/noteGap)
	notes := agent.list(&agent.notes)
	if len(notes) == 0 || notes[0] != "fake.send: 0/1000 a [1mb" {
		t.Fatalf("got %q", notes)
	}
	if len(notes) > most {
		t.Errorf("a burst of 500 made %d notes, want at most %d", len(notes), most)
	}
	must(t, s, "send", args{"raw": strings.Replace(progress(`"progress":0.5`), "TOKEN", "99", 1) + "\n" +
		strings.Replace(progress(`"progress":1`), "TOKEN", `"x"`, 1)})
	if got := agent.list(&agent.notes); len(got) != len(notes) {
		t.Errorf("progress of nobody's was noted: %q", got[len(notes):])
	}
}

func TestLogMessagesAreKeptAndWarningsNoted(t *testing.T) {
	b := newBench(t)
	agent := accepts()
	server := b.server("fake", fakeConfig{Capabilities: `{"tools":{},"logging":{}}`, Log: b.path("log")})
	server.Env["TOKEN"] = "hunter2-hunter2"
	s := in(t, newProxy(t, quick()), agent, b.dir, server)
	message := func(rest string) string {
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{` + rest + `}}`
	}
	must(t, s, "send", args{"raw": message(`"level":"info","logger":"db","data":"connected with hunter2-hunter2"`) + "\n" +
		message(`"level":"warning","data":{"slow":true}`) + "\n" + message(`"level":7`)})
	eventually(t, "the level was set", func() bool { return strings.Contains(strings.Join(b.lines("log"), ""), `"method":"logging/setLevel"`) })
	got := s.proxy.Status()[0].Log
	if !strings.Contains(got, "info: db: connected with ") || strings.Contains(got, "hunter2") || !strings.Contains(got, `warning: {"slow":true}`) {
		t.Errorf("log: got %q", got)
	}
	if notes := agent.list(&agent.notes); len(notes) != 1 || notes[0] != `fake: warning: {"slow":true}` {
		t.Errorf("notes: got %q", notes)
	}
}

func TestAServerWithoutLogIsNotToldALevel(t *testing.T) {
	b := newBench(t)
	s := open(t, newProxy(t, quick()), b.server("fake", fakeConfig{Log: b.path("log")}))
	must(t, s, "echo", args{})
	must(t, s, "echo", args{})
	if strings.Contains(strings.Join(b.lines("log"), ""), "setLevel") {
		t.Error("it was told one")
	}
}

func TestTheEndOfAQuestionByURLIsToldToTheAgent(t *testing.T) {
	b := newBench(t)
	agent := accepts()
	s := in(t, newProxy(t, quick()), agent, b.dir, b.server("fake", fakeConfig{}))
	must(t, s, "send", args{"raw": `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`})
	if got := agent.list(&agent.told); len(got) != 1 || got[0] != `notifications/elicitation/complete {"elicitationId":"e1"}` {
		t.Errorf("told: %q", got)
	}
}

func TestElicitSaysWhatThePersonDecided(t *testing.T) {
	rows := []struct{ name, answer, action, content, err string }{
		{"yes", `{"action":"accept","content":{"ok":true}}`, "accept", `{"ok":true}`, ""},
		{"no", `{"action":"decline"}`, "decline", "", ""},
		{"neither", `{"action":"cancel"}`, "cancel", "", ""},
		{"what there is not", `{"action":"maybe"}`, "", "", `"maybe"`},
		{"no action", `[]`, "", "", "cannot be read"},
	}
	p := newProxy(t, quick())
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			agent := &fakeAgent{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(row.answer), nil
			}}
			action, content, err := in(t, p, agent, "/").Elicit(t.Context(), "sure?", json.RawMessage(`{"type":"object"}`))
			if action != row.action || string(content) != row.content || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("got %s, %s, %v", action, content, err)
			}
			if got := agent.list(&agent.asked); got[0] != `elicitation/create {"message":"sure?","requestedSchema":{"type":"object"}}` {
				t.Errorf("asked %q", got)
			}
		})
	}
	t.Run("nobody to ask", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := in(t, p, nil, "/").Elicit(ctx, "sure?", nil); !errors.Is(err, ErrCannotAsk) {
			t.Errorf("got %v, want %v", err, ErrCannotAsk)
		}
	})
}
