package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
)

// ruled are quick options under rules.
func ruled(t *testing.T, c policy.Config) Options {
	t.Helper()
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	o := quick()
	o.Policy = p
	return o
}

// errorData is what the data of an error that a rule is the reason of says.
type errorData struct{ Server, Tool, Rule, Reason string }

func wantData(t *testing.T, err error, want errorData) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error: got %v (%T)", err, err)
	}
	var got errorData
	if err := json.Unmarshal(e.Data, &got); err != nil {
		t.Fatalf("data %s: %v", e.Data, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestADeniedCallStartsNothingAndSaysWhy(t *testing.T) {
	b := newBench(t)
	o := ruled(t, policy.Config{Rules: []policy.Rule{
		{Tools: []string{"echo"}, Arg: policy.Arg{Path: "path", Matches: "^/etc"}, Action: policy.Deny, Reason: "ask Eve first"},
		{Tools: []string{"big"}, Action: policy.Deny},
	}})
	s := open(t, newProxy(t, o), b.server("fake", fakeConfig{}))
	_, err := call(t, s, "fake", "echo", args{"path": "/etc/passwd"})
	wantCode(t, err, CodeDenied, "policy.rule 1 does not let echo on server fake be called with these arguments. ask Eve first. The call was not made.")
	wantData(t, err, errorData{"fake", "echo", "policy.rule 1", "ask Eve first"})
	_, err = call(t, s, "fake", "big", args{})
	wantCode(t, err, CodeDenied, "policy.rule 2 does not let big on server fake be called. The call was not made.")
	if n := len(b.processes()); n != 0 {
		t.Errorf("%d processes were started", n)
	}
	if _, err := call(t, s, "fake", "echo", args{"path": "/tmp"}); err != nil {
		t.Errorf("what no rule denies: %v", err)
	}
}

func TestAReadOnlyRuleBelievesNoMoreThanItHasTo(t *testing.T) {
	tools := []json.RawMessage{
		json.RawMessage(`{"name":"reads","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`),
		json.RawMessage(`{"name":"reads_denied","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`),
		json.RawMessage(`{"name":"writes","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`),
		json.RawMessage(`{"name":"says_yes","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"true"}}`),
		json.RawMessage(`{"name":"silent","inputSchema":{"type":"object"}}`),
	}
	_, s := one(t, ruled(t, policy.Config{Rules: []policy.Rule{
		{Action: policy.ReadOnly}, {Tools: []string{"*_denied"}, Action: policy.Deny},
	}}), fakeConfig{Tools: tools})
	if _, err := call(t, s, "fake", "reads", args{}); err != nil {
		t.Errorf("a tool that says that it reads: %v", err)
	}
	_, err := call(t, s, "fake", "reads_denied", args{})
	wantCode(t, err, CodeDenied, "policy.rule 2")
	for _, tool := range []string{"writes", "says_yes", "silent"} {
		_, err := call(t, s, "fake", tool, args{})
		wantCode(t, err, CodeDenied, "policy.rule 1 lets only those tools", "readOnlyHint")
	}
	_, err = call(t, s, "fake", "nothing", args{})
	wantCode(t, err, CodeUnknownTool)
}

func TestToolsThatAreDeniedAreShownByNameAlone(t *testing.T) {
	_, s := one(t, ruled(t, policy.Config{Rules: []policy.Rule{
		{Tools: []string{"echo"}, Action: policy.Deny},
		{Tools: []string{"big"}, When: "args.N > 10", Action: policy.Deny},
	}}), fakeConfig{})
	for method, params := range map[string]args{
		"tools.list": {"server": "fake"}, "docs.query": {"server": "fake"}, "docs.search": {"query": "the fake's echo", "limit": 50},
	} {
		raw, err := ask(t, s, method, params)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "the fake's echo") || !strings.Contains(string(raw), "the fake's big") {
			t.Errorf("%s: got %s", method, raw)
		}
		if said := strings.Contains(string(raw), "does not permit calls of this tool (policy.rule 1)"); said != (method != "docs.search") {
			t.Errorf("%s: says that it is denied: %v", method, said)
		}
	}
}

func TestRulesLimitCalls(t *testing.T) {
	_, s := one(t, ruled(t, policy.Config{Rules: []policy.Rule{
		{Tools: []string{"sleep_echo"}, Timeout: 50 * time.Millisecond},
		{Tools: []string{"big"}, MaxResult: 200},
		{Tools: []string{"raw"}, Rate: policy.Rate{Calls: 1, Per: time.Hour}},
	}}), fakeConfig{})
	_, err := call(t, s, "fake", "sleep_echo", args{"MS": 20000, "V": 1})
	wantCode(t, err, CodeTimeout, "within the call's time limit of 50ms (policy.rule 1)")
	if got := must(t, s, "big", args{"N": 50}); len(got) != 50 {
		t.Errorf("a small result: got %d bytes", len(got))
	}
	_, err = call(t, s, "fake", "big", args{"N": 500})
	wantCode(t, err, CodeTooLarge, "policy.rule 2 lets through 200. The call was made.")
	wantData(t, err, errorData{"fake", "big", "policy.rule 2", ""})
	answer := args{"Raw": `{"jsonrpc":"2.0","id":ID,"result":{}}`}
	if _, err := call(t, s, "fake", "raw", answer); err != nil {
		t.Fatal(err)
	}
	_, err = call(t, s, "fake", "raw", answer)
	wantCode(t, err, CodeBusy, "policy.rule 3 lets raw on server fake be called 1/h", "was not made", "again")
	wantData(t, err, errorData{"fake", "raw", "policy.rule 3", ""})
}

func TestARulesConcurrencyHoldsForAllSessions(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, ruled(t, policy.Config{Rules: []policy.Rule{{Concurrency: 2}}}))
	server := b.server("fake", fakeConfig{})
	sessions := []*Session{open(t, p, server), open(t, p, server)}
	var calls sync.WaitGroup
	var mu sync.Mutex
	var most, now int
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		now += n
		most = max(most, now)
	}
	for i := range 12 {
		calls.Go(func() {
			s := sessions[i%2]
			c, err := s.newCall(json.RawMessage(`{"server":"fake","tool":"sleep_echo","arguments":{"MS":5,"V":1}}`))
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.admit(t.Context()); err != nil {
				t.Error(err)
				return
			}
			count(1)
			time.Sleep(5 * time.Millisecond)
			count(-1)
			_, _ = c.settle(nil, nil)
		})
	}
	calls.Wait()
	if most != 2 {
		t.Errorf("%d calls at once, want 2", most)
	}
}

