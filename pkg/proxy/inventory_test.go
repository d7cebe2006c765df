package proxy

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bridged/bridged/pkg/discovery"
)

// knownOf returns what is known, without times and digests.
func knownOf(t *testing.T, s *Session) []Known {
	t.Helper()
	list, err := s.Known()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].State != stateConfigured && list[i].Listed.IsZero() {
			t.Errorf("%s is %s without a time", list[i].Server, list[i].State)
		}
	}
	return list
}

var besidesTime = cmp.Options{cmpopts.IgnoreFields(Known{}, "Listed"), cmpopts.IgnoreUnexported(Known{})}

// relist returns the outcomes by server.
func relist(t *testing.T, s *Session, all bool, names ...string) map[string]Relisted {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
	defer cancel()
	got := map[string]Relisted{}
	s.Relist(ctx, names, all, func(r Relisted) {
		if _, twice := got[r.Server]; twice {
			t.Errorf("%s is told of twice", r.Server)
		}
		got[r.Server] = r
	})
	return got
}

func TestWhatTheCatalogueKnowsIsToldWithoutStartingAnything(t *testing.T) {
	shop := newShop(t)
	one := shop.server("one", fakeConfig{Starts: shop.path("starts")})
	two := shop.server("two", fakeConfig{Starts: shop.path("starts"), Log: "/dev/null"})
	held := discovery.Server{Name: "held", Transport: discovery.Stdio, Command: "x", Held: "it needs approval"}
	visit := func(p *Proxy, servers ...discovery.Server) *Session {
		return p.NewSession(SessionOptions{Servers: openServers(servers...), Getenv: os.LookupEnv, Home: "/", Cwd: "/", Looks: true})
	}
	shop.during(one, func(p *Proxy, s *Session) {
		search(t, s, "echo")
		v := visit(p, one, two, held)
		defer v.Close()
		want := []Known{
			{Server: "held", Here: true, State: "configured", Problem: "Server held is not available: it needs approval."},
			{Server: "one", Here: true, State: "started", Tools: len(fakeTools), Name: "fake", Version: "1"},
			{Server: "two", Here: true, State: "configured"},
		}
		got := knownOf(t, v)
		if diff := cmp.Diff(want, got, besidesTime); diff != "" {
			t.Errorf("known (-want +got):\n%s", diff)
		}
		if _, err := call(t, s, "one", "echo", args{"text": "x"}); err != nil {
			t.Fatal(err)
		}
		if got := knownOf(t, v); got[1].State != "used" {
			t.Errorf("after a call: %+v", got[1])
		}
	})
	shop.during(two, func(p *Proxy, _ *Session) {
		v := visit(p, two)
		defer v.Close()
		want := []Known{
			{Server: "two", Here: true, State: "configured"},
			{Server: "one", State: "catalogued", Tools: len(fakeTools), Name: "fake", Version: "1"},
		}
		if diff := cmp.Diff(want, knownOf(t, v), besidesTime); diff != "" {
			t.Errorf("known (-want +got):\n%s", diff)
		}
	})
	if n := shop.starts(); n != 1 {
		t.Errorf("%d starts, want the one of the search", n)
	}
}

func TestASessionThatLooksStartsNoEagerServer(t *testing.T) {
	shop := newShop(t)
	yes := true
	shop.opts.Settings = []Setting{{Eager: &yes}}
	p := New(shop.opts)
	defer closeProxy(t, p)
	s := p.NewSession(SessionOptions{Servers: openServers(shop.server("fake", fakeConfig{Starts: shop.path("starts")})), Home: "/", Cwd: "/", Looks: true})
	defer s.Close()
	if _, err := s.Known(); err != nil {
		t.Error(err)
	}
	if len(p.list()) != 0 {
		t.Error("a server is being started")
	}
}

