package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
)

func TestServerThatDiesBeforeItAnswersIsQuoted(t *testing.T) {
	o := quick()
	o.backoffMin = time.Hour
	b := newBench(t)
	p := newProxy(t, o)
	good := b.server("good", fakeConfig{})
	bad := b.server("bad", fakeConfig{Complaint: "API key missing", ExitAt: "start", ExitCode: 1})
	s := open(t, p, good, bad)
	_, err := call(t, s, "bad", "echo", args{})
	wantCode(t, err, CodeServerFailed, "exit status 1", "API key missing", "tried again")
	if _, err := call(t, s, "good", "echo", args{}); err != nil {
		t.Errorf("another server: %v", err)
	}
}

func TestDeathDuringACallFailsEveryPendingCallAndSaysHow(t *testing.T) {
	rows := []struct {
		name, tool string
		arguments  args
		want       []string
	}{
		{"it exits", "exit", args{"code": 3}, []string{"exit status 3", "about to exit", "may or may not"}},
		{"it closes its stdout and stays", "shut", args{}, []string{"closed its stdout", "may or may not"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			o := quick()
			if row.tool == "shut" {
				o = briefDrain()
			}
			b, s := one(t, o, fakeConfig{Log: "log"})
			must(t, s, "echo", args{})
			other := make(chan error, 1)
			go func() {
				_, err := call(t, s, "fake", "hang", args{})
				other <- err
			}()
			eventually(t, "the server has a call", func() bool { return containsText(b.lines("log"), `"hang"`) })
			_, err := call(t, s, "fake", row.tool, row.arguments)
			wantCode(t, err, CodeOutcomeUnknown, row.want...)
			wantCode(t, next(t, other), CodeOutcomeUnknown, row.want[0])
			if got := must(t, s, "sleep_echo", args{"v": 1}); got != "1" {
				t.Errorf("the next call: got %s", got)
			}
			if !b.settles(1) {
				t.Errorf("processes: %v, want one", b.processes())
			}
			if st := s.proxy.Status()[0]; st.Restarts != 1 || st.State != StateStarted {
				t.Errorf("status: %+v", st)
			}
		})
	}
}

func TestSecretsOfADefinitionAreMaskedInWhatItsServerWrites(t *testing.T) {
	b := newBench(t)
	server := b.server("fake", fakeConfig{ExitAt: "start", Complaint: "bad key canary-secret-1"})
	server.Env["API_KEY"] = "canary-secret-1"
	p := newProxy(t, quick())
	s := open(t, p, server)
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "bad key [API_KEY]")
	if text := fmt.Sprint(err, p.Status()); strings.Contains(text, "canary") {
		t.Errorf("it is shown: %s", text)
	}
}

func TestAnyProtocolVersionIsTaken(t *testing.T) {
	rows := []struct{ name, version, refuse, want string }{
		{"an older one", "2024-11-05", "", "2024-11-05"},
		{"one that nobody knows", "2099-01-01", "", "2099-01-01"},
		{"none at all", "none", "", ""},
		{"one that it names when it refuses ours", "", "2025-11-25", "2025-03-26"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, s := one(t, quick(), fakeConfig{Version: row.version, Refuse: row.refuse})
			must(t, s, "echo", args{})
			for _, b := range s.proxy.list() {
				if got := b.up.version; got != row.want {
					t.Errorf("version: got %q, want %q", got, row.want)
				}
			}
		})
	}
}

