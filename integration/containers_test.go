//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
)

// boxedServer is an MCP server for an image that has nothing but Python. As deaf
// as it is, nothing but SIGKILL ends it.
const boxedServer = `
import json, os, signal, sys, time
deaf = len(sys.argv) > 1 and sys.argv[1] == 'deaf'
if deaf: signal.signal(signal.SIGTERM, signal.SIG_IGN)
def tool(name): return {'name': name, 'inputSchema': {'type': 'object'}}
def look():
    def written(path):
        try:
            with open(path, 'w') as f: f.write('x')
            return True
        except OSError: return False
    return {'uid': os.getuid(), 'interfaces': sorted(os.listdir('/sys/class/net')), 'token': os.environ.get('TOKEN', ''),
            'path': os.environ.get('AGENT_TOKEN', ''), 'cwd': os.getcwd(), 'in': open('/in/file').read() if os.path.exists('/in/file') else '',
            'writes': written('/in/other'), 'pid': os.getpid()}
def answer(m):
    if m['method'] == 'initialize':
        return {'protocolVersion': m['params']['protocolVersion'], 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'boxed', 'version': '1'}}
    if m['method'] == 'tools/list': return {'tools': [tool('look'), tool('die')]}
    if m['method'] == 'tools/call':
        if m['params']['name'] == 'die':
            print('last words of the server', file=sys.stderr, flush=True)
            os._exit(7)
        return {'content': [], 'structuredContent': look()}
    return {}
for line in sys.stdin:
    m = json.loads(line)
    if 'id' in m: print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': answer(m)}), flush=True)
while deaf: time.sleep(60)
`

// ofServers are the labels of servers' containers.
var ofServers = map[string]string{runtime.LabelServer: "boxed"}

// TestServersInContainers runs servers that a definition puts into a container,
// and one that the operator does.
func TestServersInContainers(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			started := decoys(t)
			r := engines.ForTest(t, name)
			h := onEngine(t, r)
			c := newCanaries("a container's environment", "a container's flag")
			boxedServers(t, h, r, c)
			seen := c.watchCommandLines(t)
			d := h.serve(t)
			d.ready(t)
			testBoxed(t, h, d, r, c)
			testSandboxed(t, h, r)
			seen()
			testEndOfBoxed(t, h, d)
			testBoxedOrphans(t, h, d, r)
			if list := started(); len(list) > 0 {
				t.Errorf("programs were started: %v", list)
			}
		})
	}
}

// boxedServers writes the definitions, and what the operator says of one.
func boxedServers(t *testing.T, h *home, r *engines.Running, c canaries) {
	t.Helper()
	in := filepath.Join(r.Shared(t), "boxed")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(in) })
	if err := os.WriteFile(filepath.Join(in, "file"), []byte("seen"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.config(t, fmt.Sprintf("[[server]]\nname = \"sandboxed\"\nsandbox = { image = %q, mounts = [%q] }\n", r.Image, in+":/in:ro"))
	h.servers(t, map[string]any{
		"boxed": map[string]any{
			"command": "docker",
			"args": []string{"run", "-i", "--rm", "--name", "boxed", "--network", "none", "-e", "TOKEN", "-e", "OTHER=" + c["a container's flag"],
				"-v", in + ":/in:ro", "--user=1234:1234", r.Image, "python3", "-c", boxedServer, "deaf"},
			"env": map[string]string{"TOKEN": c["a container's environment"]},
		},
		"sandboxed": map[string]any{
			"command": "python3", "args": []string{"-c", boxedServer}, "env": map[string]string{"TOKEN": "own"},
		},
		"unfit": map[string]any{"command": "podman", "args": []string{"run", "--privileged", "-d", "img"}},
		"lost":  map[string]any{"command": "docker", "args": []string{"run", "-i", "localhost:1/bridged/none"}},
	})
}

// A boxedView is what a server sees from inside its container.
type boxedView struct {
	UID        int
	Interfaces []string
	Token      string
	Path       string
	Cwd        string
	In         string
	Writes     bool
	PID        int
}

func (a *agent) look(server string) boxedView {
	a.t.Helper()
	answer := a.run("import json\nprint(json.dumps(await mcp_"+server+".look()))", server)
	var v boxedView
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		a.t.Fatalf("reading %q: %v", answer, err)
	}
	return v
}

