package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/discovery"
)

// secret is a header's value that nobody may see.
const secret = "Bearer s3cret-token-value"

func secretHeader(s *discovery.Server) { s.Headers = map[string]string{"Authorization": secret} }

// trap is another host, which must get nothing.
func trap(t *testing.T) (address string, hits *atomic.Int64) {
	t.Helper()
	hits = &atomic.Int64{}
	srv := listen(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	return srv.URL, hits
}

func TestEventStreamThatPointsToAnotherHostIsRefused(t *testing.T) {
	other, hits := trap(t)
	f := (&httpFake{Legacy: true, Endpoint: other + "/message"}).start(t)
	s := remoteSession(t, f, quick(), secretHeader)
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "another host")
	if n := hits.Load(); n > 0 {
		t.Errorf("the other host got %d requests", n)
	}
}

func TestRedirectsAreFollowedOnTheSameHostOnly(t *testing.T) {
	other, hits := trap(t)
	for name, row := range map[string]struct {
		to     string
		status int
		ok     bool
	}{
		"to another path, with the body":    {"/elsewhere", http.StatusTemporaryRedirect, true},
		"to another host":                   {other, http.StatusTemporaryRedirect, false},
		"to another path, without the body": {"/elsewhere", http.StatusFound, false},
		"in a circle":                       {"/mcp", http.StatusPermanentRedirect, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := (&httpFake{}).start(t)
			srv := listen(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/mcp" {
					http.Redirect(w, r, row.to, row.status)
					return
				}
				f.serve(w, r)
			})
			s := remoteSession(t, f, quick(), func(d *discovery.Server) {
				secretHeader(d)
				d.URL = srv.URL + "/mcp"
			})
			_, err := call(t, s, "fake", "echo", args{})
			if row.ok && err != nil {
				t.Fatal(err)
			}
			if !row.ok {
				wantCode(t, err, CodeServerFailed, "redirect", "url")
			}
			if got := f.last("initialize"); row.ok && got.Get("Authorization") != secret {
				t.Errorf("headers behind the redirect: %v", got)
			}
		})
	}
	if n := hits.Load(); n > 0 {
		t.Errorf("the other host got %d requests", n)
	}
}

