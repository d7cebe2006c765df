package proxy

import (
	"context"
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
)

func TestOnlyLoadedServersCanBeCalled(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	servers := []discovery.Server{b.server("git-hub", fakeConfig{}), b.server("other", fakeConfig{})}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }, Home: "/", Cwd: "/"})
	defer s.Close()
	_, err := call(t, s, "git-hub", "echo", args{})
	wantCode(t, err, CodeNotAvailable, `Server git-hub is not available. Pass servers=["git-hub"] to run_python to load it.`)
	if n := len(b.processes()); n != 0 {
		t.Errorf("%d processes were started", n)
	}
	_, err = call(t, s, "githab", "echo", args{})
	wantCode(t, err, CodeNotAvailable, "Server githab is not available. Did you mean git-hub?")
	loaded, err := s.Load([]string{"git_hub"})
	if diff := cmp.Diff([]Loaded{{"git-hub", "git_hub"}}, loaded); err != nil || diff != "" {
		t.Errorf("Load by alias: %v, %s", err, diff)
	}
	for _, name := range []string{"git-hub", "git_hub"} {
		if _, err := call(t, s, name, "echo", args{}); err != nil {
			t.Errorf("calling %s: %v", name, err)
		}
	}
	_, err = call(t, s, "other", "echo", args{})
	wantCode(t, err, CodeNotAvailable)
	servers = servers[1:]
	_, err = call(t, s, "git-hub", "echo", args{})
	wantCode(t, err, CodeNotAvailable)
	if l := s.Loaded(); len(l) != 0 {
		t.Errorf("a server that is gone is loaded: %v", l)
	}
}

func TestLoadOfWrongNamesLoadsNothingAndNamesThem(t *testing.T) {
	p := newProxy(t, quick())
	web := discovery.Server{Name: "web", Transport: discovery.Websocket, URL: "ws://127.0.0.1:1"}
	files := discovery.Server{Name: "files", Transport: discovery.Stdio, Command: "sh"}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return []discovery.Server{files, web} }})
	defer s.Close()
	_, err := s.Load([]string{"files", "fils", "zzz", "web"})
	wantCode(t, err, CodeNotAvailable, "Server fils is not available. Did you mean files?",
		"Server zzz is not available. There are: files, web.", "Server web is not available. It is reached by websocket", "http or https")
	if l := s.Loaded(); len(l) != 0 {
		t.Errorf("loaded: %v", l)
	}
}

func TestAllPagesOfToolsAreRead(t *testing.T) {
	var first, second []string
	for i := range 14 {
		first = append(first, fmt.Sprint("a", i))
	}
	for i := range 17 {
		second = append(second, fmt.Sprint("b", i))
	}
	pages := [][]string{first, {}, second, {"last"}}
	rows := []struct {
		name    string
		config  fakeConfig
		tools   int
		warning string
	}{
		{"all", fakeConfig{Pages: pages}, 32, ""},
		{"a cursor that repeats", fakeConfig{Pages: pages, Cursor: "again"}, 28, "repeats cursor"},
		{"a page that fails", fakeConfig{Pages: pages, FailAt: 3}, 14, "page 3 failed"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, s := one(t, quick(), row.config)
			var r struct {
				Tools []json.RawMessage `json:"tools"`
			}
			raw, err := ask(t, s, "tools.list", args{"server": "fake"})
			if err != nil || json.Unmarshal(raw, &r) != nil {
				t.Fatalf("got %s, %v", raw, err)
			}
			if st := s.proxy.Status()[0]; !strings.Contains(st.Warning, row.warning) || row.warning == "" && st.Warning != "" {
				t.Errorf("warning: %q", st.Warning)
			}
			want := row.tools
			if row.config.Cursor != "" {
				want = 14 // the page came twice; a name counts once
			}
			if len(r.Tools) != want {
				t.Errorf("%d tools, want %d", len(r.Tools), want)
			}
			if row.config.FailAt == 0 && row.config.Cursor == "" {
				if _, err := call(t, s, "fake", "last", args{}); err != nil {
					t.Errorf("a tool of the last page: %v", err)
				}
				return
			}
			if _, err := call(t, s, "fake", "unlisted", args{}); err != nil {
				t.Errorf("a tool that may be on a page that was not read: %v", err)
			}
		})
	}
}