func TestRelistSaysWhatHasChanged(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts"), Release: shop.path("release")})
	shop.during(server, func(_ *Proxy, s *Session) {
		if got := relist(t, s, false); len(got) != 0 {
			t.Errorf("with nothing known: %+v", got)
		}
		if got := relist(t, s, true)["fake"]; got.Err != nil || got.Had || got.Tools != len(fakeTools) || len(got.Added) > 0 {
			t.Errorf("for the first time: %+v", got)
		}
		if got := relist(t, s, false)["fake"]; got.Err != nil || !got.Had || got.Version != "1" || got.Was != "1" || len(got.Added)+len(got.Changed)+len(got.Removed) > 0 {
			t.Errorf("unchanged: %+v", got)
		}
		must(t, s, "unlock", args{})
		got := relist(t, s, false, "fake", "fake")["fake"]
		if diff := cmp.Diff([]string{"secret"}, got.Added); got.Err != nil || diff != "" {
			t.Errorf("with one more: %+v", got)
		}
	})
	writeFile(t, shop.path("release"), "v2")
	shop.during(server, func(_ *Proxy, s *Session) {
		got := relist(t, s, false)["fake"]
		if got.Was != "1" || got.Version != "v2" || !slices.Equal(got.Added, []string{"v2"}) || !slices.Equal(got.Removed, []string{"secret"}) {
			t.Errorf("of another release: %+v", got)
		}
		eventually(t, "the new list on disk", func() bool { return shop.kept().Version == "v2" })
	})
	if n := shop.starts(); n != 2 {
		t.Errorf("%d starts, want one for each proxy", n)
	}
}

func TestRelistSaysWhyAServerCouldNotBeAsked(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{FailIf: shop.path("fail")})
	shop.opts.backoffMin = hang // what failed is tried again all the same
	shop.during(server, func(_ *Proxy, s *Session) { search(t, s, "echo") })
	writeFile(t, shop.path("fail"), "")
	shop.during(server, func(_ *Proxy, s *Session) {
		got := relist(t, s, false, "fake", "fike")
		if err := got["fake"].Err; err == nil || !strings.Contains(err.Error(), "exit status 9") || strings.Contains(err.Error(), "tried again") {
			t.Errorf("one that can't start: %v", err)
		}
		if err := got["fike"].Err; err == nil || !strings.Contains(err.Error(), "Did you mean fake?") {
			t.Errorf("one that is not there: %v", err)
		}
		k := knownOf(t, s)[0]
		if k.State != "catalogued" || k.Tools != len(fakeTools) || !strings.Contains(k.Stale, "exit status 9") {
			t.Errorf("known %+v", k)
		}
		if err := os.Remove(shop.path("fail")); err != nil {
			t.Fatal(err)
		}
		if got := relist(t, s, false, "fake")["fake"]; got.Err != nil {
			t.Errorf("a moment later: %v", got.Err)
		}
		if k := knownOf(t, s)[0]; k.State != "started" || k.Stale != "" {
			t.Errorf("known %+v", k)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		s.Relist(ctx, nil, true, func(r Relisted) {
			if r.Err == nil || r.Err.Error() != "enough" {
				t.Errorf("after the person gave up: %+v", r)
			}
		})
	})
}

func TestListsThatAreDroppedAreAskedForAgain(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts"), Log: shop.path("log")})
	shop.during(server, func(_ *Proxy, s *Session) {
		search(t, s, "echo")
		must(t, s, "echo", args{"text": "x"})
		eventually(t, "a lesson", func() bool { return docsOf(t, s, args{"server": "fake", "tool": "echo"})[0].Returns != "Any" })
		n, unknown, err := s.Unlist([]string{"fake", "other"})
		if n != 1 || !slices.Equal(unknown, []string{"other"}) || err != nil {
			t.Errorf("dropped %d, %q, %v", n, unknown, err)
		}
		if k := shop.kept(); k.Digest != "" {
			t.Errorf("on disk: %+v", k)
		}
		if got := search(t, s, "echo"); len(got) == 0 || got[0].Returns == "Any" {
			t.Errorf("a search after it: %+v", got)
		}
		if n, _, err := s.Unlist(nil); n != 1 || err != nil {
			t.Errorf("dropped %d, %v", n, err)
		}
		if got := docsOf(t, s, args{"server": "fake", "tool": "echo"}); got[0].Returns != "Any" {
			t.Errorf("what was learnt is left: %+v", got)
		}
		if n, unknown, err := s.Unlist([]string{"nothing"}); n != 0 || len(unknown) != 1 || err != nil {
			t.Errorf("a name without a list: %d, %q, %v", n, unknown, err)
		}
	})
	if n := strings.Count(strings.Join(shop.lines("log"), "\n"), "tools/list"); n != 3 || shop.starts() != 1 {
		t.Errorf("%d lists, %d starts", n, shop.starts())
	}
}