func TestForgottenSessionIsBegunAgainAndTheCallSentOnceMore(t *testing.T) {
	f := (&httpFake{}).start(t)
	s := remoteSession(t, f, quick(), nil)
	for range 2 {
		must(t, s, "echo", args{})
	}
	f.restart()
	must(t, s, "echo", args{})
	must(t, s, "echo", args{})
	want := []string{
		"initialize", "notifications/initialized", "tools/list", "tools/call echo", "tools/call echo",
		"tools/call echo", "initialize", "notifications/initialized", "tools/list", "tools/call echo", "tools/call echo",
	}
	got := []string{}
	for _, what := range f.asked() {
		if what != "GET" && what != "DELETE" {
			got = append(got, what)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestServerThatForgetsEverySessionIsGivenUp(t *testing.T) {
	f := (&httpFake{}).start(t)
	s := remoteSession(t, f, quick(), func(d *discovery.Server) { d.Transport = discovery.Auto })
	must(t, s, "echo", args{})
	f.mu.Lock()
	f.Status = map[string]int{"tools/call": http.StatusNotFound}
	f.mu.Unlock()
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "no longer knows our session", "was not made")
	if n := f.count("initialize"); n != 2 {
		t.Errorf("initialize: got %d, want 2", n)
	}
	f.mu.Lock()
	f.Status = map[string]int{"initialize": http.StatusNotFound, "tools/call": http.StatusNotFound}
	f.mu.Unlock()
	f.restart()
	_, err = call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "404")
	if n := f.count("initialize"); n > 4 {
		t.Errorf("initialize: got %d", n)
	}
	f.mu.Lock() // the proxy may still be taking its leave
	defer f.mu.Unlock()
	for _, h := range f.headers {
		if h.Get("Accept") == "text/event-stream" && h.Get("Cache-Control") != "" {
			t.Error("the older transport was tried")
		}
	}
}

func TestServersThatCallAForgottenSessionABadRequestAreKnown(t *testing.T) {
	f := (&httpFake{}).start(t)
	forgotten := true
	f.Act = func(_ string, w http.ResponseWriter, r *http.Request) bool {
		if !forgotten || r.Header.Get("Mcp-Session-Id") != "s1" {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)
		return true
	}
	s := remoteSession(t, f, quick(), nil)
	must(t, s, "echo", args{})
	if n := f.count("initialize"); n != 2 {
		t.Errorf("initialize: got %d, want 2", n)
	}
}

func TestOptionalStreamThatFailsHurtsNoCall(t *testing.T) {
	for name, row := range map[string]struct {
		f    *httpFake
		most int // attempts to open the stream
	}{
		"405":                    {&httpFake{Gets: []int{405}}, 1},
		"404":                    {&httpFake{Gets: []int{404}}, 1},
		"406":                    {&httpFake{Gets: []int{406}}, 1},
		"500 for ever":           {&httpFake{Gets: []int{500}}, maxListens + 1},
		"500, then 404":          {&httpFake{Gets: []int{500, 0, 404}, Get: "close"}, 3},
		"it closes at once":      {&httpFake{Gets: []int{0}, Get: "close"}, maxListens + 1},
		"it sends empty events":  {&httpFake{Gets: []int{0}, Get: "ping"}, 1},
		"it stays open, silent":  {&httpFake{Gets: []int{0}}, 1},
		"it is answered no form": {&httpFake{Gets: []int{204}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := quick()
			o.listenPause = 20 * time.Millisecond
			f := row.f.start(t)
			s := remoteSession(t, f, o, nil)
			for range 40 {
				must(t, s, "echo", args{})
				time.Sleep(5 * time.Millisecond)
			}
			if n := f.count("initialize"); n != 1 {
				t.Errorf("initialize: got %d, want 1", n)
			}
			eventually(t, "the stream is asked for", func() bool { return f.count("GET") > 0 })
			if n := f.count("GET"); n > row.most {
				t.Errorf("attempts to open the stream: got %d, want at most %d", n, row.most)
			}
		})
	}
}

func TestVersionsOfRemoteServersAreAgreedOn(t *testing.T) {
	for name, row := range map[string]struct {
		f    *httpFake
		want string // the header afterwards
		asks int
	}{
		"an older one":                  {&httpFake{Version: "2025-03-26"}, "2025-03-26", 1},
		"one of the future":             {&httpFake{Version: "2099-01-01"}, "2099-01-01", 1},
		"none":                          {&httpFake{Version: "none"}, "", 1},
		"400 that names one":            {&httpFake{Versions: []string{"2025-06-18"}}, "2025-06-18", 2},
		"400 with words only":           {&httpFake{Versions: []string{"2025-03-26", "of its own"}}, "2025-03-26", 2},
		"no text that a header can say": {&httpFake{Version: "a b"}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := row.f.start(t)
			s := remoteSession(t, f, quick(), nil)
			must(t, s, "echo", args{})
			if got := f.last("tools/call echo").Get("Mcp-Protocol-Version"); got != row.want {
				t.Errorf("header: got %q, want %q", got, row.want)
			}
			if got := f.last("initialize").Get("Mcp-Protocol-Version"); got != "" {
				t.Errorf("header of initialize: got %q, want none", got)
			}
			if f.last("tools/call echo").Get("Mcp-Session-Id") == "" {
				t.Error("the call named no session")
			}
			if n := f.count("initialize"); n != row.asks {
				t.Errorf("initialize: got %d, want %d", n, row.asks)
			}
		})
	}
}

// pay is a tool that acts and then fails to say so.
func pay(t *testing.T, f *httpFake, how func(http.ResponseWriter)) (paid func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "paid")
	f.Act = func(name string, w http.ResponseWriter, _ *http.Request) bool {
		if name != "pay" {
			return false
		}
		(&fake{}).note(file, "paid")
		how(w)
		return true
	}
	return func() int {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "paid")
	}
}