func TestToolsThatChangeDuringACallAreSeenByTheNextWithFewLists(t *testing.T) {
	for name, capabilities := range map[string]string{"it says that it tells": `{"tools":{"listChanged":true}}`, "it does not say so": `{"tools":{}}`} {
		t.Run(name, func(t *testing.T) { toolsChange(t, capabilities) })
	}
}

func toolsChange(t *testing.T, capabilities string) {
	b := newBench(t)
	s := open(t, newProxy(t, quick()), b.server("fake", fakeConfig{Log: b.path("log"), Capabilities: capabilities}))
	_, err := call(t, s, "fake", "secret", args{})
	wantCode(t, err, CodeUnknownTool)
	if got := must(t, s, "unlock", args{"n": 500}); got != "unlocked" {
		t.Errorf("got %q", got)
	}
	must(t, s, "secret", args{})
	if docs := docsOf(t, s, args{"server": "fake", "tool": "secret"}); len(docs) != 1 {
		t.Errorf("docs: %v", docs)
	}
	if n := strings.Count(strings.Join(b.lines("log"), "\n"), "tools/list"); n < 2 || n > 5 {
		t.Errorf("%d lists for 500 notifications", n)
	}
}

func TestOddToolsAreReachableByTheirExactNames(t *testing.T) {
	names := []string{"get-item", "get_item", "get.item", "a/b", "class", "None", "1st", "日本語", "__init__", strings.Repeat("n", 128), "good"}
	tools := fakeList(names)
	tools = append(tools,
		json.RawMessage(`{"name":"any","inputSchema":{"anyOf":[{"type":"object"},{"type":"string"}]}}`),
		json.RawMessage(`{"name":"bare"}`),
		json.RawMessage(`{"name":"typo","inputSchema":{"type":"object","properties":{"p":{"type":"strng"}},"required":["q"]}}`),
		json.RawMessage(`{"name":"tree","inputSchema":{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/n"}}}}}}}`),
		json.RawMessage(`{"name":"far","inputSchema":{"$ref":"http://127.0.0.1:1/x"}}`),
		json.RawMessage(`{"name":"args","inputSchema":{"type":"object","properties":{"from":{},"self":{},"x-y":{},"ctx":{}}}}`),
		json.RawMessage(`{"noname":1}`), json.RawMessage(`7`),
	)
	aliases := map[string]string{}
	for _, order := range []string{"in one order", "in the other"} {
		t.Run(order, func(t *testing.T) { checkOddTools(t, tools, aliases) })
		slices.Reverse(tools)
	}
}

func checkOddTools(t *testing.T, tools []json.RawMessage, aliases map[string]string) {
	_, s := one(t, quick(), fakeConfig{Tools: tools})
	docs := docsOf(t, s, args{"server": "fake"})
	if len(docs) != len(tools)-2 {
		t.Errorf("%d docs of %d tools", len(docs), len(tools)-2)
	}
	seen := map[string]bool{}
	for _, d := range docs {
		if before, ok := aliases[d.Tool]; ok && before != d.ToolAlias || seen[d.ToolAlias] {
			t.Errorf("alias of %s: %s, before %s", d.Tool, d.ToolAlias, before)
		}
		aliases[d.Tool], seen[d.ToolAlias] = d.ToolAlias, true
		if _, err := call(t, s, "fake", d.Tool, args{}); err != nil {
			t.Errorf("calling %s: %v", d.Tool, err)
		}
		if d.Tool == "args" && d.Odd["x_y"] != "x-y" {
			t.Errorf("aliases of parameters: %v", d.Odd)
		}
	}
	if st := s.proxy.Status()[0]; !strings.Contains(st.Warning, "no name") {
		t.Errorf("warning: %q", st.Warning)
	}
}

