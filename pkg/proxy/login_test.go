package proxy

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy/oauthtest"
)

// guarded returns a server that wants a login, its definition and a session
// that has loaded it.
func guarded(t *testing.T) (g *oauthtest.Server, o LoginOptions, s *Session) {
	t.Helper()
	g = oauthtest.Start()
	t.Cleanup(g.Close) // after the proxy's end, which still says good-bye
	o = LoginOptions{
		Server:   discovery.Server{Name: "fake", Transport: discovery.Auto, URL: g.URL() + "?team=blue"},
		TokenDir: filepath.Join(t.TempDir(), "tokens"), Wait: hang,
	}
	o.Show = func(address string) error {
		go func() {
			if err := g.Approve(address); err != nil {
				t.Error(err)
			}
		}()
		return nil
	}
	q := quick()
	q.TokenDir = o.TokenDir
	q.backoffMin, q.backoffMax = time.Hour, time.Hour // a login must not have to wait for it
	s = open(t, newProxy(t, q), o.Server)
	if _, err := s.Load([]string{"fake"}); err != nil {
		t.Fatal(err)
	}
	return g, o, s
}

func TestLoginCountsAtTheNextCall(t *testing.T) {
	g, o, s := guarded(t)
	_, err := call(t, s, "fake", "whoami", args{})
	wantCode(t, err, CodeNotAvailable, "bridged login fake")
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := must(t, s, "whoami", args{}); got != "somebody with a token" {
		t.Errorf("got %q", got)
	}
	if asked := g.Asked(); len(asked) != 1 || !strings.Contains(asked[0], "scope=tools%3Aread") {
		t.Errorf("asked for %q, want the scopes that the server wants", asked)
	}
	files, err := filepath.Glob(filepath.Join(o.TokenDir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files: %v, %v", files, err)
	}
	for path, want := range map[string]os.FileMode{files[0]: 0o600, o.TokenDir: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %o", path, info.Mode(), err, want)
		}
	}
}

func TestTokenThatHasExpiredIsRefreshedOnceForAll(t *testing.T) {
	g, o, s := guarded(t)
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, s, "whoami", args{})
	g.Expire()
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, err := call(t, s, "fake", "whoami", args{}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if n := g.Refreshes(); n != 1 {
		t.Errorf("refreshed %d times, want once", n)
	}
}

func TestTokenIsRefreshedOnceForSeveralDaemons(t *testing.T) {
	g, o, s := guarded(t)
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	q := quick()
	q.TokenDir = o.TokenDir
	other := New(q)
	defer closeProxy(t, other)
	sessions := []*Session{s, open(t, other, o.Server)}
	for _, s := range sessions {
		if _, err := s.Load([]string{"fake"}); err != nil {
			t.Fatal(err)
		}
		must(t, s, "whoami", args{})
	}
	g.Expire()
	var calls sync.WaitGroup
	for i := range 10 {
		calls.Go(func() {
			if _, err := call(t, sessions[i%2], "fake", "whoami", args{}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if n := g.Refreshes(); n != 1 {
		t.Errorf("refreshed %d times, want once", n)
	}
}

func TestTokenNearItsEndIsRefreshedFirst(t *testing.T) {
	g, o, s := guarded(t)
	g.Lifetime = 1
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	g.Lifetime = 3600
	must(t, s, "whoami", args{})
	must(t, s, "whoami", args{})
	if n := g.Refreshes(); n != 1 {
		t.Errorf("refreshed %d times, want once", n)
	}
}

func TestLoginThatWasRevokedIsAskedForAgain(t *testing.T) {
	g, o, s := guarded(t)
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, s, "whoami", args{})
	g.Revoke()
	_, err := call(t, s, "fake", "whoami", args{})
	wantCode(t, err, CodeNotAvailable, "bridged login fake")
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, s, "whoami", args{})
}

func TestRefreshTokenGoesToNoOtherAuthorizationServer(t *testing.T) {
	other, hits := trap(t)
	g, o, s := guarded(t)
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, s, "whoami", args{})
	g.Expire()
	g.Moved = other
	_, err := call(t, s, "fake", "whoami", args{})
	wantCode(t, err, CodeNotAvailable, "bridged login fake")
	if hits.Load() > 0 {
		t.Error("the other server was asked")
	}
}

func TestLogoutForgetsTheToken(t *testing.T) {
	_, o, s := guarded(t)
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, s, "whoami", args{})
	for _, want := range []bool{true, false} {
		if was, err := Logout(o); err != nil || was != want {
			t.Fatalf("got %v, %v, want %v", was, err, want)
		}
	}
	_, err := call(t, s, "fake", "whoami", args{})
	wantCode(t, err, CodeNotAvailable, "bridged login fake")
}

func TestClientsWithSecretsShowThem(t *testing.T) {
	g, o, s := guarded(t)
	g.Secret = true
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	g.Expire()
	must(t, s, "whoami", args{})
}

func TestLoginWithAClientThatWasRegisteredByHand(t *testing.T) {
	g, o, s := guarded(t)
	g.Closed = true
	if err := Login(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--client-id") {
		t.Fatalf("got %v, want advice", err)
	}
	o.ClientID = "by-hand"
	o.Show = func(address string) error {
		_, back, _ := strings.Cut(address, "redirect_uri=http%3A%2F%2F127.0.0.1%3A")
		port, _, _ := strings.Cut(back, "%2F")
		g.Admit("by-hand", "http://127.0.0.1:"+port+"/callback")
		go g.Approve(address) //nolint:errcheck // Login fails then
		return nil
	}
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, s, "whoami", args{})
}