func TestCallThatMayHaveActedIsNeverSentAgain(t *testing.T) {
	for name, how := range map[string]func(http.ResponseWriter){
		"the connection is closed without an answer": func(w http.ResponseWriter) { hijack(w, "") },
		"the answer is 503":                          func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"the answer is 504 of a gateway":             func(w http.ResponseWriter) { w.WriteHeader(http.StatusGatewayTimeout) },
		"the answer is cut": func(w http.ResponseWriter) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\"")
		},
		"the events end without an answer": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") },
		"the answer has another id": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"result":{}}`)
		},
		"the answer is a page": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<html>Please log in</html>`)
		},
		"the answer is empty":    func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
		"the answer is not HTTP": func(w http.ResponseWriter) { hijack(w, "hello\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, legacy bool) {
				if legacy && (strings.Contains(name, "events") || strings.Contains(name, "id") || strings.Contains(name, "page") || strings.Contains(name, "empty")) {
					return // what answers a message is none of its answer
				}
				f := &httpFake{Legacy: legacy}
				paid := pay(t, f, how)
				s := remoteSession(t, f.start(t), quick(), nil)
				_, err := call(t, s, "fake", "pay", args{})
				wantCode(t, err, CodeOutcomeUnknown, "may or may not")
				must(t, s, "echo", args{})
				if n := paid(); n != 1 {
					t.Errorf("paid %d times, want once", n)
				}
				if n := f.count("initialize"); n != 1 {
					t.Errorf("initialize: got %d, want 1: the connection was good", n)
				}
			})
		})
	}
}

// hijack writes raw bytes in place of an answer, and closes the connection.
func hijack(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, text)
	_ = conn.Close()
}

func TestCallThatIsRefusedWasNotMade(t *testing.T) {
	for status, texts := range map[int][]string{
		http.StatusBadRequest:      {"400", "no such account"},
		http.StatusTooManyRequests: {"429", "wait 30 s"},
		http.StatusForbidden:       {"403"},
		http.StatusConflict:        {"409"},
	} {
		both(t, func(t *testing.T, legacy bool) {
			f := &httpFake{Legacy: legacy, Act: func(name string, w http.ResponseWriter, _ *http.Request) bool {
				if name != "pay" {
					return false
				}
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "no such account")
				return true
			}}
			s := remoteSession(t, f.start(t), quick(), nil)
			_, err := call(t, s, "fake", "pay", args{})
			wantCode(t, err, CodeServerFailed, texts...)
			if n := f.count("tools/call pay"); n != 1 {
				t.Errorf("asked %d times, want once", n)
			}
			must(t, s, "echo", args{})
		})
	}
}

