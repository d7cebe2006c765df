//go:build integration

package integration

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
)

// A person answers what servers ask, and a model what they want completed.
type person struct{}

func (person) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	res := &mcp.ElicitationResult{}
	res.Action = mcp.ElicitationResponseActionAccept
	res.Content = map[string]any{"name": "Ann", "check": true, "integer": 42, "number": 1.5, "interpretation": "green", "message": r.Params.Message}
	return res, nil
}

func (person) CreateMessage(_ context.Context, _ mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	res := &mcp.CreateMessageResult{Model: "a-model", StopReason: "endTurn"}
	res.Role, res.Content = mcp.RoleAssistant, mcp.TextContent{Type: "text", Text: "completed by a model"}
	return res, nil
}

// questions are calls that make a real server ask something of the agent.
var questions = []struct {
	name, code string
	asked      string // what comes of it where the client offers it
	refused    string // and where it does not
}{
	{"elicitation", "print(await mcp_everything.trigger_elicitation_request.raw())",
		`(?s)User provided the requested information.*Ann`, `does not offer elicitation, questions to the user`},
	{"sampling", "print(await mcp_everything.trigger_sampling_request('Hello', 100))",
		`completed by a model`, `does not offer sampling, completions by its model`},
	{"roots", "print(await mcp_everything.get_roots_list())", `(?s)Current MCP Roots \(1 total\).*URI: file://DIR`, `(?s)1 total.*file://DIR`},
	{"a folder that is the project's", "print(await mcp_rooted.read_text_file('DIR/note.txt'))", `from the host`, `from the host`},
	{"a folder that is not", "try:\n  print(await mcp_rooted.read_text_file('/etc/hostname'))\nexcept Exception as e: print('refused', e)",
		`refused.*Access denied`, `refused.*Access denied`},
}

// TestServersAskTheAgent has real servers ask agents that offer what they want
// and agents that don't, in both eras of the protocol.
func TestServersAskTheAgent(t *testing.T) {
	onEngines(t, []engines.Name{engines.Rootful}, func(t *testing.T, h *home, d *daemon, _ *engines.Running) {
		h.servers(t, map[string]any{
			"everything": map[string]any{"command": "mcp-server-everything"},
			"rooted":     map[string]any{"command": "mcp-server-filesystem", "args": []string{filepath.Join(h.dir, "empty")}},
		})
		for _, name := range []string{"empty", "one", "two"} {
			if err := os.Mkdir(filepath.Join(h.dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(h.dir, name, "note.txt"), []byte("from the host"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		both := []client.ClientOption{client.WithElicitationHandler(person{}), client.WithSamplingHandler(person{})}
		legacy := client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION)
		agents := []struct {
			name, folder string
			options      []client.ClientOption
			offers       bool
		}{
			{"a client that offers it", "one", append([]client.ClientOption{legacy}, both...), true},
			{"a client that offers nothing, elsewhere", "two", []client.ClientOption{legacy}, false},
			{"a client without initialize", "one", both, true},
			{"a client without initialize that offers nothing", "one", nil, false},
		}
		var first *agent
		for i, who := range agents {
			dir := filepath.Join(h.dir, who.folder)
			a := h.agent(t, dir, who.options...)
			a.run("", "everything", "rooted")
			for _, q := range questions {
				want := q.refused
				if who.offers {
					want = q.asked
				}
				got := text(a.call(map[string]any{"code": strings.ReplaceAll(q.code, "DIR", dir)}))
				if !regexp.MustCompile(strings.ReplaceAll(want, "DIR", dir)).MatchString(got) {
					t.Errorf("%s, %s: got %s\nwant %s", who.name, q.name, got, want)
				}
			}
			if i > 0 {
				continue
			}
			first = a
			got := a.run("print(await mcp_everything.simulate_research_query('tea', ambiguous=True))")
			if !strings.Contains(got, `receiving clarification ("green")`) {
				t.Errorf("a task that asks on its way: got %s", got)
			}
			a.wantProgress("mcp_everything.sync.trigger_long_running_operation(1, 2)", "everything.trigger-long-running-operation: 1/2")
		}
		d.stop(t, syscall.SIGKILL)
		next := h.serve(t)
		next.ready(t)
		if got := first.run(questions[0].code, "everything"); !regexp.MustCompile(questions[0].asked).MatchString(got) {
			t.Errorf("another daemon: got %s", got)
		}
		next.stop(t, syscall.SIGINT)
	})
}

// wantProgress runs code and checks that a text was shown while it ran.
func (a *agent) wantProgress(code, want string) {
	a.t.Helper()
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = "run_python", map[string]any{"code": code}
	req.Params.Meta = &mcp.Meta{ProgressToken: "progress of " + code}
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	if _, err := a.CallTool(ctx, req); err != nil {
		a.t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !strings.Contains(strings.Join(a.progress, "\n"), want) {
		a.t.Errorf("progress: got %q, want %q in it", a.progress, want)
	}
}
