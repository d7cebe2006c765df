//go:build integration

package integration

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/audit"
)

// TestAudit looks at the log of what an agent ran and called, as a person does.
func TestAudit(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_AUDIT_ARGUMENTS=masked")
	h.servers(t, map[string]any{"everything": map[string]any{"command": "mcp-server-everything"}})
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("await mcp_everything.echo(message='hello')", "everything")
	a.call(map[string]any{"code": "1/0", "session": "second"})
	following := h.follow(t)
	a.run("await mcp_everything.get_sum(a=2, b=3)", "everything")
	if got := following(); got.Tool != "get-sum" || got.Outcome != "ok" || string(got.Arguments) != `{"a":2,"b":3}` {
		t.Errorf("--follow shows %+v", got)
	}
	status := d.status(t)
	if status.Audit == nil || status.Audit.Error != "" {
		t.Fatalf("status: %+v", status.Audit)
	}
	checkAudited(t, h, status.Sessions[0].ID)
	head := h.audit(t, "head")
	h.audit(t, "verify")
	d.stop(t, syscall.SIGKILL)
	next := h.serve(t) // goes on with the log, by a goroutine of its own
	next.until(t, "the log tells of two starts", func() bool {
		return strings.Contains(h.audit(t, "verify", "--anchor", strings.TrimSpace(head)), "2 starts")
	})
	file := filepath.Join(status.Audit.Path, "audit-000001.jsonl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), `"tool":"echo"`, `"tool":"ohce"`, 1)
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := h.command(bridged, "audit", "verify").CombinedOutput()
	if err == nil || !strings.Contains(string(out), file+":3: the line does not match its hash") {
		t.Errorf("verify of an edited line: %v, %s", err, out)
	}
}

// audit runs `bridged audit`, which must work.
func (h *home) audit(t *testing.T, args ...string) string {
	t.Helper()
	cmd := h.command(bridged, append([]string{"audit"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bridged audit %v: %v", args, err)
	}
	return string(out)
}

// checkAudited looks for what the agent of a session did.
func checkAudited(t *testing.T, h *home, session string) {
	t.Helper()
	deadline := time.Now().Add(waitTime)
	var got []string
	for len(got) < 5 && time.Now().Before(deadline) {
		got = nil
		for line := range strings.Lines(h.audit(t, "--json", "--session", session, "--client", "test 1")) {
			var l audit.Line
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			if l.Micros <= 0 || l.In <= 0 || l.Out <= 0 && l.Outcome == "ok" {
				t.Errorf("%+v lacks something", l)
			}
			got = append(got, strings.TrimSpace(strings.Join([]string{string(l.Kind), l.Python, l.Server, l.Tool, l.Outcome, string(l.Arguments), l.Code}, " ")))
		}
	}
	want := []string{
		`call  everything echo ok {"message":"hello"}`,
		`run    ok  await mcp_everything.echo(message='hello')`,
		`run second   error  1/0`,
		`call  everything get-sum ok {"a":2,"b":3}`,
		`run    ok  await mcp_everything.get_sum(a=2, b=3)`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// follow starts `bridged audit --follow`, and returns the first new line of a
// call when it has come.
func (h *home) follow(t *testing.T) func() audit.Line {
	t.Helper()
	cmd := h.command(bridged, "audit", "--follow", "--json", "--kind", "call,run", "--last", "1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan audit.Line, 100)
	go func() { // ends with the command
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			var l audit.Line
			if json.Unmarshal(s.Bytes(), &l) == nil {
				lines <- l
			}
		}
	}()
	t.Cleanup(func() { end(t, cmd) })
	next := func() audit.Line {
		select {
		case l := <-lines:
			return l
		case <-time.After(waitTime):
			t.Fatal("--follow shows nothing")
			return audit.Line{}
		}
	}
	for next().Code != "1/0" { // written a moment after the call was answered
	}
	return next
}

// end interrupts a command, as a person does, and wants it to end well.
func end(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v", cmd, err)
	}
}
