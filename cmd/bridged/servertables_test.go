package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/proxy"
)

func TestServerTablesAreSettings(t *testing.T) {
	yes, no := true, false
	path := writeConfig(t, `
[servers]
idle = "5m"
[[server]]
idle = "never"
keep_alive = 30
[[server]]
name = "git*"
eager = true
stateful = false
validate = false
max = 3
concurrency = 8
start_timeout = "2m"
call_timeout = 90
idle = "1h"
keep_alive = "never"
retry_reads = ["get_*", "list"]
[[server]]
sandbox = { image = "node:22", network = "bridge", mounts = ["/srv:/srv:ro", "cache:/cache"], user = "1:1" }
`)
	c, err := loadConfig(flagsFor(t, "--config", path), env())
	if err != nil {
		t.Fatal(err)
	}
	want := []proxy.Setting{
		{Idle: -1, KeepAlive: 30 * time.Second},
		{
			Name: "git*", Eager: &yes, Stateful: &no, Validate: &no, Max: 3, Concurrency: 8, StartTimeout: 2 * time.Minute,
			CallTimeout: 90 * time.Second, Idle: time.Hour, KeepAlive: -1, RetryReads: []string{"get_*", "list"},
		},
		{Sandbox: &proxy.Sandbox{Image: "node:22", Network: "bridge", Mounts: []string{"/srv:/srv:ro", "cache:/cache"}, User: "1:1"}},
	}
	if diff := cmp.Diff(want, c.Server.settings()); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestBadServerTablesNameTheSpot(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"an unknown key", "[[server]]\negaer = true\n", []string{"config.toml:2", "server.egaer", "did you mean eager"}},
		{"a key like none", "[[server]]\nzzz = true\n", []string{"config.toml:2", "known keys are name, eager"}},
		{"a text for true", "[[server]]\neager = \"yes\"\n", []string{"config.toml:2", "neither true nor false"}},
		{"none at most", "[[server]]\nmax = 0\n", []string{"config.toml:2", "from 1"}},
		{"no call at once", "[[server]]\n\nconcurrency = -1\n", []string{"config.toml:3", "from 1"}},
		{"no time to start", "[[server]]\nstart_timeout = 0\n", []string{"config.toml:2", "30s"}},
		{"a start that never ends", "[[server]]\nstart_timeout = \"never\"\n", []string{"config.toml:2", "30s"}},
		{"a ping that is no time", "[[server]]\nkeep_alive = \"often\"\n", []string{"config.toml:2", "or never"}},
		{"reads that are no list", "[[server]]\nretry_reads = \"*\"\n", []string{"config.toml:2", "no list"}},
		{"a broken pattern", "[[server]]\nname = \"a\"\n[[server]]\nname = \"[\"\n", []string{"config.toml:3", `name "["`, "no pattern"}},
		{"a broken pattern of a tool", "\n[[ server ]]\nretry_reads = [\"get_[\"]\n", []string{"config.toml:2", `retry_reads "get_["`}},
		{"a table alone", "\n[server]\nname = \"[\"\n", []string{"config.toml:2", "no pattern"}},
		{"a sandbox without an image", "[[server]]\nsandbox = { network = \"none\" }\n", []string{"config.toml:1", "no image"}},
		{"a network that is none", "[[server]]\nsandbox = { image = \"i\", network = \"a b\" }\n", []string{"config.toml:1", `network "a b"`}},
		{"a mount from nowhere", "[[server]]\nsandbox = { image = \"i\", mounts = [\"./a:/b\"] }\n", []string{"config.toml:1", `"./a:/b"`, "absolute"}},
		{"a mount that is none", "[[server]]\nsandbox = { image = \"i\", mounts = [\"/a:b\"] }\n", []string{"config.toml:1", `target "b"`}},
		{"a user that is none", "[[server]]\nsandbox = { image = \"i\", user = \"a b\" }\n", []string{"config.toml:1", `user "a b"`}},
		{"an unknown key of a sandbox", "[[server]]\nsandbox = { imgae = \"i\" }\n", []string{"config.toml:2", "did you mean image"}},
		{"too many", strings.Repeat("[[server]]\n", 257), []string{"257", "256"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			wantRefused(t, row.text, row.want...)
		})
	}
}

func TestDocumentationNamesEveryKeyOfAServerTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/servers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range serverKeys() {
		if !strings.Contains(string(text), "\n| `"+key+"` |") {
			t.Errorf("docs/servers.md has no row for %s", key)
		}
	}
}