func docsOf(t *testing.T, s *Session, params any) []doc {
	t.Helper()
	raw, err := ask(t, s, "docs.query", params)
	if err != nil {
		t.Fatalf("docs.query: %v", err)
	}
	var r struct {
		Docs []doc `json:"docs"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r.Docs
}

func TestToolThatIsNotThereIsRefusedWithTheNearest(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	_, err := call(t, s, "fake", "sleep-ecoh", args{})
	wantCode(t, err, CodeUnknownTool, "Server fake has no tool sleep-ecoh. Did you mean sleep_echo?")
	_, err = ask(t, s, "docs.query", args{"server": "fake", "tool": "nope"})
	wantCode(t, err, CodeUnknownTool, "nope", "echo")
}

func TestToolsThatTheConfigurationForbidsAreNeitherShownNorCalled(t *testing.T) {
	b := newBench(t)
	server := b.server("fake", fakeConfig{})
	server.Tools = discovery.Filter{Deny: []string{"pay"}}
	s := open(t, newProxy(t, quick()), server)
	_, err := call(t, s, "fake", "pay", args{})
	wantCode(t, err, CodeUnknownTool, "switched off")
	raw, err := ask(t, s, "tools.list", args{"server": "fake"})
	if err != nil || strings.Contains(string(raw), `"pay"`) || !strings.Contains(string(raw), `"echo"`) {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestServerWhoseToolsCannotBeListedCanBeCalled(t *testing.T) {
	o := quick()
	o.listTimeout = 300 * time.Millisecond
	bench := newBench(t)
	s := open(t, newProxy(t, o), bench.server("fake", fakeConfig{NoList: true, Log: bench.path("log")}))
	must(t, s, "echo", args{})
	for _, b := range s.proxy.list() {
		b.mu.Lock()
		b.shelf.at = time.Time{} // long ago
		b.mu.Unlock()
	}
	must(t, s, "echo", args{})
	if n := strings.Count(strings.Join(bench.lines("log"), "\n"), "tools/list"); n != 1 {
		t.Errorf("calls waited for %d lists, want 1", n)
	}
	_, err := ask(t, s, "tools.list", args{"server": "fake"})
	wantCode(t, err, CodeTimeout, "did not list its tools")
}

func TestServersListShowsEverythingWithoutStartingAnything(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	web := discovery.Server{Name: "web", Transport: discovery.Websocket, URL: "ws://127.0.0.1:1"}
	bad := b.server("bad", fakeConfig{ExitAt: "start", ExitCode: 1})
	servers := []discovery.Server{web, b.server("a-b", fakeConfig{}), bad}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }, Home: "/", Cwd: "/"})
	defer s.Close()
	rows := listServers(t, s)
	want := []serverRow{
		{Name: "a-b", Alias: "a_b", Description: "a fake", Transport: "stdio", State: "configured", Source: b.path("config.json") + " (mcpServers.a-b)"},
		{Name: "bad", Alias: "bad", Description: "a fake", Transport: "stdio", State: "configured", Source: b.path("config.json") + " (mcpServers.bad)"},
		{Name: "web", Alias: "web", Transport: "websocket", State: "configured", Problem: "Server web is not available. It is reached by websocket, which bridged does not speak: give it an http or https URL, if it has one."},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("before any use (-want +got):\n%s", diff)
	}
	if n := len(b.processes()); n != 0 {
		t.Errorf("%d processes were started", n)
	}
	if _, err := s.Load([]string{"a_b", "bad"}); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, s, "a-b", "echo", args{}); err != nil {
		t.Fatal(err)
	}
	_, err := call(t, s, "bad", "echo", args{})
	wantCode(t, err, CodeServerFailed)
	n := len(fakeTools)
	want[0].State, want[0].Tools, want[0].Loaded = "used", &n, true
	want[1].Loaded = true
	rows = listServers(t, s)
	if !strings.Contains(rows[1].Problem, "exit status 1") {
		t.Errorf("problem: %q", rows[1].Problem)
	}
	rows[1].Problem = ""
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("after use (-want +got):\n%s", diff)
	}
}

func listServers(t *testing.T, s *Session) []serverRow {
	t.Helper()
	raw, err := ask(t, s, "servers.list", args{})
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Servers []serverRow `json:"servers"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r.Servers
}

func TestSearchCoversEveryServerAndNamesThoseItCouldNotSearch(t *testing.T) {
	o := quick()
	o.SearchWait = 2 * time.Second
	b := newBench(t)
	p := newProxy(t, o)
	issue := json.RawMessage(`{"name":"create-issue","description":"Open a new issue","inputSchema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]},"outputSchema":{"type":"object"}}`)
	mail := json.RawMessage(`{"name":"send_mail","description":"Send a message","inputSchema":{"type":"object"}}`)
	servers := []discovery.Server{
		b.server("tracker", fakeConfig{Tools: []json.RawMessage{issue}}), b.server("post", fakeConfig{Tools: []json.RawMessage{mail}}),
		b.server("dead", fakeConfig{ExitAt: "start", Complaint: "no key"}), b.server("slow", fakeConfig{NoInit: true}),
		{Name: "web", Transport: discovery.HTTP},
	}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }, Home: "/", Cwd: "/"})
	defer s.Close()
	var r struct {
		Results    []doc `json:"results"`
		Incomplete []gap `json:"incomplete"`
	}
	reasons := map[string]string{}
	var raw json.RawMessage
	eventually(t, "all but one have told what they have", func() bool { // those that need longer are named until then
		var err error
		if raw, err = ask(t, s, "docs.search", args{"query": "create an issue", "limit": 3, "detail": "full"}); err != nil {
			t.Fatal(err)
		}
		r.Results, r.Incomplete = nil, nil
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		clear(reasons)
		for _, g := range r.Incomplete {
			reasons[g.Server] = g.Reason
		}
		return len(reasons) <= 3 && !strings.Contains(reasons["dead"], "still")
	})
	if len(r.Results) == 0 || r.Results[0].Server != "tracker" || r.Results[0].ToolAlias != "create_issue" || r.Results[0].Score == nil {
		t.Fatalf("results: %s", raw)
	}
	if d := r.Results[0]; !strings.Contains(string(d.InputSchema), "title") || string(d.OutputSchema) != `{"type":"object"}` || !strings.Contains(d.Signature, "create_issue(title: str)") {
		t.Errorf("result: %+v", d)
	}
	if len(reasons) != 3 || !strings.Contains(reasons["dead"], "no key") || !strings.Contains(reasons["slow"], "still") || !strings.Contains(reasons["web"], "url is not valid") {
		t.Errorf("incomplete: %v", reasons)
	}
	servers = servers[:2]
	raw, err := ask(t, s, "docs.search", args{"query": "issue", "explain": true})
	if err != nil || !strings.Contains(string(raw), `"why":["issu in name`) {
		t.Errorf("an explained search: %s, %v", raw, err)
	}
	raw, err = ask(t, s, "docs.search", args{"query": "issue"})
	if err != nil || strings.Contains(string(raw), "inputSchema") || strings.Contains(string(raw), "why") {
		t.Errorf("a summary: %s, %v", raw, err)
	}
}