func TestWhatASessionHasReadDoesNotFlow(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, ruled(t, policy.Config{Flows: []policy.Flow{{From: []string{"private-*"}, To: []string{"web-*"}, Reason: "personal data"}}}))
	private, web := b.server("private-crm", fakeConfig{}), b.server("web-search", fakeConfig{})
	s := open(t, p, private, web)
	if _, err := call(t, s, "web-search", "echo", args{}); err != nil {
		t.Fatalf("before anything was read: %v", err)
	}
	_, err := call(t, s, "private-crm", "refuse", args{}) // an error says something too
	wantCode(t, err, CodeUpstream)
	_, err = call(t, s, "web-search", "echo", args{})
	wantCode(t, err, CodeDenied, "policy.flow 1", "server private-crm (tool refuse)", "server web-search", "personal data.", "another session")
	wantData(t, err, errorData{"web-search", "echo", "policy.flow 1", "personal data"})
	c, err := s.newCall(json.RawMessage(`{"server":"private-crm","tool":"echo"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.make(t.Context()); err != nil || !slices.Equal(c.read, []string{"private-crm", "web-search"}) {
		t.Errorf("a call knows %v as read, %v", c.read, err)
	}
	if _, err := call(t, open(t, p, private, web), "web-search", "echo", args{}); err != nil {
		t.Errorf("another session: %v", err)
	}
	s.Forget()
	if _, err := call(t, s, "web-search", "echo", args{}); err != nil {
		t.Errorf("after a reset: %v", err)
	}
}

func TestASessionsBudgetEnds(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, ruled(t, policy.Config{Budget: policy.Budget{Calls: 2}}))
	s := open(t, p, b.server("fake", fakeConfig{}))
	for i := range 2 {
		if _, err := call(t, s, "fake", "echo", args{}); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeDenied, "used up", "policy.budget_calls", "2 calls")
	if _, err := call(t, open(t, p, b.server("fake", fakeConfig{})), "fake", "echo", args{}); err != nil {
		t.Errorf("another session: %v", err)
	}
}

func TestRulesKnowTheClientAndTheProject(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, ruled(t, policy.Config{Rules: []policy.Rule{
		{Clients: []string{"trusted*"}, Projects: []string{"/work/*"}, Action: policy.Allow}, {Action: policy.Deny},
	}}))
	s := open(t, p, b.server("fake", fakeConfig{}))
	for _, row := range []struct {
		client, project string
		want            bool
	}{{"trusted 1", "/work/a/b", true}, {"other", "/work/a", false}, {"trusted", "/home", false}} {
		s.opts.Client, s.project = func() string { return row.client }, row.project
		if _, err := call(t, s, "fake", "echo", args{}); (err == nil) != row.want {
			t.Errorf("%v: got %v", fmt.Sprint(row), err)
		}
	}
}

func TestRulesHoldForResourcesAndPrompts(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, ruled(t, policy.Config{
		Rules: []policy.Rule{
			{Tools: []string{"resources/read"}, Arg: policy.Arg{Path: "uri", Matches: "^secret:"}, Action: policy.Deny},
			{Tools: []string{"prompts/*"}, Action: policy.Deny},
			{Tools: []string{"resources/*"}, Action: policy.ReadOnly}, // they only read
		},
		Flows: []policy.Flow{{From: []string{"fake"}, To: []string{"web"}}},
	}))
	s := open(t, p, b.server("fake", fakeConfig{Capabilities: everything, Listed: []string{`{"resources":[]}`}}), b.server("web", fakeConfig{}))
	for _, row := range []struct {
		method string
		params args
		want   string
	}{
		{"resources.read", args{"uri": "secret:1"}, "policy.rule 1 does not let resources/read on server fake be called with these arguments"},
		{"prompts.get", args{"name": "x"}, "policy.rule 2 does not let prompts/get on server fake be called."},
		{"prompts.list", args{}, "policy.rule 2"},
	} {
		row.params["server"] = "fake"
		_, err := ask(t, s, row.method, row.params)
		wantCode(t, err, CodeDenied, row.want)
	}
	if _, err := call(t, s, "web", "echo", args{}); err != nil {
		t.Errorf("before anything was read: %v", err)
	}
	if _, err := ask(t, s, "resources.list", args{"server": "fake"}); err != nil {
		t.Errorf("what no rule denies: %v", err)
	}
	_, err := call(t, s, "web", "echo", args{})
	wantCode(t, err, CodeDenied, "policy.flow 1", "server fake (tool resources/list)")
}

func TestARuleKeepsCodeFromLoadingAServer(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, ruled(t, policy.Config{Default: policy.Deny, Rules: []policy.Rule{
		{Servers: []string{"private"}, Tools: []string{"servers/load"}, Action: policy.Deny},
	}}))
	servers := []discovery.Server{b.server("private", fakeConfig{}), b.server("web", fakeConfig{})}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }, Home: "/", Cwd: "/"})
	defer s.Close()
	_, err := ask(t, s, "servers.load", args{"names": []string{"web", "private"}})
	wantCode(t, err, CodeDenied, "policy.rule 1 does not let code load server private.")
	if l := s.Loaded(); len(l) != 0 {
		t.Errorf("loaded: %v", l)
	}
	if _, err := ask(t, s, "servers.load", args{"names": []string{"web"}}); err != nil {
		t.Errorf("what no rule denies: %v", err)
	}
	if _, err := s.Load([]string{"private"}); err != nil {
		t.Errorf("the agent itself: %v", err)
	}
}