func TestSlowStartDelaysNobodyElseAndGoesOnWhenItsCallersGiveUp(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	slow := b.server("slow", fakeConfig{InitDelay: 700, Starts: b.path("starts")})
	never := b.server("never", fakeConfig{NoInit: true})
	never.StartTimeout, never.CallTimeout = 3*time.Second, time.Second
	s := open(t, p, b.server("quick", fakeConfig{}), slow, never)
	dead := make(chan error, 1)
	go func() {
		_, err := call(t, s, "never", "echo", args{})
		dead <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := askCtx(ctx, t, s, "tools.call", args{"server": "slow", "tool": "echo"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller that gives up: got %v", err)
	}
	if _, err := call(t, s, "quick", "echo", args{}); err != nil {
		t.Errorf("another server: %v", err)
	}
	if _, err := call(t, s, "slow", "echo", args{}); err != nil {
		t.Errorf("the slow one: %v", err)
	}
	if n := len(b.lines("starts")); n != 1 {
		t.Errorf("the slow one was started %d times", n)
	}
	err = next(t, dead)
	wantCode(t, err, CodeTimeout, "not ready", "within the call's time limit of 1s (the server's definition)")
	eventually(t, "the dead one has failed", func() bool { return stateOf(p, "never") == StateFailed })
}

func stateOf(p *Proxy, name string) State {
	for _, st := range p.Status() {
		if st.Name == name {
			return st.State
		}
	}
	return ""
}

func TestCallThatMayHaveRunIsNeverMadeAgain(t *testing.T) {
	rows := []struct {
		name      string
		arguments args
		code      string
		says      string
	}{
		{"the server exits", args{"code": 1}, CodeOutcomeUnknown, "failed during the call of pay"},
		{"the server answers too late", args{"ms": 1500}, CodeTimeout, "within the call's time limit of 1s (servers.call_timeout)"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b, s := one(t, quick(), fakeConfig{})
			must(t, s, "echo", args{})
			row.arguments["file"] = b.path("paid")
			if row.code == CodeTimeout {
				limitCalls(s, time.Second)
			}
			_, err := call(t, s, "fake", "pay", row.arguments)
			limitCalls(s, time.Minute)
			wantCode(t, err, row.code, "had its effect", row.says)
			must(t, s, "echo", args{})
			if n := len(b.lines("paid")); n != 1 {
				t.Errorf("it was paid %d times", n)
			}
		})
	}
}

func TestCancellationReachesTheRightServerUnderItsOwnID(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	s := open(t, p, b.server("one", fakeConfig{Log: b.path("one")}), b.server("two", fakeConfig{Log: b.path("two")}))
	errs := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	for _, name := range []string{"one", "two"} {
		if _, err := call(t, s, name, "echo", args{}); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		_, err := askCtx(ctx, t, s, "tools.call", args{"server": "one", "tool": "late", "arguments": args{"v": "too late"}}) // is answered when it is canceled
		errs <- err
	}()
	other := make(chan json.RawMessage, 1)
	go func() {
		raw, err := call(t, s, "two", "sleep_echo", args{"ms": 500, "v": "other"})
		if err != nil {
			t.Error(err)
		}
		other <- raw
	}()
	eventually(t, "both are called", func() bool {
		return strings.Contains(strings.Join(b.lines("one"), ""), "too late") && strings.Contains(strings.Join(b.lines("two"), ""), "other")
	})
	cancel()
	if err := next(t, errs); !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled call: got %v", err)
	}
	for _, st := range p.Status() {
		if st.Errors != 0 || st.LastError != "" {
			t.Errorf("a call that was given up counts as the server's error: %+v", st)
		}
	}
	id := idOf(t, b.lines("one"), "too late")
	eventually(t, "the server is told", func() bool {
		lines := b.lines("one")
		last := lines[len(lines)-1]
		return strings.Contains(last, "notifications/cancelled") && strings.Contains(last, `"requestId":`+id)
	})
	if raw := next(t, other); textOf(t, raw) != `"other"` {
		t.Errorf("the other server's call: got %s", raw)
	}
	if raw, err := call(t, s, "one", "sleep_echo", args{"ms": 300, "v": "next"}); err != nil || textOf(t, raw) != `"next"` {
		t.Errorf("the call beside the late answer: got %s, %v", raw, err)
	}
	if strings.Contains(strings.Join(b.lines("two"), ""), "cancelled") {
		t.Error("the other server was told to cancel")
	}
}

// idOf returns the id of the request that contains text.
func idOf(t *testing.T, lines []string, text string) string {
	t.Helper()
	for _, line := range lines {
		var r fakeRequest
		if strings.Contains(line, text) && json.Unmarshal([]byte(line), &r) == nil {
			return string(r.ID)
		}
	}
	t.Fatalf("no request contains %s", text)
	return ""
}

func TestInitializeIsNeverCanceled(t *testing.T) {
	o := quick()
	o.StartTimeout = time.Second
	b := newBench(t)
	p := newProxy(t, o)
	s := open(t, p, b.server("fake", fakeConfig{NoInit: true, Log: b.path("log")}))
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "did not answer initialize")
	for _, line := range b.lines("log") {
		if !strings.Contains(line, `"initialize"`) {
			t.Errorf("the server got %s", line)
		}
	}
}

func TestServerThatExitsAfterEachAnswerIsStartedOnDemandOnly(t *testing.T) {
	b, s := one(t, quick(), fakeConfig{ExitAt: "answered"})
	for range 4 {
		raw, err := call(t, s, "fake", "echo", args{"v": 1})
		if err != nil || !strings.Contains(string(raw), `{"v":1}`) {
			t.Fatalf("got %s, %v", raw, err)
		}
		if !b.settles(0) {
			t.Fatal("a process runs while nobody calls")
		}
		eventually(t, "its end is noticed", func() bool { return stateOf(s.proxy, "fake") == StateStopped })
	}
	if st := s.proxy.Status()[0]; st.Restarts != 3 || st.Calls != 4 || st.Errors != 0 {
		t.Errorf("status: %+v", st)
	}
}