func TestLoginAtTheAuthorizationServerThatTheDefinitionNames(t *testing.T) {
	g, o, s := guarded(t)
	g.Hidden, g.Lifetime = true, 3600
	o.Server.OAuth.Metadata = g.MetadataURL()
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, s, "whoami", args{})
	g.Expire()
	must(t, s, "whoami", args{})
	if got := g.Refreshes(); got != 1 {
		t.Errorf("refreshed %d times, want once", got)
	}
}

func TestLoginsThatFailSayWhy(t *testing.T) {
	plain := (&httpFake{}).start(t)
	for name, row := range map[string]struct {
		change func(*oauthtest.Server, *LoginOptions)
		want   string
	}{
		"nobody comes back": {func(_ *oauthtest.Server, o *LoginOptions) {
			o.Show, o.Wait = func(string) error { return nil }, 50*time.Millisecond
		}, "nobody came back"},
		"the person says no": {func(_ *oauthtest.Server, o *LoginOptions) {
			o.Show = comeBack(t, "error=access_denied&error_description=no%1b[31m+thanks&state=STATE")
		}, "access_denied: no[31m thanks"},
		"another server answers": {func(_ *oauthtest.Server, o *LoginOptions) {
			o.Show = comeBack(t, "code=x&iss=https://evil.example&state=STATE")
		}, "another authorization server"},
		"the code is forged": {func(_ *oauthtest.Server, o *LoginOptions) {
			o.Show = comeBack(t, "code=forged&state=STATE")
		}, "invalid_grant"},
		"it has no page to show": {func(_ *oauthtest.Server, o *LoginOptions) {
			o.Show = func(string) error { return errors.New("no terminal") }
		}, "no terminal"},
		"PKCE is not offered": {func(g *oauthtest.Server, _ *LoginOptions) { g.Weak = true }, "PKCE"},
		"it is no remote server": {func(_ *oauthtest.Server, o *LoginOptions) {
			o.Server = discovery.Server{Name: "fake", Transport: discovery.Stdio, Command: "x"}
		}, "reached by stdio"},
		"it has a header of its own": {func(_ *oauthtest.Server, o *LoginOptions) {
			o.Server.Headers = map[string]string{"authorization": "Bearer x"}
		}, "header authorization"},
		"its url is http":            {func(_ *oauthtest.Server, o *LoginOptions) { o.Server.URL = "http://mcp.example/mcp" }, "needs https"},
		"it wants no login":          {func(_ *oauthtest.Server, o *LoginOptions) { o.Server.URL = plain.url + "/mcp" }, "does not ask for a login"},
		"it can't be reached":        {func(_ *oauthtest.Server, o *LoginOptions) { o.Server.URL = "http://127.0.0.1:1/?k=s3cret-key" }, "connection refused"},
		"there is nowhere to put it": {func(_ *oauthtest.Server, o *LoginOptions) { o.TokenDir = "" }, "no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			g := oauthtest.Start()
			t.Cleanup(g.Close)
			o := LoginOptions{Server: discovery.Server{Name: "fake", Transport: discovery.HTTP, URL: g.URL()}, TokenDir: t.TempDir(), Wait: hang}
			o.Show = func(address string) error { return g.Approve(address) }
			row.change(g, &o)
			err := Login(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q", err, row.want)
			}
			if files, _ := filepath.Glob(filepath.Join(o.TokenDir, "*.json")); len(files) > 0 && o.TokenDir != "" {
				t.Errorf("a login was kept: %v", files)
			}
		})
	}
}

// comeBack is a browser that comes back with something else. Before that it
// comes with another login's state, which is sent away.
func comeBack(t *testing.T, query string) func(string) error {
	return func(address string) error {
		r := httptest.NewRequest(http.MethodGet, address, nil)
		back, state := r.URL.Query().Get("redirect_uri"), r.URL.Query().Get("state")
		go func() {
			for _, q := range []string{"code=x&state=other", "code=x", strings.ReplaceAll(query, "STATE", state)} {
				resp, err := http.Get(back + "?" + q)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			}
		}()
		return nil
	}
}

func TestChallengesAreRead(t *testing.T) {
	h := http.Header{"Www-Authenticate": {`Basic realm="x"`, `bearer realm="a, b", scope="one two",error=invalid_token , resource_metadata="https://h/p?q=1"`, `Bearer ` + strings.Repeat(`x="`, 5000)}}
	got := challengeOf(h)
	for name, want := range map[string]string{"realm": "a, b", "scope": "one two", "error": "invalid_token", "resource_metadata": "https://h/p?q=1"} {
		if strings.TrimSpace(got[name]) != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

func TestLoginFileThatIsDamagedIsNamed(t *testing.T) {
	_, o, s := guarded(t)
	if err := Login(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(o.TokenDir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files: %v, %v", files, err)
	}
	writeFile(t, files[0], `{"token": "s3cret`)
	_, err = call(t, s, "fake", "whoami", args{})
	if err == nil || !strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want that it is damaged", err)
	}
	writeFile(t, files[0], strings.Repeat(" ", maxGrant+1))
	_, err = call(t, s, "fake", "whoami", args{})
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v, want that it is too large", err)
	}
}
