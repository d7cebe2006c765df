package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// tinyServer is an MCP server in a shell: it answers what a trial asks.
const tinyServer = `
while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
  *'"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{}}' ;;
  *'"ping"'*) r='{}' ;;
  *'"tools/list"'*) r='{"tools":[{"name":"one"},{"name":"two"}]}' ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done`

func TestTrialOfAServerSaysExactlyWhatIsWrong(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	sh := func(script string) discovery.Server {
		return discovery.Server{Name: "x", Transport: discovery.Stdio, Command: "/bin/sh", Args: []string{"-c", script}}
	}
	for _, row := range []struct {
		name   string
		server discovery.Server
		ok     bool
		want   []string
	}{
		{"it works", sh(tinyServer), true, []string{"\u2713 definition", "\u2713 command     /bin/sh with 2 arguments", "\u2713 start", "protocol version 2025-06-18", "\u2713 ping", "\u2713 tools       2: one, two", "\u2713 stop"}},
		{"the command is not there", discovery.Server{Name: "x", Transport: discovery.Stdio, Command: "no-such-program"}, false, []string{"\u2717 start", `"no-such-program" is not found in PATH`, "install it"}},
		{"it ends at once", sh("echo no key given >&2; exit 3"), false, []string{"\u2717 start", "exit status 3", "no key given", "by hand"}},
		{"it is no MCP server", sh("echo Listening on port 80; read -r line; exit 0"), false, []string{"\u2717 start", "Listening on port 80", "is not MCP"}},
		{"it never answers", sh("echo fetching >&2; sleep 60"), false, []string{"\u2717 start", "did not answer initialize within 3s", "fetching", "start_timeout"}},
		{"it refuses our protocol", sh(strings.Replace(tinyServer, `printf`, `printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"too new"}}\n' "$id"; continue; printf`, 1)), false, []string{"\u2717 start", "refused initialize", "too new"}},
		{"another name", discovery.Server{Name: "xyz", Transport: discovery.Stdio, Command: "sh"}, false, []string{"\u2717 definition", "There are: xyz"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out, waits bytes.Buffer
			c, limit := defaultConfig(), time.Minute
			if strings.Contains(strings.Join(row.want, ""), "within 3s") {
				limit = 3 * time.Second
			}
			c.Server = serverTables{{StartTimeout: duration(limit), Eager: truth{set: true, on: true}}}
			if row.ok {
				c.Server = nil
			}
			before := openFiles(t)
			err := trial{conf: c, paths: paths{state: t.TempDir()}, servers: []discovery.Server{row.server}, out: &out, waits: &waits}.run(t.Context(), "x")
			if _, failed := errors.AsType[exitCode](err); failed == row.ok || err != nil == row.ok {
				t.Errorf("got %v", err)
			}
			for _, want := range row.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got\n%s\nwant %q in it", &out, want)
				}
			}
			if after := openFiles(t); after > before {
				t.Errorf("%d open files, %d before", after, before)
			}
		})
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestTrialNamesTheVariableThatIsMissing(t *testing.T) {
	home := t.TempDir()
	writeServers(t, home, `{"mcpServers": {"x": {"command": "sh", "env": {"K": "${NO_SUCH_TOKEN}"}}}}`)
	found := discovery.Load(discovery.Options{Home: home, Cwd: home, Getenv: os.LookupEnv})
	var out bytes.Buffer
	err := trial{conf: defaultConfig(), paths: paths{state: t.TempDir()}, servers: found.Servers, out: &out, waits: &out}.run(t.Context(), "x")
	if err == nil || !strings.Contains(out.String(), "\u2717 variables") || !strings.Contains(out.String(), "Set NO_SUCH_TOKEN where") {
		t.Errorf("got %v and\n%s", err, &out)
	}
}

func TestTrialSaysWhyADefinitionIsNotInForce(t *testing.T) {
	home := t.TempDir()
	writeServers(t, home, `{"mcpServers": {"off": {"command": "sh", "disabled": true}, "broken": {"command": 5}}}`)
	found := discovery.Load(discovery.Options{Home: home, Cwd: home, Getenv: os.LookupEnv})
	for name, want := range map[string]string{"off": "is switched off", "broken": "can't be read"} {
		if err := usable(found, name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".claude.json") {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func writeServers(t *testing.T, home, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
