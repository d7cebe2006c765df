package proxy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// A shop has several proxies, one after the other, that keep tools in one folder.
type shop struct {
	*bench
	opts Options
}

func newShop(t *testing.T) *shop {
	s := &shop{bench: newBench(t), opts: quick()}
	s.opts.Archive = discovery.NewArchive(s.path("kept"))
	s.opts.changePause, s.opts.renewPause = 10*time.Millisecond, 10*time.Millisecond
	return s
}

// during runs f with a session of a new proxy, which is closed after it.
func (s *shop) during(server discovery.Server, f func(p *Proxy, session *Session)) {
	s.t.Helper()
	p := New(s.opts)
	session := open(s.t, p, server)
	f(p, session)
	session.Close()
	closeProxy(s.t, p)
	checkGoroutines(s.t)
}

func (s *shop) starts() int {
	return len(s.lines("starts"))
}

// kept returns the only list that is on disk, if there is one by now.
func (s *shop) kept() discovery.KeptList {
	s.t.Helper()
	lists, err := s.opts.Archive.Lists()
	if err != nil || len(lists) > 1 {
		s.t.Fatalf("kept %+v, %v", lists, err)
	}
	return append(lists, discovery.KeptList{})[0]
}

func search(t *testing.T, s *Session, query string) []doc {
	t.Helper()
	raw, err := ask(t, s, "docs.search", args{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ Results []doc }
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r.Results
}

func TestToolsOutliveTheProxy(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts"), Log: shop.path("log")})
	shop.during(server, func(_ *Proxy, s *Session) {
		if got := search(t, s, "echo"); got[0].Tool != "echo" {
			t.Errorf("found %+v", got)
		}
		must(t, s, "echo", args{"text": "x"})
		eventually(t, "a lesson", func() bool { return docsOf(t, s, args{"server": "fake", "tool": "echo"})[0].Returns != "Any" })
	})
	if n := shop.starts(); n != 1 {
		t.Fatalf("%d starts", n)
	}
	if k := shop.kept(); k.Server != "fake" || k.Name != "fake" || k.Version != "1" || k.Count != len(fakeTools) {
		t.Errorf("kept %+v", k)
	}
	shop.during(server, func(_ *Proxy, s *Session) {
		if rows := listServers(t, s); rows[0].State != "catalogued" || *rows[0].Tools != len(fakeTools) || rows[0].Stale != "" {
			t.Errorf("row %+v", rows[0])
		}
		if got := search(t, s, "echo"); got[0].Tool != "echo" || got[0].Stale != "" {
			t.Errorf("found %+v", got)
		}
		eventually(t, "what was learnt", func() bool { return search(t, s, "echo")[0].Returns != "Any" })
		if docs := docsOf(t, s, args{"server": "fake"}); len(docs) != len(fakeTools) || docs[0].Stale != "" {
			t.Errorf("docs %+v", docs)
		}
		if n := shop.starts(); n != 1 {
			t.Errorf("looking took %d starts", n-1)
		}
		must(t, s, "echo", args{"text": "x"})
		if rows := listServers(t, s); rows[0].State != "used" {
			t.Errorf("row %+v", rows[0])
		}
	})
	if n := strings.Count(strings.Join(shop.lines("log"), "\n"), "tools/list"); n != 2 || shop.starts() != 2 {
		t.Errorf("%d lists, %d starts", n, shop.starts())
	}
}

func TestANewReleaseOfAServerIsAskedForItsTools(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts"), Release: shop.path("release")})
	shop.during(server, func(_ *Proxy, s *Session) { search(t, s, "echo") })
	writeFile(t, shop.path("release"), "v2")
	shop.during(server, func(_ *Proxy, s *Session) {
		must(t, s, "echo", args{"text": "x"})
		if got := docsOf(t, s, args{"server": "fake", "tool": "v2"}); len(got) != 1 {
			t.Errorf("docs %+v", got)
		}
	})
	if k := shop.kept(); k.Version != "v2" || k.Count != len(fakeTools)+1 {
		t.Errorf("kept %+v", k)
	}
	writeFile(t, shop.path("release"), "v3")
	shop.during(server, func(_ *Proxy, s *Session) {
		if _, err := ask(t, s, "server.info", args{"server": "fake"}); err != nil { // it is started, and nobody wants its tools
			t.Fatal(err)
		}
		eventually(t, "the new list on disk", func() bool { return shop.kept().Version == "v3" })
	})
}

func TestToolsThatChangeAreKeptAnew(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{})
	shop.during(server, func(_ *Proxy, s *Session) {
		search(t, s, "echo")
		must(t, s, "unlock", args{"n": 50})
		eventually(t, "the new list on disk", func() bool { return shop.kept().Count == len(fakeTools)+1 })
	})
}

