package ops

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const testToken = "0123456789abcdef0123456789abcdef"

// guarded is a guard over a handler that says what it was asked.
func guarded() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "inside: %s %s", r.Method, r.URL.Path) })
	return Guard(mux, testToken)
}

func TestTheGuardLetsInWhoHasTheToken(t *testing.T) {
	h := guarded()
	for _, row := range []struct {
		name, method, target, host string
		headers                    []string
		code                       int
		say                        string
	}{
		{"the token", "GET", "/status", "127.0.0.1:7070", []string{"Authorization", "Bearer " + testToken}, 200, "inside: GET /status"},
		{"the scheme in small letters", "GET", "/status", "[::1]:7070", []string{"Authorization", "bearer  " + testToken + " "}, 200, "inside"},
		{"a name of this machine", "GET", "/status", "Bridged.localhost", []string{"Authorization", "Bearer " + testToken}, 200, "inside"},
		{"a change by a program", "POST", "/approvals/X", "localhost:7070", []string{"Authorization", "Bearer " + testToken}, 200, "inside: POST"},
		{"a cookie", "GET", "/", "localhost:7070", []string{"Cookie", loginCookie + "=" + cookieFor(testToken)}, 200, "inside"},
		{"a change by our own page", "POST", "/approvals/X", "localhost:7070", []string{"Cookie", loginCookie + "=" + cookieFor(testToken), "Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:7070"}, 200, "inside"},
		{"health, for anybody", "GET", "/healthz", "127.0.0.1:7070", nil, 200, "inside"},

		{"nothing", "GET", "/status", "127.0.0.1:7070", nil, 401, "Authorization: Bearer TOKEN"},
		{"readiness", "GET", "/readyz", "127.0.0.1:7070", nil, 401, ""},
		{"another token", "GET", "/status", "127.0.0.1:7070", []string{"Authorization", "Bearer " + testToken + "0"}, 401, ""},
		{"the start of the token", "GET", "/status", "127.0.0.1:7070", []string{"Authorization", "Bearer 0"}, 401, ""},
		{"no token", "GET", "/status", "127.0.0.1:7070", []string{"Authorization", "Bearer "}, 401, ""},
		{"another scheme", "GET", "/status", "127.0.0.1:7070", []string{"Authorization", "Basic " + testToken}, 401, ""},
		{"the token as a cookie", "GET", "/", "127.0.0.1:7070", []string{"Cookie", loginCookie + "=" + testToken}, 401, ""},
		{"the token elsewhere", "GET", "/status?token=" + testToken, "127.0.0.1:7070", nil, 401, ""},
		{"a browser", "GET", "/", "127.0.0.1:7070", []string{"Accept", "text/html,*/*"}, 401, `<form method="post" action="/login"`},
		{"a name that leads here", "GET", "/status", "evil.example:7070", []string{"Authorization", "Bearer " + testToken}, 421, `no server for "evil.example:7070"`},
		{"one that begins like ours", "GET", "/healthz", "localhost.evil.example", nil, 421, ""},
		{"another machine's address", "GET", "/healthz", "192.168.0.1:7070", nil, 421, ""},
		{"a change by another page", "POST", "/approvals/X", "localhost:7070", []string{"Cookie", loginCookie + "=" + cookieFor(testToken), "Sec-Fetch-Site", "cross-site"}, 403, ""},
		{"a change by a page on another port", "POST", "/approvals/X", "localhost:7070", []string{"Cookie", loginCookie + "=" + cookieFor(testToken), "Sec-Fetch-Site", "same-site", "Origin", "http://localhost:1"}, 403, ""},
		{"the same in an old browser", "POST", "/approvals/X", "localhost:7070", []string{"Cookie", loginCookie + "=" + cookieFor(testToken), "Origin", "http://localhost:1"}, 403, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := httptest.NewRequest(row.method, row.target, nil)
			r.Host = row.host
			for i := 0; i < len(row.headers); i += 2 {
				r.Header.Set(row.headers[i], row.headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != row.code || !strings.Contains(w.Body.String(), row.say) || row.code != 200 && strings.Contains(w.Body.String(), "inside") {
				t.Errorf("got %d %q, want %d with %q", w.Code, w.Body, row.code, row.say)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("headers: %v", w.Header())
			}
		})
	}
}

func TestABrowserLogsIn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := ListenLoopback(ctx, "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, guarded()) }()
	base := "http://" + ln.Addr().String()
	for name, login := range map[string]func(c *http.Client, token string) (*http.Response, error){
		"by the form": func(c *http.Client, token string) (*http.Response, error) {
			return c.PostForm(base+"/login", url.Values{"token": {token}})
		},
		"by the address": func(c *http.Client, token string) (*http.Response, error) {
			return c.Get(base + "/?token=" + token)
		},
	} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{Jar: jar, Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := login(c, "wrong")
		if err != nil || resp.StatusCode != http.StatusUnauthorized || len(resp.Cookies()) > 0 {
			t.Errorf("%s with a wrong token: %+v, %v", name, resp, err)
		}
		resp.Body.Close()
		resp, err = login(c, testToken)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Request.URL.String() != base+"/" {
			t.Errorf("%s: %+v, %v", name, resp, err)
		}
		resp.Body.Close()
		resp, err = c.Get(base + "/events")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s, then: %+v, %v", name, resp, err)
		}
		resp.Body.Close()
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestTheCookieIsForTheBrowserAlone(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/?token="+testToken, nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	guarded().ServeHTTP(w, r)
	c := w.Result().Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Domain != "" || strings.Contains(c[0].String(), testToken) {
		t.Errorf("cookies: %v", c)
	}
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

func TestOnlyAddressesOfThisMachine(t *testing.T) {
	for _, good := range []string{"127.0.0.1:7070", "127.1.2.3:0", "[::1]:7070", "localhost:7070"} {
		if err := CheckLoopback(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "7070", ":7070", "0.0.0.0:7070", "[::]:7070", "192.168.0.1:7070", "example.com:7070", "127.0.0.1", "[::ffff:192.168.0.1]:1"} {
		if err := CheckLoopback(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
		if _, err := ListenLoopback(t.Context(), bad); err == nil {
			t.Errorf("%s is listened on", bad)
		}
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := ListenLoopback(t.Context(), ln.Addr().String()); err == nil || !strings.Contains(err.Error(), "listening for operations") {
		t.Errorf("a port of another's: %v", err)
	}
	if got := PageURL("127.0.0.1:7070"); got != "http://bridged.localhost:7070/" {
		t.Errorf("page: %s", got)
	}
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	made, err := ReadToken(path)
	if err != nil || len(made) != 64 {
		t.Fatalf("got %q, %v", made, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	if again, err := ReadToken(path); err != nil || again != made {
		t.Errorf("again: %q, %v", again, err)
	}
	for _, row := range []struct {
		text, say string
		mode      fs.FileMode
	}{
		{made, "could be read by others", 0o640},
		{made, "could be read by others", 0o604},
		{"short\n", "at least 16 characters", 0o600},
		{"", "at least 16 characters", 0o600},
		{"0123456789 abcdefghij", "without blanks", 0o600},
		{strings.Repeat("ä", 20), "ASCII", 0o600},
	} {
		if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, row.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadToken(path); err == nil || !strings.Contains(err.Error(), row.say) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q with mode %v: %v", row.text, row.mode, err)
		}
	}
	if _, err := ReadToken(t.TempDir()); err == nil {
		t.Error("a folder is a token")
	}
	if _, err := ReadToken(filepath.Join(t.TempDir(), "none", "token")); err == nil {
		t.Error("a file in a folder that is not there")
	}
}

func TestProfiles(t *testing.T) {
	mux := http.NewServeMux()
	HandleProfiles(mux)
	for path, want := range map[string]string{"/debug/pprof/": "heap", "/debug/pprof/goroutine?debug=1": "goroutine profile: total", "/debug/pprof/cmdline": "ops.test"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.200q", path, w.Code, w.Body)
		}
	}
}
