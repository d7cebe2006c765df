//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
)

// What one session keeps, another one has, and a person finds as files; and the
// other way round.
func TestMemoriesOutliveTheirSession(t *testing.T) {
	h := onEngine(t, engines.ForTest(t, engines.Rootful))
	d := h.serve(t)
	d.ready(t)
	project := filepath.Join(h.dir, "app")
	for _, dir := range []string{filepath.Join(project, ".git"), filepath.Join(project, "src")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	memory := filepath.Join(h.dir, "MCPs", "user_tools", "memory")
	a := h.agent(t, project)
	a.run(`await save_memory("Größe/plan", {"n": 2**70, "days": {3, 1, 2}}, {"tags": ["x"]})
save_memory("mine", 1, scope="project")`)
	if err := os.WriteFile(filepath.Join(memory, "by_hand.json"), []byte(`{"value": "a person's"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(memory, "broken.json"), []byte("{\"value\": [1,\n]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.stop(t, syscall.SIGINT)
	next := h.serve(t)
	next.ready(t)
	b, elsewhere := h.agent(t, filepath.Join(project, "src")), h.agent(t, h.dir)
	for _, step := range [][2]string{
		{`load_memory("Größe/plan")`, `{"n": 1180591620717411303424, "days": [1, 2, 3]}`},
		{`load_memory("mine", scope="project")`, `1`},
		{`await load_memory("by_hand")`, `"a person's"`},
		{`[m["key"] for m in list_memories()]`, `["Größe/plan", "broken", "by_hand", "mine"]`},
		{`search_memories("person")[0]["key"]`, `"by_hand"`},
		{`sorted(os.listdir("/projects/memory"))[1:]`, `["broken.json", "by_hand.json", "project"]`},
		{`json.load(open("/projects/memory/project/mine.json"))["value"]`, `1`},
		{`update_memory("mine", lambda n: n + 1, default=41)`, `42`},
		{`json.load(open("/projects/memory/mine.json"))["value"]`, `42`},
	} {
		if got := b.run("import json, os\nprint(json.dumps(" + step[0] + ", ensure_ascii=False))"); strings.TrimSpace(got) != step[1] {
			t.Errorf("%s is %s, want %s", step[0], got, step[1])
		}
	}
	if got := elsewhere.run(`load_memory("mine", "none", scope="project")`); !strings.Contains(got, "none") {
		t.Errorf("another project has %s", got)
	}
	res := b.call(map[string]any{"code": `load_memory("broken")`})
	if got := text(res); !res.IsError || !strings.Contains(got, "line 2") || strings.Contains(got, h.dir) {
		t.Errorf("a broken file gives %s", got)
	}
	res = b.call(map[string]any{"code": `open("/projects/memory/by_hand.json", "w")`})
	if got := text(res); !res.IsError || !strings.Contains(got, "PermissionError") {
		t.Errorf("writing to a copy gives %s", got)
	}
	testMemoryCommands(t, h, project)
}

// testMemoryCommands uses the command line beside a daemon, then without one.
func testMemoryCommands(t *testing.T, h *home, folder string) {
	run := func(want string, args ...string) {
		t.Helper()
		cmd := h.command(abs(t, bridged), append([]string{"memory"}, args...)...)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.HasPrefix(want, "error") || !strings.Contains(string(out), strings.TrimPrefix(want, "error")) {
			t.Errorf("bridged memory %v: %s, %v; want %q", args, out, err, want)
		}
	}
	backup := filepath.Join(h.dir, "backup.json")
	run("Größe/plan", "list")
	run(filepath.Join(h.dir, "app"), "list")
	run("a person's", "show", "by_hand")
	run("1", "show", "--project", "mine")
	run("error4 memories exported", "export", backup) // and the broken one is told
	run("", "rm", "Größe/plan")
	run("errorno memory", "show", "Größe/plan")
	run("restored as version 2", "restore", "Größe/plan")
	run("", "rm", "by_hand", "broken")
	run("1 added, 0 replaced, 3 the same", "import", backup)
}

// Thirty-two sessions, each with a sandbox of its own, change one memory.
func TestThirtyTwoSessionsUpdateOneMemory(t *testing.T) {
	const sessions, each = 32, 5
	h := onEngine(t, engines.ForTest(t, engines.Rootful), "MCP_BRIDGE_POOL_MAX=32", "MCP_BRIDGE_MAX_SESSIONS=33",
		"MCP_BRIDGE_POOL_MEMORY=never", "MCP_BRIDGE_POOL_WARM=0")
	h.serve(t)
	a := h.agent(t, h.dir)
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			res := a.call(map[string]any{
				"session": fmt.Sprint("s", i), "timeout": 100,
				"code": fmt.Sprintf("for _ in range(%d): update_memory('all', lambda l: l + [%d], default=[])", each, i),
			})
			if res.IsError {
				t.Errorf("session %d: %s", i, text(res))
			}
		})
	}
	wg.Wait()
	want := fmt.Sprintf("%d, %d, {%d}", sessions*each, sessions*each, each)
	if got := a.run("l = load_memory('all'); len(l), get_memory_info('all')['version'], {l.count(i) for i in l}"); got != "("+want+")" {
		t.Errorf("the memory is %s, want %s", got, want)
	}
}

// A daemon is killed again and again while sessions save: whatever was
// acknowledged is there, and no file is torn. BRIDGED_TEST_KILLS sets how often.
func TestMemoriesOutlastKillsOfTheDaemon(t *testing.T) {
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("BRIDGED_TEST_KILLS")); err == nil {
		kills = n
	}
	h := onEngine(t, engines.ForTest(t, engines.Rootful), "MCP_BRIDGE_MEMORY_HISTORY=2")
	counted := 0
	for range kills {
		d := h.serve(t)
		d.ready(t)
		acked := savers(t, h, d, 3)
		counted += acked["count"]
		acked["count"] = counted
		expectMemories(t, h, acked)
	}
	d := h.serve(t) // clears up what the others left
	d.ready(t)
	if got := h.agent(t, h.dir).run(`[m["key"] for m in list_memories() if "error" in m]`); got != "[]" {
		t.Errorf("these are broken: %s", got)
	}
}

// saverCode saves for as long as it may, and prints what was acknowledged.
const saverCode = `
n = 0
while True:
    n += 1
    save_memory(f"s%d {n %% 3}", {"n": n, "fill": "x" * 5000})
    update_memory("count", lambda c: (c or 0) + 1)
    print(f"ack {n}", flush=True)
`

// savers has sessions save until the daemon is killed, and returns the last
// number of each key that was acknowledged, and how often all have counted.
func savers(t *testing.T, h *home, d *daemon, sessions int) map[string]int {
	t.Helper()
	var mu sync.Mutex
	last := map[int]int{}
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	for i := range sessions {
		a := h.agent(t, h.dir)
		a.OnNotification(func(n mcp.JSONRPCNotification) {
			for _, m := range ackPattern.FindAllStringSubmatch(fmt.Sprint(n.Params.AdditionalFields["message"]), -1) {
				number, _ := strconv.Atoi(m[1])
				mu.Lock()
				last[i] = max(last[i], number)
				mu.Unlock()
			}
		})
		wg.Go(func() {
			req := mcp.CallToolRequest{}
			req.Params.Name, req.Params.Arguments = "run_python", map[string]any{"code": fmt.Sprintf(saverCode, i), "timeout": 60}
			req.Params.Meta = &mcp.Meta{ProgressToken: fmt.Sprint("p", i)}
			_, _ = a.CallTool(ctx, req) // its daemon is killed
			_ = a.Close()
		})
	}
	d.until(t, "all sessions have saved", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(last) == sessions
	})
	time.Sleep(200 * time.Millisecond)
	d.stop(t, syscall.SIGKILL)
	cancel() // nobody waits for another daemon
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	acked := map[string]int{}
	for i, n := range last {
		acked["count"] += n
		for back := range min(3, n) {
			acked[fmt.Sprintf("s%d %d", i, (n-back)%3)] = n - back
		}
	}
	return acked
}

var ackPattern = regexp.MustCompile(`ack (\d+)`)

// expectMemories looks at the files themselves: none is torn, and each number is
// at least the one that was acknowledged.
func expectMemories(t *testing.T, h *home, acked map[string]int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(h.dir, "MCPs", "user_tools", "memory", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Key   string
			Value json.RawMessage
		}
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatalf("%s is torn: %v: %q", path, err, data)
		}
		var value struct{ N int }
		if json.Unmarshal(file.Value, &value) != nil {
			value.N, _ = strconv.Atoi(string(file.Value))
		}
		got[file.Key] = value.N
	}
	for key, n := range acked {
		if got[key] < n {
			t.Errorf("%s is %d, and %d was acknowledged", key, got[key], n)
		}
	}
}
