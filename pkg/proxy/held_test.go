package proxy

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bridged/bridged/pkg/discovery"
)

// A project that was just cloned defines servers, and all are to start
// early. Whatever code asks for, none is started or contacted.
func TestHeldServersAreNeitherStartedNorContacted(t *testing.T) {
	b := newBench(t)
	var contacted atomic.Int64
	remote := listen(t, func(http.ResponseWriter, *http.Request) { contacted.Add(1) })
	const why = "it needs approval: run `bridged servers approve evil` in /clone"
	evil := discovery.Server{
		Name: "evil", Transport: discovery.Stdio, Command: "/bin/sh", Args: []string{"-c", "echo started >> " + b.path("started") + "; cat"},
		Root: b.dir, Held: why,
	}
	far := discovery.Server{Name: "far", Transport: discovery.HTTP, URL: remote.URL, Root: b.dir, Held: why}
	list := []discovery.Server{evil, far}
	o := quick()
	o.Settings = []Setting{{Eager: ptr(true)}}
	s := newProxy(t, o).NewSession(SessionOptions{Servers: func() []discovery.Server { return list }})
	defer s.Close()
	for _, name := range []string{"evil", "far"} {
		_, err := s.Load([]string{name})
		wantCode(t, err, CodeNotAvailable, "Server "+name+" is not available: "+why)
		for method, params := range map[string]args{
			"tools.call": {"server": name, "tool": "x"}, "tools.list": {"server": name}, "docs.query": {"server": name},
			"server.info": {"server": name}, "resources.list": {"server": name}, "prompts.list": {"server": name},
		} {
			if _, err := ask(t, s, method, params); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %s: got %v", method, name, err)
			}
		}
	}
	if text, err := ask(t, s, "docs.search", args{"query": "anything"}); err != nil || !strings.Contains(string(text), why) {
		t.Errorf("search: got %s, %v", text, err)
	}
	for _, row := range listServers(t, s) {
		if !strings.Contains(row.Problem, why) {
			t.Errorf("%s: problem %q", row.Name, row.Problem)
		}
	}
	if _, err := os.Stat(b.path("started")); err == nil || contacted.Load() > 0 {
		t.Errorf("a held server was started (%v) or contacted (%d times)", err == nil, contacted.Load())
	}
}
