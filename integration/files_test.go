//go:build integration

package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
)

// TestFiles moves files between the user and the code, on every engine.
func TestFiles(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			source := makeSource(t, r)
			out := filepath.Join(t.TempDir(), "out")
			h := onEngine(t, r, "MCP_BRIDGE_OUTPUT_DIR="+out, "MCP_BRIDGE_OUTPUT_MAX_BYTES=30m",
				"MCP_BRIDGE_MOUNTS="+source+":/data,"+source+"/one.txt:/one.txt", "MCP_BRIDGE_PAUSE_AFTER=1s", "MCP_BRIDGE_TMP=60m", "MCP_BRIDGE_WORKSPACE=100m")
			d := h.serve(t)
			d.ready(t)
			t.Run("what is published can be listed and read", func(t *testing.T) { testPublish(t, h) })
			t.Run("a file is read while code runs", func(t *testing.T) { testReadWhileRunning(t, h) })
			t.Run("a paused sandbox is woken to be read", func(t *testing.T) { testReadWhilePaused(t, h, d, r) })
			t.Run("files that change or go", func(t *testing.T) { testFilesGo(t, h) })
			t.Run("what is no plain file is refused", func(t *testing.T) { testNoPlainFile(t, h) })
			t.Run("files are their agent's alone", func(t *testing.T) { testFilesArePrivate(t, h) })
			t.Run("files are saved", func(t *testing.T) { testSaved(t, h, out) })
			t.Run("bridged run saves files", func(t *testing.T) { testRunSaves(t, h) })
			t.Run("mounted data can be read and not changed", func(t *testing.T) { testMounted(t, h, source) })
			t.Run("folders have the sizes that were asked for", func(t *testing.T) { testFolderSizes(t, h) })
			d.stop(t, syscall.SIGINT)
			noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
		})
	}
}

