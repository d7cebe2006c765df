//go:build integration

package integration

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/integration/engines"
)

// sample is how often the machine's command lines are looked at.
const sample = 10 * time.Millisecond

// canaries are secrets, by where they are. None of them may be anywhere else.
type canaries map[string]string

func newCanaries(places ...string) canaries {
	c := canaries{}
	for _, p := range places {
		c[p] = "canary-" + rand.Text()
	}
	return c
}

// expectNone fails the test for each secret that is in text.
func (c canaries) expectNone(t *testing.T, where, text string) {
	t.Helper()
	for place, secret := range c {
		if strings.Contains(text, secret) {
			t.Errorf("the secret of %s is in %s", place, where)
		}
	}
}

// TestSecretsStayWhereTheyAre gives secrets to the daemon, to the agent and to
// servers, starts everything, makes servers fail, and looks for the secrets
// where others could read them.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	for _, name := range []engines.Name{engines.Rootful, engines.Docker} {
		t.Run(string(name), func(t *testing.T) { testSecrets(t, engines.ForTest(t, name)) })
	}
}

func testSecrets(t *testing.T, r *engines.Running) {
	c := newCanaries("the daemon's environment", "the agent's environment", "a server's environment", "a failing server's environment", "a header")
	h := onEngine(t, r, "MCP_BRIDGE_LOG_LEVEL=debug", "DAEMON_TOKEN="+c["the daemon's environment"])
	h.servers(t, map[string]any{
		"everything": map[string]any{"command": "mcp-server-everything", "env": map[string]string{"TOKEN": c["a server's environment"]}},
		"failing": map[string]any{"command": "python3", "args": []string{"-c", "raise SystemExit('no service today')"},
			"env": map[string]string{"TOKEN": c["a failing server's environment"]}},
		"inherits": map[string]any{"command": "python3", "args": []string{"-c", "raise SystemExit(3)"}, "env": map[string]string{"TOKEN": "${AGENT_TOKEN}"}},
		"far":      map[string]any{"url": "http://127.0.0.1:9/mcp", "headers": map[string]string{"Authorization": "Bearer " + c["a header"]}},
	})
	seen := c.watchCommandLines(t)
	d := h.serve(t)
	d.ready(t)
	h.env = append(h.env, "AGENT_TOKEN="+c["the agent's environment"])
	a := h.agent(t, h.dir)
	c.expectNone(t, "what code sees", a.run(`
import glob, os
for name in ('environ', 'cmdline', 'mountinfo'):
    for path in glob.glob(f'/proc/*/{name}') + glob.glob(f'/proc/*/task/*/{name}'):
        try: print(path, open(path, 'rb').read())
        except OSError: pass
dict(os.environ)`))
	a.run("print(await mcp_everything.echo(message='hi'))", "everything")
	for _, server := range []string{"failing", "inherits", "far"} {
		res := a.call(map[string]any{"code": "from mcp import runtime\nprint(runtime.describe_server('" + server + "'))\n" +
			"await runtime.call_tool('" + server + "', 'x', {})", "servers": []string{server}})
		c.expectNone(t, "the error of a server that can't be used", text(res))
	}
	status, err := json.Marshal(d.status(t))
	if err != nil {
		t.Fatal(err)
	}
	c.expectNone(t, "status", string(status))
	c.expectNone(t, "the shim's stderr", a.stderr.String())
	c.expectNone(t, "the log", d.log.String())
	c.expectNoFiles(t, h)
	for place, secret := range c {
		files, err := r.Grep(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) > 0 {
			t.Errorf("the engine keeps the secret of %s in %v", place, files)
		}
	}
	seen()
}

// watchCommandLines looks at all programs' arguments until the result is called.
func (c canaries) watchCommandLines(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
			for _, path := range paths {
				line, err := os.ReadFile(path)
				if err == nil && c.in(string(line)) { // else it has ended, or is like most
					c.expectNone(t, "a command line: "+c.describe(path, string(line)), string(line))
				}
			}
			time.Sleep(sample)
		}
	})
	return func() { cancel(); done.Wait() }
}

// in reports whether text holds one of the secrets.
func (c canaries) in(text string) bool {
	for _, secret := range c {
		if strings.Contains(text, secret) {
			return true
		}
	}
	return false
}

// describe says whose command line it is, without the secrets in it. The process
// may be another one by now, or none.
func (c canaries) describe(path, line string) string {
	comm, err := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
	if err != nil {
		comm = []byte("gone by now")
	}
	for place, secret := range c {
		line = strings.ReplaceAll(line, secret, "[the secret of "+place+"]")
	}
	return fmt.Sprintf("%s (%s): %q", path, strings.TrimSpace(string(comm)), strings.Split(strings.TrimSuffix(line, "\x00"), "\x00"))
}

// expectNoFiles looks at all that the daemon keeps in a home: nobody else may
// read it, and it holds no secret. The daemon goes on meanwhile: files that it
// replaces are gone when they are looked at.
func (c canaries) expectNoFiles(t *testing.T, h *home) {
	t.Helper()
	gone := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	err := filepath.WalkDir(h.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		info, err := e.Info()
		if err != nil {
			return gone(err)
		}
		if info.Mode().Perm()&0o077 != 0 && e.Type() != fs.ModeSymlink {
			t.Errorf("others may use %s: mode %s", path, info.Mode())
		}
		if !e.Type().IsRegular() || strings.HasPrefix(path, filepath.Join(h.dir, "MCPs")) {
			return nil
		}
		text, err := os.ReadFile(path)
		c.expectNone(t, path, string(text))
		return gone(err)
	})
	if err != nil {
		t.Error(err)
	}
}