func TestServerThatExitsAtOnceFailsWithGrowingPauses(t *testing.T) {
	o := quick()
	o.backoffMin, o.backoffMax = 150*time.Millisecond, time.Hour
	b := newBench(t)
	p := newProxy(t, o)
	s := open(t, p, b.server("fake", fakeConfig{ExitAt: "initialized", ExitCode: 1, Starts: b.path("starts"), Complaint: "no licence"}))
	began := time.Now()
	eventually(t, "it is started three times", func() bool {
		if _, err := call(t, s, "fake", "echo", args{}); err == nil {
			t.Fatal("a call succeeded")
		}
		return len(b.lines("starts")) >= 3
	})
	if took := time.Since(began); took < 450*time.Millisecond {
		t.Errorf("three starts took %s, want pauses of 150ms and 300ms", took)
	}
	st := p.Status()[0]
	if st.State != StateFailed || !strings.Contains(st.LastError, "no licence") {
		t.Errorf("status: %+v", st)
	}
}

func TestParallelCallsNeitherWaitForNorSpoilEachOther(t *testing.T) {
	o := ruled(t, policy.Config{Rules: []policy.Rule{{Tools: []string{"hang"}, Timeout: 2 * time.Second}}})
	b := newBench(t)
	p := newProxy(t, o)
	server := b.server("fake", fakeConfig{Log: b.path("log")})
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := map[string]int{}
	for range 2 {
		s := open(t, p, server)
		for i := range 40 {
			wg.Go(func() {
				tool, arguments := "sleep_echo", args{"ms": 500 - 10*i, "v": i}
				switch i {
				case 7:
					tool = "refuse"
				case 9:
					tool = "hang"
				}
				raw, err := call(t, s, "fake", tool, arguments)
				if e, ok := errors.AsType[*Error](err); ok {
					mu.Lock()
					failed[e.Code]++
					mu.Unlock()
					return
				}
				if err != nil || textOf(t, raw) != fmt.Sprint(i) {
					t.Errorf("call %d: got %s, %v", i, raw, err)
				}
			})
		}
	}
	wg.Wait()
	if failed[CodeUpstream] != 2 || failed[CodeTimeout] != 2 || len(failed) != 2 {
		t.Errorf("failures: %v", failed)
	}
	for _, line := range b.lines("log") {
		if strings.HasPrefix(line, "BROKEN") {
			t.Errorf("the server could not read a line: %s", line)
		}
	}
}

func TestRequestsThatAreNoJSONAreRefused(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	for _, params := range []string{
		`{"server":"fake","tool":"echo","arguments":{"x":NaN}}`,
		`{"server":"fake","tool":"echo","arguments":[1]}`,
		`{"server":"fake","tool":"echo","arguments":"x"}`,
		`{"server":"fake","tool":3}`,
		`{"server":"fake"}`,
		`{"tool":"echo"}`,
		`[]`, `null`, `3`, `{`, `{} {}`,
	} {
		_, err := ask(t, s, "tools.call", json.RawMessage(params))
		wantCode(t, err, CodeBadRequest)
	}
	must(t, s, "echo", args{"x": 1})
}

func TestServerThatDoesNotReadFailsCallsWithinTheirTime(t *testing.T) {
	o := quick()
	o.CallTimeout = 1500 * time.Millisecond
	o.listTimeout = 500 * time.Millisecond
	_, s := one(t, o, fakeConfig{NoRead: true})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			_, err := call(t, s, "fake", "echo", args{"v": strings.Repeat("x", 200_000)})
			wantCode(t, err, CodeTimeout)
		})
	}
	wg.Wait()
}

func TestSessionsShareOneProcessForEachDefinition(t *testing.T) {
	b := newBench(t)
	o := quick()
	o.IdleTimeout = 500 * time.Millisecond
	p := newProxy(t, o)
	var servers []discovery.Server
	for i := range 5 {
		servers = append(servers, b.server(fmt.Sprintf("s%d", i), fakeConfig{Version: fmt.Sprint("v", i), Starts: b.path("starts")}))
	}
	var wg sync.WaitGroup
	var leave []func()
	for n := range 10 {
		s := open(t, p, servers...)
		for i := range servers {
			if n == 0 { // none is idle before all calls have been made
				_, done := s.use(s.look().target(s, i))
				leave = append(leave, done)
			}
		}
		for i := range 20 {
			wg.Go(func() {
				if _, err := call(t, s, servers[i%5].Name, "sleep_echo", args{"v": i}); err != nil {
					t.Errorf("call: %v", err)
				}
			})
		}
	}
	wg.Wait()
	for _, done := range leave {
		done()
	}
	if n := len(b.lines("starts")); n != 5 {
		t.Errorf("%d processes were started, want 5", n)
	}
	if !b.settles(0) {
		t.Errorf("idle servers run: %v", b.processes())
	}
	for _, st := range p.Status() {
		if st.State != StateStopped || st.LastError != "" {
			t.Errorf("after the idle time: %+v", st)
		}
	}
	checkNoZombies(t)
}