func TestErrorBesideAStatusIsTheServersAnswer(t *testing.T) {
	f := (&httpFake{Status: map[string]int{"tools/call": 422}, Type: "application/json",
		Body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"not today","data":{"big":12345678901234567890,"z":1,"a":2}}}`}).start(t)
	s := remoteSession(t, f, quick(), nil)
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeUpstream, "not today")
	e, _ := errors.AsType[*Error](err)
	if got := string(e.Data); !strings.Contains(got, `{"big":12345678901234567890,"z":1,"a":2}`) {
		t.Errorf("data: %s", got)
	}
}

func TestServerThatCannotBeReachedWasNotCalled(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		f := (&httpFake{Legacy: legacy}).start(t)
		s := remoteSession(t, f, quick(), func(d *discovery.Server) {
			d.URL = "http://user:s3cret-pass@127.0.0.1:1/mcp?key=s3cret-key"
		})
		_, err := call(t, s, "fake", "echo", args{})
		wantCode(t, err, CodeServerFailed, "connection refused")
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error tells a secret: %v", err)
		}
	})
}

func TestAnswerOverTheCapFailsOneCall(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("as one JSON text: %v", whole), func(t *testing.T) {
				o := quick()
				o.MaxMessage = 1 << 20
				f := (&httpFake{Legacy: legacy, JSON: whole}).start(t)
				s := remoteSession(t, f, o, nil)
				_, err := call(t, s, "fake", "big", args{"N": 3 << 20})
				wantCode(t, err, CodeTooLarge, "1 MiB")
				must(t, s, "echo", args{})
				if n := f.count("initialize"); n != 1 {
					t.Errorf("initialize: got %d, want 1", n)
				}
			})
		}
	})
}

func TestCredentialsThatAreRefusedAreNamedAndNotShown(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		change func(*discovery.Server)
		code   string
		texts  []string
	}{
		"a header's variable": {401, func(d *discovery.Server) {
			d.Headers = map[string]string{"X-Key": "a1b2c3d4-value", "Authorization": "Bearer tok3n-of-mine"}
		}, CodeServerFailed, []string{"header Authorization", "header X-Key"}},
		"what the url holds": {401, func(d *discovery.Server) { d.URL = strings.Replace(d.URL, "//", "//me:a1b2c3d4-value@", 1) }, CodeServerFailed, []string{"url"}},
		"a key of its own":   {401, func(d *discovery.Server) { d.Headers = map[string]string{"X-Key": "a1b2c3d4-value"} }, CodeNotAvailable, []string{"header X-Key", "bridged login fake"}},
		"nothing":            {401, nil, CodeNotAvailable, []string{"bridged login fake"}},
		"too little":         {403, nil, CodeNotAvailable, []string{"bridged login fake", "write:all"}},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, legacy bool) {
				f := (&httpFake{Legacy: legacy, Body: "bad token a1b2c3d4-value, tok3n-of-mine", Header: http.Header{
					"Www-Authenticate": {`Bearer realm="x", error="insufficient_scope", scope="read write:all"`},
				}, Status: map[string]int{"initialize": row.status}}).start(t)
				o := quick()
				o.TokenDir = t.TempDir()
				s := remoteSession(t, f, o, row.change)
				_, err := call(t, s, "fake", "echo", args{})
				wantCode(t, err, row.code, row.texts...)
				status := fmt.Sprintf("%+v", s.proxy.Status())
				for _, text := range []string{err.Error(), status} {
					if strings.Contains(text, "a1b2c3d4-value") || row.change != nil && strings.Contains(name, "header") && strings.Contains(text, "tok3n") {
						t.Errorf("a secret is told: %s", text)
					}
				}
			})
		})
	}
}

func TestVariablesOfHeadersAreNamedWhenTheyAreWrong(t *testing.T) {
	got := credentials(discovery.Server{Headers: map[string]string{"Authorization": "Bearer ${MY_TOKEN}", "X-Team": "blue"}})
	if want := "header Authorization (its value comes from MY_TOKEN), header X-Team"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAutoFallsBackToTheOlderTransportOnlyWhenToldTo(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		older  bool
		code   string
	}{
		"404":                          {404, "Cannot POST /mcp", true, ""},
		"405":                          {405, "", true, ""},
		"400":                          {400, "bad", true, ""},
		"401":                          {401, "", false, CodeServerFailed},
		"403":                          {403, "", false, CodeServerFailed},
		"429":                          {429, "", false, CodeServerFailed},
		"500":                          {500, "", false, CodeServerFailed},
		"400 that is a JSON-RPC error": {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad client"}}`, false, CodeServerFailed},
	} {
		t.Run(name, func(t *testing.T) {
			f := (&httpFake{Legacy: true}).start(t)
			srv := listen(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && r.URL.Path == "/mcp" {
					w.WriteHeader(row.status)
					_, _ = io.WriteString(w, row.body)
					return
				}
				f.serve(w, r)
			})
			s := remoteSession(t, f, quick(), func(d *discovery.Server) { d.URL, d.Transport = srv.URL+"/mcp", discovery.Auto })
			_, err := call(t, s, "fake", "echo", args{})
			if row.older && err != nil {
				t.Fatal(err)
			}
			if !row.older {
				wantCode(t, err, row.code)
			}
			if got := f.count("GET") > 0; got != row.older {
				t.Errorf("the older transport was tried: %v, want %v", got, row.older)
			}
		})
	}
}