func TestAServerThatCannotStartKeepsItsToolsAndSaysSo(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{FailIf: shop.path("fail"), Starts: shop.path("starts")})
	shop.during(server, func(_ *Proxy, s *Session) { search(t, s, "echo") })
	writeFile(t, shop.path("fail"), "")
	shop.during(server, func(_ *Proxy, s *Session) {
		_, err := call(t, s, "fake", "echo", args{})
		wantCode(t, err, CodeServerFailed)
		const want = "exit status 9"
		if got := search(t, s, "echo"); got[0].Tool != "echo" || !strings.Contains(got[0].Stale, want) || !strings.Contains(got[0].Stale, ", since 20") {
			t.Errorf("found %+v", got[0])
		}
		if docs := docsOf(t, s, args{"server": "fake"}); !strings.Contains(docs[0].Stale, want) {
			t.Errorf("docs %+v", docs[0])
		}
		if row := listServers(t, s)[0]; row.State != "catalogued" || !strings.Contains(row.Stale, want) || !strings.Contains(row.Problem, want) {
			t.Errorf("row %+v", row)
		}
		if err := os.Remove(shop.path("fail")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a start", func() bool { _, err := call(t, s, "fake", "echo", args{}); return err == nil })
		eventually(t, "a new list", func() bool { return listServers(t, s)[0].Stale == "" })
		if row := listServers(t, s)[0]; row.State != "used" || row.Problem != "" {
			t.Errorf("row %+v", row)
		}
	})
}

// An agent that is started elsewhere has another PATH or another login, so that
// the same definition comes to another server.
func TestToolsAreKnownInAnotherEnvironment(t *testing.T) {
	shop := newShop(t)
	shop.opts.renewPause = time.Hour // not in the background either
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts"), Release: shop.path("release")})
	shop.during(server, func(_ *Proxy, s *Session) { search(t, s, "echo") })
	writeFile(t, shop.path("release"), "v2")
	t.Setenv("LC_MESSAGES", "another")
	shop.during(server, func(p *Proxy, s *Session) {
		if got := search(t, s, "echo"); got[0].Tool != "echo" {
			t.Errorf("found %+v", got)
		}
		if k := knownOf(t, s); len(k) != 2 || !k[0].Alike || k[0].State != "catalogued" || k[1].Here {
			t.Errorf("known %+v", k)
		}
		if n := shop.starts(); n != 1 {
			t.Errorf("%d starts, want that of before", n)
		}
		if !isRenewed(p) {
			t.Error("its own server is not to be asked")
		}
		must(t, s, "echo", args{"text": "x"})
		if got := docsOf(t, s, args{"server": "fake", "tool": "v2"}); len(got) != 1 {
			t.Errorf("after a call its own server's tools are not known: %+v", got)
		}
	})
	changed := server
	changed.Args = append(slices.Clone(server.Args), "-another")
	shop.during(changed, func(_ *Proxy, s *Session) {
		search(t, s, "echo")
		if n := shop.starts(); n != 3 {
			t.Errorf("%d starts: one that is written differently has the other's tools", n)
		}
	})
}

// isRenewed reports whether a list waits to be asked for anew, or is
// about to be.
func isRenewed(p *Proxy) bool {
	p.stock.mu.Lock()
	defer p.stock.mu.Unlock()
	for _, l := range p.stock.lists {
		if !l.tried.IsZero() {
			return true
		}
	}
	return false
}