// checkNoZombies fails the test if the process has children that ended and
// were not reaped.
func checkNoZombies(t *testing.T) {
	t.Helper()
	eventually(t, "all children are reaped", func() bool {
		files, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
			if err == nil && fields[0] == "Z" && fields[1] == fmt.Sprint(os.Getpid()) {
				return false
			}
		}
		return true
	})
}

func TestAnotherEnvironmentIsAnotherProcess(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	server := b.server("fake", fakeConfig{})
	for _, lang := range []string{"C.UTF-8", "de_DE.UTF-8", "C.UTF-8"} {
		s := p.NewSession(SessionOptions{
			Servers: func() []discovery.Server { return []discovery.Server{server} }, Home: "/", Cwd: "/",
			Getenv: func(name string) (string, bool) {
				if name == "PATH" {
					return os.Getenv(name), true
				}
				return lang, name == "LANG"
			},
		})
		defer s.Close()
		if _, err := s.Load([]string{"fake"}); err != nil {
			t.Fatal(err)
		}
		raw, err := call(t, s, "fake", "env", args{})
		if err != nil || !strings.Contains(string(raw), `"LANG=`+lang+`"`) {
			t.Errorf("got %s, %v", raw, err)
		}
	}
	if n := len(b.processes()); n != 2 {
		t.Errorf("%d processes, want 2", n)
	}
}

func TestServerGetsWhatItNeedsAndNoSecretOfOurs(t *testing.T) {
	t.Setenv("DAEMON_SECRET", "canary")
	_, s := one(t, quick(), fakeConfig{})
	raw, err := call(t, s, "fake", "env", args{})
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		StructuredContent struct {
			Env []string `json:"env"`
		} `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	env := strings.Join(r.StructuredContent.Env, "\n")
	for _, want := range []string{"PATH=" + os.Getenv("PATH"), "HOME=", "PYTHONUTF8=1", "BRIDGED_DEPTH=1", "BENCH="} {
		if !strings.Contains(env, want) {
			t.Errorf("%s is missing in %s", want, env)
		}
	}
	if strings.Contains(env, "canary") {
		t.Error("the server got a secret of the daemon's")
	}
}

func TestPythonServerWritesUTF8WithoutALocale(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	script := b.path("server.py")
	text := `
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {}},
         "tools/list": {"tools": [{"name": "check"}]},
         "tools/call": {"content": [{"type": "text", "text": "\u2713"}]}}[m["method"]]
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}, ensure_ascii=False), flush=True)
`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := discovery.Server{Name: "fake", Transport: discovery.Stdio, Command: "python3", Args: []string{script}, Cwd: b.dir, Env: map[string]string{"BENCH": b.dir, "LANG": "", "LC_ALL": ""}}
	s := open(t, p, server)
	if got := must(t, s, "check", args{}); got != "\u2713" {
		t.Errorf("got %q", got)
	}
}

func TestHardCapStopsTheLongestUnusedServer(t *testing.T) {
	o := quick()
	o.MaxServers = 2
	b := newBench(t)
	p := newProxy(t, o)
	var servers []discovery.Server
	for i := range 4 {
		servers = append(servers, b.server(fmt.Sprint("s", i), fakeConfig{Version: fmt.Sprint(i)}))
	}
	s := open(t, p, servers...)
	for i := range 4 {
		if _, err := call(t, s, fmt.Sprint("s", i), "echo", args{}); err != nil {
			t.Fatal(err)
		}
		if n := len(b.processes()); n > 2 {
			t.Errorf("%d processes, and 2 are the cap", n)
		}
	}
	if got := []State{stateOf(p, "s0"), stateOf(p, "s1"), stateOf(p, "s2"), stateOf(p, "s3")}; got[0] != StateStopped || got[3] != StateStarted {
		t.Errorf("states: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, name := range []string{"s2", "s3"} {
		wg.Go(func() {
			_, err := askCtx(ctx, t, s, "tools.call", args{"server": name, "tool": "hang"})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
	eventually(t, "both are busy", func() bool { return pendingOf(s) == 2 })
	_, err := call(t, s, "s0", "echo", args{})
	wantCode(t, err, CodeBusy, "2 MCP servers")
	cancel()
	wg.Wait()
}