// makeSource makes a folder of data that the engine can mount.
func makeSource(t *testing.T, r *engines.Running) string {
	t.Helper()
	dir := filepath.Join(r.Shared(t), fmt.Sprintf("files-%d", os.Getpid()))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.MkdirAll(filepath.Join(dir, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"one.txt": "one", "deep/table.csv": "a,b\n1,2\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/shadow", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// publish runs code and returns the links in its answer.
func (a *agent) publish(code string) []mcp.ResourceLink {
	a.t.Helper()
	res := a.call(map[string]any{"code": code})
	if res.IsError {
		a.t.Fatalf("%s\nfailed: %s", code, text(res))
	}
	var links []mcp.ResourceLink
	for _, c := range res.Content {
		if link, ok := c.(mcp.ResourceLink); ok {
			links = append(links, link)
		}
	}
	return links
}

// read returns what a resource holds, and whether it came as text.
func (a *agent) read(uri string) (data []byte, isText bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	req := mcp.ReadResourceRequest{}
	req.Params.URI = uri
	res, err := a.ReadResource(ctx, req)
	if err != nil {
		return nil, false, err
	}
	switch c := res.Contents[0].(type) {
	case mcp.TextResourceContents:
		return []byte(c.Text), true, nil
	case mcp.BlobResourceContents:
		data, err := base64.StdEncoding.DecodeString(c.Blob)
		return data, false, err
	}
	return nil, false, fmt.Errorf("contents of type %T", res.Contents[0])
}

func testPublish(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	for _, row := range []struct {
		name, code, file, mime string
		isText                 bool
		size                   int64
	}{
		{"a text", "open('r.csv', 'w').write('a,é\\n'); publish('r.csv');", "r.csv", "text/csv", true, 5},
		{"bytes", "publish(bytes(range(256)), 'all.bin');", "all.bin", "application/octet-stream", false, 256},
		{"nothing", "publish(b'', 'nothing.txt');", "nothing.txt", "text/plain", true, 0},
		{"10 MB", "import os; data = os.urandom(10_000_000); publish(data, 'ten.bin');", "ten.bin", "application/octet-stream", false, 10_000_000},
	} {
		links := a.publish(row.code)
		if len(links) != 1 || links[0].Name != row.file || links[0].MIMEType != row.mime || links[0].Size == nil || *links[0].Size != row.size {
			t.Errorf("%s: got links %+v", row.name, links)
			continue
		}
		data, isText, err := a.read(links[0].URI)
		if err != nil || isText != row.isText || int64(len(data)) != row.size {
			t.Errorf("%s: read %d bytes, text: %v, %v", row.name, len(data), isText, err)
			continue
		}
		sum := sha256.Sum256(data)
		if got := a.run("import hashlib\nhashlib.sha256(open('/tmp/bridged/files/" + row.file + "', 'rb').read() if '" + row.file + "' != 'r.csv' else open('r.csv', 'rb').read()).hexdigest()"); got != "'"+hex.EncodeToString(sum[:])+"'" {
			t.Errorf("%s: read something else: %x, want %s", row.name, sum, got)
		}
	}
	list, err := a.ListResources(context.Background(), mcp.ListResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, res := range list.Resources {
		names = append(names, res.Name)
	}
	if got := strings.Join(names, " "); !strings.HasSuffix(got, "r.csv all.bin nothing.txt ten.bin") {
		t.Errorf("resources/list: got %s", got)
	}
	links := a.publish("publish('small\\n' * 3, 'x.txt'); publish('y\\n', 'r.csv')")
	if data, _, err := a.read(links[1].URI); err != nil || string(data) != "y\n" {
		t.Errorf("a file published again: got %q, %v", data, err)
	}
	big := a.publish("publish(bytes((16 << 20) + 1), 'big.bin')")
	if _, _, err := a.read(big[0].URI); err == nil || !strings.Contains(err.Error(), "files.output") {
		t.Errorf("a file over the limit: got %v, want an error that names files.output", err)
	}
}

func testReadWhileRunning(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	uri := a.publish("publish(b'before', 'f.txt')")[0].URI
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		req := mcp.CallToolRequest{}
		req.Params.Name = "run_python"
		req.Params.Arguments = map[string]any{"code": "import time\nopen('/tmp/bridged/files/f.txt', 'w').write('while')\ntime.sleep(600)", "timeout": 120}
		_, _ = a.CallTool(ctx, req) // it is canceled
	})
	defer running.Wait()
	defer cancel()
	for end := time.Now().Add(waitTime); ; time.Sleep(20 * time.Millisecond) {
		data, _, err := a.read(uri)
		if err == nil && string(data) == "while" {
			break
		}
		if time.Now().After(end) {
			t.Errorf("got %q, %v, want what the running code has written", data, err)
			break
		}
	}
	var reads sync.WaitGroup
	for range 20 { // at once, and the code still runs
		reads.Go(func() {
			if data, _, err := a.read(uri); err != nil || string(data) != "while" {
				t.Errorf("got %q, %v", data, err)
			}
		})
	}
	reads.Wait()
	req := mcp.CallToolRequest{} // another session of the agent's ends nothing here
	req.Params.Name, req.Params.Arguments = "run_python", map[string]any{"code": "publish(b'x', 'other.txt')", "session": "other"}
	if _, err := a.CallTool(context.Background(), req); err != nil {
		t.Error(err)
	}
	list, err := a.ListResources(context.Background(), mcp.ListResourcesRequest{})
	if err != nil || !strings.HasSuffix(list.Resources[len(list.Resources)-1].URI, "/other.txt") {
		t.Errorf("resources of two sessions: got %+v, %v", list, err)
	}
}

func testReadWhilePaused(t *testing.T, h *home, d *daemon, r *engines.Running) {
	d.until(t, "the other agents are gone", func() bool { return len(d.status(t).Sessions) == 0 })
	a := h.agent(t, h.dir)
	uri := a.publish("publish(b'asleep', 'f.txt')")[0].URI
	if r.Name != engines.Rootless { // on cgroups v1 it can't pause
		d.until(t, "the session is paused", func() bool { return d.python(t, "").State == "paused" })
	}
	if data, _, err := a.read(uri); err != nil || string(data) != "asleep" {
		t.Errorf("got %q, %v", data, err)
	}
}

func testFilesGo(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	uri := a.publish("import os\nopen('f', 'w').write('x')\npublish('f')")[0].URI
	a.run("os.remove('f')")
	if _, _, err := a.read(uri); err == nil || !strings.Contains(err.Error(), "nothing is published") {
		t.Errorf("a removed file: got %v", err)
	}
	a.run("os.symlink('/etc/passwd', 'f')")
	if data, _, err := a.read(uri); err == nil {
		t.Errorf("a link in its place gave %q", data)
	}
	a.run("os.remove('f'); os.mkfifo('f')")
	if data, _, err := a.read(uri); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe in its place gave %q, %v", data, err)
	}
	again := a.publish("os.remove('f')\nopen('f', 'w').write('y' * 100)\npublish('f')")[0].URI
	if again != uri {
		t.Errorf("published again at %s, first at %s", again, uri)
	}
	a.run("open('f', 'w').write('z' * 7)")
	if data, _, err := a.read(uri); err != nil || string(data) != "zzzzzzz" {
		t.Errorf("a file that was written again: got %q, %v", data, err)
	}
	a.call(map[string]any{"code": "1", "reset": true})
	if _, _, err := a.read(uri); err == nil || !strings.Contains(err.Error(), "goes with its sandbox") {
		t.Errorf("after a reset: got %v", err)
	}
	dead := a.publish("publish(b'x', 'f')")[0].URI
	if dead == uri {
		t.Error("a new sandbox has the address of an old one")
	}
	a.call(map[string]any{"code": "import os; os._exit(3)"})
	if _, _, err := a.read(dead); err == nil {
		t.Error("a file of a dead sandbox was read")
	}
	list, err := a.ListResources(context.Background(), mcp.ListResourcesRequest{})
	if err != nil || len(list.Resources) != 2 {
		t.Errorf("resources after the end: got %+v, %v", list, err)
	}
}

func testNoPlainFile(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	a.run("import os\nos.mkfifo('/tmp/pipe')\nos.symlink('/proc/self/environ', '/tmp/link')")
	for code, want := range map[string]string{
		"publish('/tmp/pipe')":           "no regular file",
		"publish('/dev/zero')":           "no regular file",
		"publish('/proc/self/status')":   "no regular file",
		"publish('/tmp/link')":           "no regular file",
		"publish('/workspace')":          "is a folder",
		"publish('/nowhere')":            "No such file",
		"publish('x' * 300, 'name.txt')": "", // a name too long for a path
	} {
		res := a.call(map[string]any{"code": code})
		if !res.IsError || !strings.Contains(text(res), want) {
			t.Errorf("%s: got %q, want an error with %q", code, text(res), want)
		}
	}
	links := a.publish("publish(b'x', '../../etc/cron.d/evil'); publish(b'x', '\\x1b[2Jname')")
	if len(links) != 2 || links[0].Name != "evil" || links[1].Name != "_[2Jname" {
		t.Errorf("hostile names: got %+v", links)
	}
}

func testFilesArePrivate(t *testing.T, h *home) {
	a, b := h.agent(t, h.dir), h.agent(t, h.dir)
	uri := a.publish("publish(b'secret', 'secret.txt')")[0].URI
	b.publish("publish(b'own', 'own.txt')")
	if data, _, err := b.read(uri); err == nil {
		t.Errorf("another agent read %q", data)
	}
	list, err := b.ListResources(context.Background(), mcp.ListResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range list.Resources {
		if res.URI == uri {
			t.Error("another agent's file is in the list")
		}
	}
	if data, _, err := a.read(uri); err != nil || string(data) != "secret" {
		t.Errorf("the agent itself: got %q, %v", data, err)
	}
}

func testSaved(t *testing.T, h *home, out string) {
	if err := os.WriteFile(filepath.Join(out, "mine.txt"), []byte("user's"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(h.dir, "outside")
	if err := os.Symlink(outside, filepath.Join(out, "trap.txt")); err != nil {
		t.Fatal(err)
	}
	a := h.agent(t, h.dir)
	res := a.call(map[string]any{"code": "publish(b'code', 'mine.txt'); publish(b'code', 'trap.txt'); publish(bytes(20_000_000), 'twenty.bin'); publish(bytes(20_000_000), 'more.bin');"})
	for _, name := range []string{"mine (2).txt", "trap (2).txt", "twenty.bin"} {
		if !strings.Contains(text(res), filepath.Join(out, name)) {
			t.Errorf("%s is not told: %s", name, text(res))
		}
	}
	if !strings.Contains(text(res), "more.bin was not saved") || !strings.Contains(text(res), "files.max_bytes") {
		t.Errorf("what did not fit is not told: %s", text(res))
	}
	for name, want := range map[string]string{"mine.txt": "user's", "mine (2).txt": "code", "trap (2).txt": "code"} {
		if data, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v, want %q", name, data, err, want)
		}
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a link in the folder was followed")
	}
	if data, err := os.ReadFile(filepath.Join(out, "twenty.bin")); err != nil || !bytes.Equal(data, make([]byte, 20_000_000)) {
		t.Errorf("twenty.bin holds %d bytes, %v", len(data), err)
	}
	a.run("publish(b'again', 'mine.txt');")
	if data, err := os.ReadFile(filepath.Join(out, "mine (2).txt")); err != nil || string(data) != "again" {
		t.Errorf("a file published again is saved as %q, %v", data, err)
	}
	res = a.call(map[string]any{"code": "publish(b'before', 'broken.txt')\n1/0"})
	if data, err := os.ReadFile(filepath.Join(out, "broken.txt")); err != nil || string(data) != "before" || !res.IsError {
		t.Errorf("what code published before it failed: %q, %v", data, err)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func testRunSaves(t *testing.T, h *home) {
	dir := filepath.Join(h.dir, "saved")
	cmd := h.command(bridged, "run", "-o", dir, "-c", "publish(b'one', 'one.txt'); publish(b'\\x00', 'two.bin');")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for name, want := range map[string]string{"one.txt": "one", "two.bin": "\x00"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v; it said: %s", name, data, err, said)
		}
	}
}

func testMounted(t *testing.T, h *home, source string) {
	a := h.agent(t, h.dir)
	if got := a.run("print(open('/data/deep/table.csv').read(), open('/one.txt').read())"); got != "a,b\n1,2\n one" {
		t.Errorf("read %q", got)
	}
	for _, code := range []string{"open('/data/new', 'w')", "open('/data/one.txt', 'a')", "open('/one.txt', 'w')", "import os; os.remove('/data/deep/table.csv')", "open('/data/link').read()"} {
		if res := a.call(map[string]any{"code": code}); !res.IsError {
			t.Errorf("%s worked: %s", code, text(res))
		}
	}
	if links := a.publish("publish('/data/deep/table.csv')"); len(links) != 1 {
		t.Errorf("mounted data can't be published: %+v", links)
	}
	if err := os.WriteFile(filepath.Join(source, "late.txt"), []byte("late"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := a.run("open('/data/late.txt').read()"); got != "'late'" {
		t.Errorf("a file that came later: %s", got)
	}
}

func testFolderSizes(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	if got := a.run("import os\n[(s := os.statvfs(p), s.f_blocks * s.f_frsize >> 20)[1] for p in ('/tmp', '/workspace')]"); got != "[60, 100]" {
		t.Errorf("MiB of /tmp and /workspace: got %s, want [60, 100]", got)
	}
}

// A mount that cannot be is told when the daemon starts, with file and line.
func TestABadMountEndsTheDaemonAtOnce(t *testing.T) {
	h := newHome(t)
	path := filepath.Join(h.dir, "config.toml")
	if err := os.WriteFile(path, []byte("[run]\ntimeout = 30\n[[mounts]]\nsource = \"/run\"\ntarget = \"/data\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := h.command(bridged, "serve", "--config", path).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "config.toml:3: source /run holds /run") {
		t.Errorf("got %v, %s", err, said)
	}
}