func TestOldListsAreAskedForInTheBackground(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts"), Release: shop.path("release")})
	shop.during(server, func(_ *Proxy, s *Session) { search(t, s, "echo") })
	writeFile(t, shop.path("release"), "v2")
	shop.opts.CatalogAge = Never
	shop.during(server, func(p *Proxy, s *Session) {
		search(t, s, "echo")
		if p.stock.due(p.list()[0].digest) || len(p.renewals) > 0 {
			t.Error("a list that never gets old is old")
		}
	})
	shop.opts.CatalogAge = time.Nanosecond
	shop.during(server, func(_ *Proxy, s *Session) {
		if got := search(t, s, "echo"); got[0].Tool != "echo" {
			t.Errorf("found %+v", got)
		}
		eventually(t, "the new list", func() bool { return shop.kept().Version == "v2" })
	})
}

func TestAnEagerServerIsStartedAlthoughItsToolsAreOnDisk(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts")})
	shop.during(server, func(_ *Proxy, s *Session) { search(t, s, "echo") })
	yes := true
	shop.opts.Settings = []Setting{{Eager: &yes}}
	shop.during(server, func(*Proxy, *Session) {
		eventually(t, "the start", func() bool { return shop.starts() == 2 })
	})
}

func TestAFolderThatCannotBeUsedIsDoneWithout(t *testing.T) {
	shop := newShop(t)
	writeFile(t, shop.path("kept"), "no folder")
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts")})
	for range 2 {
		shop.during(server, func(_ *Proxy, s *Session) {
			if got := search(t, s, "echo"); got[0].Tool != "echo" {
				t.Errorf("found %+v", got)
			}
		})
	}
	if n := shop.starts(); n != 2 {
		t.Errorf("%d starts, want one for each proxy", n)
	}
}

func TestADamagedListIsAskedForAndWrittenAnew(t *testing.T) {
	shop := newShop(t)
	server := shop.server("fake", fakeConfig{Starts: shop.path("starts")})
	shop.during(server, func(_ *Proxy, s *Session) { search(t, s, "echo") })
	file := filepath.Join(shop.path("kept"), shop.kept().Digest+".tools")
	if err := os.Truncate(file, 500); err != nil {
		t.Fatal(err)
	}
	shop.during(server, func(_ *Proxy, s *Session) {
		if got := search(t, s, "echo"); got[0].Tool != "echo" {
			t.Errorf("found %+v", got)
		}
	})
	if k := shop.kept(); k.Count != len(fakeTools) || shop.starts() != 2 {
		t.Errorf("kept %+v, %d starts", k, shop.starts())
	}
	if _, err := shop.opts.Archive.Load(shop.kept().Digest); err != nil {
		t.Error(err)
	}
}

// BenchmarkFirstSearch is the time from a new proxy to the answer of its first
// search, over fifty servers of twenty tools that are on disk.
func BenchmarkFirstSearch(b *testing.B) {
	archive := discovery.NewArchive(b.TempDir())
	var servers []discovery.Server
	for i := range 50 {
		s := discovery.Server{Name: fmt.Sprintf("server-%d", i), Transport: discovery.Stdio, Command: "/bin/false", Args: []string{fmt.Sprint(i)}}
		servers = append(servers, s)
	}
	open := func(o Options) (*Proxy, *Session) {
		p := New(o)
		return p, p.NewSession(SessionOptions{Servers: openServers(servers...), Home: "/", Cwd: "/"})
	}
	p, s := open(Options{Archive: archive})
	for i := range servers {
		var tools []json.RawMessage
		for j := range 20 {
			tools = append(tools, json.RawMessage(fmt.Sprintf(`{"name":"tool_%d_%d","description":"Does one of the things that servers do, with a calendar, an issue or a file, and tells what came of it","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"what to look for"},"limit":{"type":"integer","description":"how many at most"}},"required":["query"]}}`, i, j)))
		}
		v := s.look()
		t := v.target(s, i)
		if err := archive.Save(discovery.KeptList{Digest: t.ref.Digest, Server: t.server.Name, Listed: time.Now(), Count: len(tools), Tools: tools}); err != nil {
			b.Fatal(err)
		}
	}
	s.Close()
	if err := p.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p, s := open(Options{Archive: archive})
		raw, err := s.Call(b.Context(), "docs.search", json.RawMessage(`{"query":"calendar"}`))
		if err != nil || !strings.Contains(string(raw), "tool_") || strings.Contains(string(raw), "incomplete") {
			b.Fatalf("%s, %v", raw, err)
		}
		b.StopTimer()
		s.Close()
		if err := p.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
