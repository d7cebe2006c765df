package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/proxy"
)

func TestServersOfTheDaemonAndOfTheConfigurationAreOneList(t *testing.T) {
	source := []discovery.Source{{Path: "/home/u/.mcp.json", Key: "mcpServers.x", Line: 7}}
	report := mergeServers(
		[]ops.Server{{Name: "git", State: "started", PID: 3}, {Name: "git", State: "stopped"}, {Name: "elsewhere", State: "started"}},
		discovery.Result{
			Servers:  []discovery.Server{{Name: "git", Transport: discovery.Stdio, Sources: source}, {Name: "new", Transport: discovery.HTTP, Sources: source}},
			Disabled: []discovery.Server{{Name: "off", Transport: discovery.Stdio, DisabledBy: "disabled: true"}},
			Problems: []discovery.Problem{{Path: "/x.json", Msg: "broken"}, {Path: "/y.json", Msg: "our own shim", Self: true}},
		})
	got := []string{}
	for _, r := range report.Servers {
		got = append(got, strings.Join([]string{r.Name, r.State, r.Transport, r.Error, r.Source}, "|"))
	}
	want := []string{
		"elsewhere|started|||",
		"git|started|||/home/u/.mcp.json:7 (mcpServers.x)",
		"git|stopped|||/home/u/.mcp.json:7 (mcpServers.x)",
		"new|configured|http||/home/u/.mcp.json:7 (mcpServers.x)",
		"off|disabled|stdio|disabled: true|",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/x.json: broken"}, report.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// A definition that can't work says so before anybody asks for the server.
func TestServersThatCannotBeUsedSayWhy(t *testing.T) {
	p := testPatient(t, doctorFlags{})
	writeServers(t, p.home, `{"mcpServers": {"good": {"command": "sh"}, "lost": {"command": "no-such-program"}, "bare": {"command": "sh", "env": {"KEY": "${NO_SUCH_VARIABLE}"}}}}`)
	report, err := listServers(t.Context(), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"NO_SUCH_VARIABLE", "", "is not found"} { // bare, good, lost
		if got := report.Servers[i]; got.State != stateConfigured || !strings.Contains(got.Error, want) || (want == "") != (got.Error == "") {
			t.Errorf("%s: %s, %q, want %q", got.Name, got.State, got.Error, want)
		}
	}
}

func TestServersAreATable(t *testing.T) {
	synctest.Test(t, testTableOfServers) // where time stands still: ages are printed
}

func testTableOfServers(t *testing.T) {
	rows := []serverRow{
		{Server: ops.Server{
			Name: "git", State: "started", Transport: "stdio", PID: 42, Since: time.Now().Add(-time.Hour), Restarts: 1, Calls: 12, Errors: 2,
			InFlight: 3, Waiting: 4, P50: 1.25, P95: 2500, Error: "it ended\nand more", Stderr: "warming up\nready\n",
			Log: "warning: slow\n",
		}},
		{Server: ops.Server{Name: "box", State: "started", Transport: "stdio", Container: "bridged-box"}},
		{Server: ops.Server{Name: "new", State: "configured", Transport: "http"}},
	}
	var b bytes.Buffer
	if err := printServers(&b, rows, true); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"NAME STATE TRANSPORT RUNS AS UPTIME RESTARTS CALLS ERRORS P50 P95 IN FLIGHT LAST ERROR",
		"git started stdio pid 42 1h0m0s 1 12 2 1.2ms 2.5s 3 (4 wait) it ended",
		"box started stdio container bridged-box - 0 0 0 - - 0",
		"new configured http - - 0 0 0 - - 0",
		"",
		"git, last error:", "it ended", "and more",
		"",
		"git, end of stderr:", "warming up", "ready",
		"",
		"git, end of its log messages:", "warning: slow",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestStatusOfAServerHasTheEndOfItsStderr(t *testing.T) {
	text := strings.Repeat("an old line\n", 1000) + "the last line"
	s := describeServer(proxy.ServerStatus{Name: "x", Stderr: text, Log: text, P50: 1500 * time.Microsecond, Container: "id", ContainerName: "name"})
	if s.Log != s.Stderr {
		t.Errorf("log: got %.30q, want the same end", s.Log)
	}
	if len(s.Stderr) > maxStderr || !strings.HasPrefix(s.Stderr, "an old line\n") || !strings.HasSuffix(s.Stderr, "\nthe last line") {
		t.Errorf("stderr: %d bytes, %.30q", len(s.Stderr), s.Stderr)
	}
	if s.P50 != 1.5 || s.Container != "name" {
		t.Errorf("got %+v", s)
	}
	if got := lastBytes(strings.Repeat("\u2713", 1000), 100); len(got) > 100 || !strings.HasPrefix(got, "\u2713") {
		t.Errorf("one long line: %q", got)
	}
}