func testBoxed(t *testing.T, h *home, d *daemon, r *engines.Running, c canaries) {
	want := boxedView{UID: 1234, Interfaces: []string{"lo"}, Token: c["a container's environment"], Cwd: "/", In: "seen", PID: 1}
	for range 3 { // agents
		if v := h.agent(t, h.dir).look("boxed"); fmt.Sprint(v) != fmt.Sprint(want) {
			t.Errorf("the server sees %+v, want %+v", v, want)
		}
	}
	list, err := r.Engine.List(t.Context(), ofServers)
	if err != nil || len(list) != 1 || !strings.HasPrefix(list[0].Name, "boxed-") {
		t.Fatalf("containers = %+v, %v; want one of the name boxed-...", list, err)
	}
	for _, s := range d.status(t).Servers {
		if s.Name == "boxed" && (s.Container != list[0].Name || s.PID != 0 || s.State != "started") {
			t.Errorf("status = %+v, want the container %s", s, list[0].Name)
		}
	}
}

func testSandboxed(t *testing.T, h *home, r *engines.Running) {
	v := h.agent(t, h.dir).look("sandboxed")
	want := boxedView{Interfaces: []string{"lo"}, Token: "own", Cwd: "/", In: "seen", PID: 1}
	if fmt.Sprint(v) != fmt.Sprint(want) {
		t.Errorf("the server sees %+v, want %+v", v, want)
	}
	list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelServer: "sandboxed"})
	if err != nil || len(list) != 1 {
		t.Errorf("containers = %+v, %v; want one", list, err)
	}
}

// testEndOfBoxed has servers end and fail.
func testEndOfBoxed(t *testing.T, h *home, d *daemon) {
	a := h.agent(t, h.dir)
	for server, want := range map[string][]string{
		"boxed": {"exit code 7", "last words of the server"},
		"unfit": {"--privileged", "-d/--detach", "args"},
		"lost":  {"localhost:1/bridged/none", "registry"},
	} {
		tool := "die"
		res := a.call(map[string]any{"code": fmt.Sprintf("from mcp import runtime\nawait runtime.call_tool(%q, %q, {})", server, tool), "servers": []string{server}})
		for _, part := range want {
			if !strings.Contains(text(res), part) {
				t.Errorf("the error of %s does not say %q: %s", server, part, text(res))
			}
		}
	}
	a.look("boxed") // of another container
	for _, s := range d.status(t).Servers {
		if s.Name == "boxed" && s.Restarts != 1 {
			t.Errorf("status = %+v, want one restart", s)
		}
	}
}

// testBoxedOrphans kills the daemon with a server that nothing but SIGKILL ends,
// and starts another. A stranger's container stays.
func testBoxedOrphans(t *testing.T, h *home, d *daemon, r *engines.Running) {
	strange := runtime.ServerSpec{
		Image: r.Image, Entrypoint: []string{"sleep", "600"}, Name: "boxed-stranger", Network: runtime.NetworkNone,
		Labels: map[string]string{runtime.LabelManaged: "true", runtime.LabelServer: "stranger", runtime.LabelInstance: "another"},
	}
	id, err := r.Engine.CreateServer(t.Context(), strange)
	if err == nil {
		err = r.Engine.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.stop(t, syscall.SIGKILL)
	if list, err := r.Engine.List(t.Context(), ofServers); err != nil || len(list) != 1 {
		t.Errorf("after the daemon was killed: %+v, %v; want the container of the server that is deaf", list, err)
	}
	next := h.serve(t)
	next.ready(t)
	next.until(t, "what was left is removed", func() bool {
		list, err := r.Engine.List(t.Context(), ofServers)
		return err == nil && len(list) == 0
	})
	h.agent(t, h.dir).look("boxed")
	next.stop(t, syscall.SIGINT)
	if err := r.Engine.Remove(context.Background(), id); err != nil {
		t.Errorf("removing the stranger's container: %v", err)
	}
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}