func TestWrongRequestsSayWhatIsWrong(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	rows := []struct {
		method, params, code, text string
	}{
		{"tools.cal", `{}`, CodeBadRequest, "tools.call"},
		{"tools.list", `{"server":""}`, CodeBadRequest, "server"},
		{"tools.list", `{"server":"nope"}`, CodeNotAvailable, "Server nope is not available. There are: fake."},
		{"docs.query", `{"server":"fake","detail":"all"}`, CodeBadRequest, `"summary" or "full"`},
		{"docs.search", `{"query":"x","limit":0}`, CodeBadRequest, "limit"},
		{"docs.search", `{"query":7}`, CodeBadRequest, "query"},
		{"servers.list", `[]`, CodeBadRequest, "servers.list"},
		{"servers.list", `"` + strings.Repeat("x", maxParams) + `"`, CodeTooLarge, "bytes"},
	}
	for _, row := range rows {
		_, err := ask(t, s, row.method, json.RawMessage(row.params))
		wantCode(t, err, row.code, row.text)
	}
}

func TestSessionBoundsWhatIsUnderWay(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	must(t, s, "echo", args{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range maxInFlight + maxWaiting {
		wg.Go(func() {
			_, err := askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "hang"})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
	eventually(t, "the session is full", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting == maxWaiting && len(s.turns) == maxInFlight
	})
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeBusy, "256")
	cancel()
	wg.Wait()
	must(t, s, "echo", args{})
}

func TestClosedSessionEndsItsCallsAndKeepsTheServer(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	server := b.server("fake", fakeConfig{})
	s, other := open(t, p, server), open(t, p, server)
	done := make(chan error, 1)
	go func() {
		_, err := call(t, s, "fake", "hang", args{})
		done <- err
	}()
	eventually(t, "the call waits", func() bool { return pendingOf(s) == 1 })
	s.Close()
	if err := next(t, done); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want %v", err, ErrClosed)
	}
	if _, err := call(t, s, "fake", "echo", args{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: got %v, want %v", err, ErrClosed)
	}
	must(t, other, "echo", args{})
	if n := len(b.processes()); n != 1 {
		t.Errorf("%d processes", n)
	}
}

func TestAnswersOfTheProxyItselfAreCappedToo(t *testing.T) {
	o := quick()
	o.MaxMessage = 100 << 10
	pages := make([][]string, 3)
	for i := range pages {
		for j := range 500 {
			pages[i] = append(pages[i], fmt.Sprintf("tool_%d_%d", i, j))
		}
	}
	_, s := one(t, o, fakeConfig{Pages: pages})
	_, err := ask(t, s, "docs.query", args{"server": "fake", "detail": "full"})
	wantCode(t, err, CodeTooLarge, "for one tool")
	if docs := docsOf(t, s, args{"server": "fake", "tool": "tool_2_499"}); len(docs) != 1 {
		t.Errorf("docs: %v", docs)
	}
}

func TestDefinitionsThatNobodyUsesAreForgottenWithTheirTools(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	s := open(t, p, b.server("one", fakeConfig{}), b.server("two", fakeConfig{Version: "x", ExitAt: "answered"}), b.server("three", fakeConfig{Version: "y"}))
	for _, name := range []string{"one", "two", "three"} {
		if _, err := call(t, s, name, "echo", args{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "one of them has ended", func() bool { return stateOf(p, "two") == StateStopped })
	eventually(t, "it is forgotten", func() bool { // when its end has been taken in
		p.mu.Lock()
		p.forgetLocked(0)
		p.mu.Unlock()
		return stateOf(p, "two") == ""
	})
	if got := []State{stateOf(p, "one"), stateOf(p, "two"), stateOf(p, "three")}; got[0] != StateStarted || got[1] != "" || got[2] != StateStarted {
		t.Errorf("states: %q", got)
	}
	rows := listServers(t, s)
	if at := slices.IndexFunc(rows, func(r serverRow) bool { return r.Name == "two" }); rows[at].State != "configured" || rows[at].Tools != nil {
		t.Errorf("the forgotten one: %+v", rows[at])
	}
	if _, err := call(t, s, "two", "echo", args{}); err != nil {
		t.Errorf("using it again: %v", err)
	}
}

func TestDefinitionWithoutItsVariableSaysWhich(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/.mcp.json", `{"mcpServers":{"db":{"command":"sh","env":{"TOKEN":"${NO_SUCH_TOKEN}"}}}}`)
	servers := discovery.Load(discovery.Options{Cwd: dir}).Servers
	s := newProxy(t, quick()).NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }})
	defer s.Close()
	_, err := s.Load([]string{"db"})
	wantCode(t, err, CodeNotAvailable, "db", "NO_SUCH_TOKEN")
}
