package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

func TestProbeReportsEachStep(t *testing.T) {
	for _, row := range []struct {
		name   string
		server string
		config fakeConfig
		want   string // the steps; one that failed has its error
	}{
		{"a server that works", "fake", fakeConfig{}, "definition variables command start ping tools"},
		{"one that knows no pings", "fake", fakeConfig{Ping: "refuse"}, "definition variables command start ping tools"},
		{"one without tools", "fake", fakeConfig{Pages: [][]string{{}}}, "definition variables command start ping tools"},
		{"one whose list fails", "fake", fakeConfig{Pages: [][]string{{"a"}}, FailAt: 1}, "definition variables command start ping tools: Server fake did not list its tools: no such page (code -32603)."},
		{"one that ends at once", "fake", fakeConfig{ExitAt: "start", ExitCode: 4}, "definition variables command start: it ended (exit status 4)"},
		{"one that is not there", "none", fakeConfig{}, "definition: Server none is not available. There are: fake."},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, s := one(t, quick(), row.config)
			steps := []string{}
			ok := s.Probe(t.Context(), row.server, func(step Step) {
				text := step.Name
				if step.Err != nil {
					text += ": " + step.Err.Error()
				}
				steps = append(steps, text)
			})
			if got := strings.Join(steps, " "); got != row.want {
				t.Errorf("steps:\n%s, want\n%s", got, row.want)
			}
			if ok == strings.Contains(row.want, ": ") {
				t.Errorf("it reports %v", ok)
			}
			closeProxy(t, s.proxy)
			if left := b.processes(); len(left) != 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

func TestProbeShowsNoSecret(t *testing.T) {
	b := newBench(t)
	server := b.server("fake", fakeConfig{ExitAt: "start", Complaint: "bad key canary-secret-3"})
	server.Env["API_KEY"] = "canary-secret-3"
	s := open(t, newProxy(t, quick()), server)
	said := ""
	s.Probe(t.Context(), "fake", func(step Step) { said += fmt.Sprint(step) })
	if strings.Contains(said, "canary") || !strings.Contains(said, "[API_KEY]") {
		t.Errorf("it says %s", said)
	}
}

func TestProbeOfAContainerNamesItsImage(t *testing.T) {
	d := newDock(t)
	s := open(t, newProxy(t, d.options()), d.run("fake", fakeConfig{}))
	said := ""
	if !s.Probe(t.Context(), "fake", func(step Step) { said += step.Name + ": " + step.Found + "\n" }) {
		t.Errorf("it failed:\n%s", said)
	}
	if !strings.Contains(said, "command: a container of image "+enginetest.MemoryImage) || !strings.Contains(said, ", container bridged-fake-") {
		t.Errorf("it says\n%s", said)
	}
}

func TestProbeOfARemoteServerThatIsNotThere(t *testing.T) {
	s := open(t, newProxy(t, quick()), discovery.Server{Name: "fake", Transport: discovery.HTTP, URL: "http://127.0.0.1:9/mcp"})
	var last Step
	if s.Probe(t.Context(), "fake", func(step Step) { last = step }) {
		t.Error("it succeeds")
	}
	if last.Name != "start" || last.Err == nil || !strings.Contains(last.Advice, "Nothing answers") {
		t.Errorf("the last step: %+v", last)
	}
}