func TestAutoSaysWhatBothTransportsGot(t *testing.T) {
	srv := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.WriteHeader(http.StatusGone)
	})
	f := (&httpFake{}).start(t)
	s := remoteSession(t, f, quick(), func(d *discovery.Server) { d.URL, d.Transport = srv.URL, discovery.Auto })
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "405", "410", "neither")
}

func TestCancelledCallIsToldToTheServer(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		entered := make(chan struct{})
		f := &httpFake{Legacy: legacy}
		f.Act = func(name string, w http.ResponseWriter, r *http.Request) bool {
			if name != "drop" {
				return false
			}
			if legacy {
				w.WriteHeader(http.StatusAccepted)
			}
			close(entered)
			if !legacy {
				<-r.Context().Done()
			}
			return true
		}
		s := remoteSession(t, f.start(t), quick(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-entered
			cancel()
		}()
		if _, err := askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "drop"}); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want that it was canceled", err)
		}
		eventually(t, "the server is told", func() bool { return f.count("notifications/cancelled") == 1 })
		must(t, s, "echo", args{})
	})
}

func TestRemoteServersAskTheAgentAndTellProgress(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		f := &httpFake{Legacy: legacy}
		f.Act = func(name string, w http.ResponseWriter, r *http.Request) bool {
			if name != "ask" {
				return false
			}
			f.mu.Lock()
			token := f.token
			f.mu.Unlock()
			f.say(w, r, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1,"total":2}}`)
			var got []string
			for _, text := range []string{
				`{"jsonrpc":"2.0","id":1002,"method":"ping"}`, // our own call has that id
				`{"jsonrpc":"2.0","id":"a","method":"x/unknown","params":{}}`, elicitation,
			} {
				f.say(w, r, text)
				select {
				case reply := <-f.replies:
					got = append(got, string(reply))
				case <-r.Context().Done():
				}
			}
			if legacy {
				w.WriteHeader(http.StatusAccepted)
			}
			f.say(w, r, `{"jsonrpc":"2.0","id":1002,"result":`+textResult(strings.Join(got, "\n"))+`}`)
			return true
		}
		agent := accepts()
		kind := discovery.HTTP
		if legacy {
			kind = discovery.SSE
		}
		f.start(t)
		s := in(t, newProxy(t, quick()), agent, "/", f.server(kind))
		got := strings.Split(must(t, s, "ask", args{}), "\n")
		want := []string{
			`{"jsonrpc":"2.0","id":1002,"result":{}}`,
			`{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"this client does not serve x/unknown"}}`,
			`{"jsonrpc":"2.0","id":1000,"result":{"action":"accept","content":{"n":9007199254740993}}}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if notes := agent.list(&agent.notes); len(notes) != 1 || notes[0] != "fake.ask: 1/2" {
			t.Errorf("progress: got %q", notes)
		}
	})
}

func TestEventStreamThatEndsFailsItsCallsAndIsOpenedAgain(t *testing.T) {
	f := &httpFake{Legacy: true}
	f.Act = func(name string, w http.ResponseWriter, _ *http.Request) bool {
		if name != "drop" {
			return false
		}
		w.WriteHeader(http.StatusAccepted)
		flush(w)
		f.hangUp()
		return true
	}
	s := remoteSession(t, f.start(t), quick(), nil)
	must(t, s, "echo", args{})
	_, err := call(t, s, "fake", "drop", args{})
	wantCode(t, err, CodeOutcomeUnknown, "event stream ended")
	must(t, s, "echo", args{})
	if n := f.count("tools/call drop"); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

func TestSessionIsEndedWithTheServersStop(t *testing.T) {
	f := (&httpFake{}).start(t)
	o := quick()
	o.IdleTimeout = 50 * time.Millisecond
	s := remoteSession(t, f, o, nil)
	must(t, s, "echo", args{})
	eventually(t, "the session is ended", func() bool { return f.count("DELETE") == 1 })
	if got := f.last("DELETE").Get("Mcp-Session-Id"); got != "s1" {
		t.Errorf("session: got %q, want s1", got)
	}
	must(t, s, "echo", args{})
}

func TestAgentsProxyIsUsed(t *testing.T) {
	f := (&httpFake{}).start(t)
	var through atomic.Int64
	proxy := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host == "mcp.example" {
			through.Add(1)
		}
		f.serve(w, r)
	})
	server := f.server(discovery.HTTP)
	server.URL = "http://mcp.example/mcp"
	env := map[string]string{"http_proxy": proxy.URL}
	s := newProxy(t, quick()).NewSession(SessionOptions{
		Servers: func() []discovery.Server { return []discovery.Server{server} },
		Getenv: func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		},
	})
	t.Cleanup(s.Close)
	if _, err := s.Load([]string{"fake"}); err != nil {
		t.Fatal(err)
	}
	must(t, s, "echo", args{})
	if through.Load() == 0 {
		t.Error("nothing went through the proxy")
	}
}

