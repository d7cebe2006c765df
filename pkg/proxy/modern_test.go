package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestServersWithoutInitializeAreSpokenWith(t *testing.T) {
	for _, how := range []string{"named", "unknown"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t)
			agent := accepts()
			s := in(t, newProxy(t, quick()), agent, "/work", b.server("fake", fakeConfig{Modern: how, Log: b.path("log")}))
			got, err := call(t, s, "fake", "echo", json.RawMessage(`{"z":9007199254740993,"a":1.0}`))
			if err != nil || !strings.Contains(string(got), `{"z":9007199254740993,"a":1.0}`) {
				t.Fatalf("got %s, %v", got, err)
			}
			got, err = ask(t, s, "server.info", args{"server": "fake"})
			want := `{"name":"fake","version":"2","protocolVersion":"2026-07-28","capabilities":{"tools":{},"prompts":{}}}`
			if err != nil || string(got) != want {
				t.Errorf("server.info: got %s, %v, want %s", got, err, want)
			}
			log := strings.Join(b.lines("log"), "\n")
			if strings.Contains(log, "notifications/initialized") {
				t.Errorf("it was told of a handshake that there is not: %s", log)
			}
			eventually(t, "it is listened to", func() bool {
				return strings.Contains(strings.Join(b.lines("log"), "\n"), `"method":"subscriptions/listen"`)
			})
		})
	}
}

func TestAServerThatWantsSomethingFirstIsAnsweredAndAskedAgain(t *testing.T) {
	b := newBench(t)
	agent := accepts()
	tools := fakeList([]string{"inquire", "forever"})
	s := in(t, newProxy(t, quick()), agent, "/work", b.server("fake", fakeConfig{Modern: "named", Tools: tools}))
	got, err := call(t, s, "fake", "inquire", args{"x": 1})
	want := `"got":{"a":{"roots":[{"name":"work","uri":"file:///work"}]},"b":{"action":"accept","content":{"n":9007199254740993}}},"state":{"n":9007199254740993}}`
	if err != nil || !strings.Contains(string(got), want) {
		t.Errorf("got %s, %v, want %s in it", got, err, want)
	}
	if asked := agent.list(&agent.asked); len(asked) != 1 || asked[0] != `elicitation/create {"message":"fake: which?"}` {
		t.Errorf("asked %q", asked)
	}
	_, err = call(t, s, "fake", "forever", args{})
	wantCode(t, err, CodeUpstream, "asked 10 times for more")
	agent.answer = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return nil, errors.Join(ErrCannotAsk)
	}
	_, err = call(t, s, "fake", "inquire", args{})
	wantCode(t, err, CodeUpstream, "needs an answer to elicitation/create", "cannot be asked")
}

func TestAServerOfAVersionThatNobodyKnowsSaysWhich(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{Modern: "other"})
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "[2031-01-01]")
}

func taskTools() []json.RawMessage {
	return []json.RawMessage{json.RawMessage(`{"name":"slow_task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`)}
}

const withTasks = `{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`

func TestAToolThatIsATaskIsAskedAboutUntilItIsDone(t *testing.T) {
	for _, end := range []string{"completed", "failed", "input_required"} {
		t.Run(end, func(t *testing.T) {
			b := newBench(t)
			agent := accepts()
			s := in(t, newProxy(t, quick()), agent, b.dir, b.server("fake", fakeConfig{Capabilities: withTasks, Tools: taskTools(), TaskEnd: end}))
			if got := must(t, s, "slow_task", args{}); got != "done" {
				t.Errorf("got %q", got)
			}
			if notes := agent.list(&agent.notes); len(notes) < 2 || notes[0] != "fake.slow_task: step 1" {
				t.Errorf("notes: got %q", notes)
			}
		})
	}
}

func TestATaskThatItsServerCancelsIsAnError(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{Capabilities: withTasks, Tools: taskTools(), TaskEnd: "cancelled"})
	_, err := call(t, s, "fake", "slow_task", args{})
	wantCode(t, err, CodeUpstream, "has cancelled the task of slow_task", "step")
}

func TestATaskIsCancelledWithItsCall(t *testing.T) {
	b := newBench(t)
	s := open(t, newProxy(t, quick()), b.server("fake", fakeConfig{Capabilities: withTasks, Tools: taskTools(), Log: b.path("log")}))
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "slow_task"})
		over <- err
	}()
	has := func(text string) func() bool {
		return func() bool { return strings.Contains(strings.Join(b.lines("log"), "\n"), text) }
	}
	eventually(t, "it is asked about", has(`"method":"tasks/get"`))
	cancel()
	if err := next(t, over); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	eventually(t, "it is cancelled", has(`"method":"tasks/cancel","params":{"taskId":"t 1"}`))
}

func TestATaskOfAServerThatHasNoneIsCalledPlainly(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{Tools: taskTools()})
	_, err := call(t, s, "fake", "slow_task", args{})
	wantCode(t, err, CodeUpstream, "only as a task")
}

func TestServersOfEveryVersionWithAHandshakeAreTaken(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			_, s := one(t, quick(), fakeConfig{Version: version, Capabilities: everything, Listed: []string{`{"resources":[1],"prompts":[1]}`}})
			must(t, s, "echo", args{})
			for _, method := range []string{"resources.list", "prompts.list", "server.info"} {
				got, err := ask(t, s, method, args{"server": "fake"})
				if err != nil || method == "server.info" && !strings.Contains(string(got), `"protocolVersion":"`+version+`"`) {
					t.Errorf("%s: got %s, %v", method, got, err)
				}
			}
		})
	}
}
