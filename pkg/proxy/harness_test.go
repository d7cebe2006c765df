package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy/oauthtest"
)

// hang is how long a test waits for what should come at once.
const hang = 2 * time.Minute

// quick are options under which failures show early. What a server that has
// ended said last is waited for as long as a slow machine takes, except where a
// test has something hold the streams open: see briefDrain.
func quick() Options {
	return Options{
		StartTimeout: time.Minute, CallTimeout: time.Minute, SearchWait: time.Minute,
		eofGrace: 300 * time.Millisecond, termGrace: 200 * time.Millisecond, drainGrace: time.Minute,
		backoffMin: 10 * time.Millisecond, backoffMax: 50 * time.Millisecond,
	}
}

// briefDrain are quick options for servers whose streams do not end with them,
// or that end a stream and stay: no end of a wait for that will come.
func briefDrain() Options {
	o := quick()
	o.drainGrace = defaultDrainGrace
	return o
}

// limitCalls gives calls so much time from now on. None may be under way. Tests
// start their servers before it, which takes what it takes.
func limitCalls(s *Session, limit time.Duration) { s.proxy.opts.CallTimeout = limit }

// newProxy returns a proxy that is closed at the end of the test, which fails
// if anything is left of it then.
func newProxy(t *testing.T, o Options) *Proxy {
	t.Helper()
	p := New(o)
	t.Cleanup(func() {
		closeProxy(t, p)
		checkGoroutines(t)
	})
	return p
}

func closeProxy(t *testing.T, p *Proxy) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// checkGoroutines fails the test if goroutines of the package are left.
func checkGoroutines(t *testing.T) {
	t.Helper()
	var left string
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		left = ""
		buf := make([]byte, 1<<20)
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "pkg/proxy.(*") && !strings.Contains(g, "testing.tRunner") {
				left += g + "\n\n"
			}
		}
		if left == "" {
			return
		}
	}
	t.Errorf("goroutines are left:\n%s", left)
}

// A bench is a folder with servers that are told apart from other tests'.
type bench struct {
	t   *testing.T
	dir string
}

// newBench must come before newProxy: at the end of the test it checks that no
// process is left.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		if !b.settles(0) {
			t.Errorf("processes are left: %v", b.processes())
		}
	})
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// server returns the definition of a fake.
func (b *bench) server(name string, c fakeConfig) discovery.Server {
	b.t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		b.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	return discovery.Server{
		Name: name, Transport: discovery.Stdio, Command: exe, Cwd: b.dir, Description: "a fake",
		Env: map[string]string{
			fakeVar: string(text), "BENCH": b.dir,
			"GORACE": "atexit_sleep_ms=0", // else a fake under -race takes a second to end
		},
		Sources: []discovery.Source{{Path: b.path("config.json"), Key: "mcpServers." + name}},
	}
}

// processes returns the live processes that belong to the test.
func (b *bench) processes() []string {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		b.t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(env), "BENCH="+b.dir+"\x00") {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

// settles waits until there are n processes.
func (b *bench) settles(n int) bool {
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if len(b.processes()) == n {
			return true
		}
	}
	return false
}

// kill ends the processes that belong to the test.
func (b *bench) kill() {
	b.t.Helper()
	for _, text := range b.processes() {
		pid, err := strconv.Atoi(text)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			b.t.Error(err)
		}
	}
}

// lines returns the lines of a file of the bench.
func (b *bench) lines(name string) []string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// open returns a session that has loaded the servers.
func open(t *testing.T, p *Proxy, servers ...discovery.Server) *Session {
	t.Helper()
	s := p.NewSession(SessionOptions{
		Servers: func() []discovery.Server { return servers },
		Getenv:  os.LookupEnv, Home: "/", Cwd: "/",
	})
	t.Cleanup(s.Close)
	var names []string
	for _, server := range servers {
		if server.Transport == discovery.Stdio {
			names = append(names, server.Name)
		}
	}
	if _, err := s.Load(names); err != nil {
		t.Fatalf("Load: %v", err)
	}
	return s
}

// openServers returns definitions as a session wants them.
func openServers(servers ...discovery.Server) func() []discovery.Server {
	return func() []discovery.Server { return servers }
}

// one returns a session with one fake called fake.
func one(t *testing.T, o Options, c fakeConfig) (*bench, *Session) {
	t.Helper()
	b := newBench(t)
	return b, open(t, newProxy(t, o), b.server("fake", c))
}

// ask makes one request of a session.
func ask(t *testing.T, s *Session, method string, params any) (json.RawMessage, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
	defer cancel()
	return askCtx(ctx, t, s, method, params)
}

func askCtx(ctx context.Context, t *testing.T, s *Session, method string, params any) (json.RawMessage, error) {
	t.Helper()
	raw, ok := params.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			t.Fatal(err)
		}
	}
	return s.Call(ctx, method, raw)
}

type args = map[string]any

// call calls a tool.
func call(t *testing.T, s *Session, server, tool string, arguments any) (json.RawMessage, error) {
	t.Helper()
	return ask(t, s, "tools.call", args{"server": server, "tool": tool, "arguments": arguments})
}

// must calls a tool of fake and returns its first text.
func must(t *testing.T, s *Session, tool string, arguments any) string {
	t.Helper()
	raw, err := call(t, s, "fake", tool, arguments)
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	return textOf(t, raw)
}

func textOf(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("reading result: %v", err)
	}
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// wantCode checks that err is an Error with the code and the texts.
func wantCode(t *testing.T, err error, code string, texts ...string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error: got %v (%T), want an *Error with code %s", err, err, code)
	}
	if e.Code != code {
		t.Errorf("code: got %s, want %s (%s)", e.Code, code, e.Message)
	}
	for _, text := range texts {
		if !strings.Contains(e.Message, text) {
			t.Errorf("message: got %q, want %q in it", e.Message, text)
		}
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("did not happen: %s", what)
}

// next returns what comes next from a channel, or the zero value when it is
// closed, and ends the test if nothing comes.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(hang):
		t.Fatal("nothing comes")
	}
	panic("not reached")
}

// listen serves h until the test has ended what it opened after it.
func listen(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv, end := oauthtest.Unstarted(h)
	t.Cleanup(end)
	srv.Start()
	return srv
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