func TestStreamThatEndsBeforeTheAnswerIsGoneOnWith(t *testing.T) {
	f := &httpFake{}
	f.Act = func(name string, w http.ResponseWriter, _ *http.Request) bool {
		if name != "drop" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		f.raw(w, "id: 7\nretry: 10\ndata:\n\n")
		return true
	}
	f.start(t)
	srv := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "7" {
			w.Header().Set("Content-Type", "text/event-stream")
			f.event(w, `{"jsonrpc":"2.0","id":1002,"result":`+textResult("late")+`}`)
			return
		}
		f.serve(w, r)
	})
	s := remoteSession(t, f, quick(), func(d *discovery.Server) { d.URL = srv.URL + "/mcp" })
	if got := must(t, s, "drop", args{}); got != "late" {
		t.Errorf("got %q, want late", got)
	}
}

func TestHeadersOfDefinitionsGoAlongButNotOverTheProtocols(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		f := (&httpFake{Legacy: legacy}).start(t)
		s := remoteSession(t, f, quick(), func(d *discovery.Server) {
			d.Headers = map[string]string{"X-Key": "k", "accept": "text/plain", "mcp-session-id": "evil", "Content-Type": "text/plain", "user-agent": "me"}
		})
		must(t, s, "echo", args{})
		h := f.last("tools/call echo")
		if h.Get("X-Key") != "k" || h.Get("User-Agent") != "me" || h.Get("Content-Type") != "application/json" || h.Get("Mcp-Session-Id") == "evil" {
			t.Errorf("headers: %v", h)
		}
	})
}

func TestEndpointsThatCannotBeReachedAreRefusedAtOnce(t *testing.T) {
	store := &tokenStore{}
	for text, want := range map[string]string{
		"https://": "not valid", "ftp://x/y": "only http and https", "http:x": "not valid", "::": "not valid",
	} {
		_, err := newEndpoint(discovery.Server{}, discovery.Server{URL: text}, store, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	_, err := newEndpoint(discovery.Server{}, discovery.Server{URL: "http://x/", Headers: map[string]string{"A": "b\r\nc: d"}}, store, "")
	if err == nil || !strings.Contains(err.Error(), "header A") {
		t.Errorf("a line break in a header: got %v", err)
	}
}

func TestHeadersGoToTheUrlsHostAlone(t *testing.T) {
	e := func(text string) *endpoint {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return &endpoint{url: u}
	}
	for _, row := range []struct {
		at, to string
		want   bool
	}{
		{"https://a/x", "https://a/y", true},
		{"https://a/x", "http://a/x", false},
		{"http://a/x", "https://a/x", true},
		{"http://a/x", "https://a:444/x", false},
		{"http://a:80/x", "http://a:81/x", false},
		{"https://a/x", "https://a.b/x", false},
	} {
		if got := e(row.at).covers(e(row.to).url); got != row.want {
			t.Errorf("from %s to %s: got %v, want %v", row.at, row.to, got, row.want)
		}
	}
}

func TestNamesAreQuotedWhereAPersonIsAskedToTypeThem(t *testing.T) {
	for name, want := range map[string]string{
		"git-hub.v2": "git-hub.v2", "my server": "'my server'", "x; rm -rf ~": "'x; rm -rf ~'", "a'b": `'a'\''b'`, "-f": "'-f'", "": "''", "a\x1b[31m": "'a[31m'",
	} {
		if got := shellWord(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}
