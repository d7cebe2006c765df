package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func flagsFor(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func env(pairs ...string) func(string) string {
	m := map[string]string{"HOME": "/nonexistent"}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	return func(k string) string { return m[k] }
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	path := writeConfig(t, `
[sandbox]
memory = "256m"
pids = 99
cpus = 2
imports = ["json", "re"]
[run]
timeout = "5s"
`)
	c, err := loadConfig(flagsFor(t, "--config", path, "--sandbox-pids", "77"),
		env("MCP_BRIDGE_PIDS=88", "MCP_BRIDGE_TIMEOUT=45", "MCP_BRIDGE_CPUS=0.5"))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Sandbox.Memory, c.Sandbox.Pids, c.Sandbox.CPUs, c.Sandbox.Imports, time.Duration(c.Run.Timeout), c.Pool.Warm)
	if want := "256m 77 0.5 json,re 45s 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBadConfigurationNamesTheSpot(t *testing.T) {
	for _, row := range []struct {
		name, text string
		args, env  []string
		want       []string
	}{
		{name: "an unknown key is named with its line and the nearest one",
			text: "[sandbox]\nmemory = \"1g\"\nmemroy = \"1g\"\n", want: []string{"config.toml:3", "sandbox.memroy", "sandbox.memory"}},
		{name: "two unknown keys are both named",
			text: "[pool]\nwram = 1\n[zzz]\nx = 1\n", want: []string{"config.toml:2", "pool.wram", "zzz"}},
		{name: "broken TOML has its line", text: "[sandbox\n", want: []string{"config.toml:1"}},
		{name: "JSON is no TOML", text: "{\"sandbox\": {}}\n", want: []string{"config.toml:1"}},
		{name: "a wrong type has its line", text: "[pool]\nwarm = \"two\"\n", want: []string{"config.toml:2"}},
		{name: "a size without sense", text: "[sandbox]\nmemory = \"lots\"\n", want: []string{"config.toml:2", "lots"}},
		{name: "a negative number", text: "[pool]\nwarm = -1\n", want: []string{"config.toml:2", "-1"}},
		{name: "a negative span of time", text: "[run]\ntimeout = -5\n", want: []string{"config.toml:2", "-5", "30s"}},
		{name: "a negative fraction of time", text: "[run]\n\ntimeout = -0.5\n", want: []string{"config.toml:3", "-0.5"}},
		{name: "a span of time that is true", text: "[run]\ntimeout = true\n", want: []string{"config.toml:2", "true is no duration"}},
		{name: "a span of time that is a date", text: "[run]\ntimeout = 2026-01-01\n", want: []string{"config.toml:2", "no duration"}},
		{name: "a span of time that is a list", text: "[run]\ntimeout = [1]\n", want: []string{"config.toml:2", "no duration"}},
		{name: "a span of time that never ends", text: "[run]\ntimeout = inf\n", want: []string{"config.toml:2", "30s"}},
		{name: "a span of time that is no number", text: "[run]\ntimeout = nan\n", want: []string{"config.toml:2", "30s"}},
		{name: "no time at all", text: "[servers]\nidle = 0\n", want: []string{"config.toml:2", "no span of time"}},
		{name: "a patience that is false", text: "[run]\nyield_after = false\n", want: []string{"config.toml:2", "false is no duration"}},
		{name: "a negative patience", text: "[run]\nyield_after = -1\n", want: []string{"config.toml:2", "or never"}},
		{name: "a fraction of bytes", text: "[sandbox]\nmemory = 1.5\n", want: []string{"config.toml:2", "1.5 is no size"}},
		{name: "a negative size", text: "[sandbox]\nmemory = -1\n", want: []string{"config.toml:2", "-1"}},
		{name: "a size that is true", text: "[sandbox]\nmemory = true\n", want: []string{"config.toml:2", "true is no size"}},
		{name: "a word that is a number", text: "[sandbox]\nimage = 5\n", want: []string{"config.toml:2", "5 is no text"}},
		{name: "a list that is a word", text: "[sandbox]\nimports = \"numpy\"\n", want: []string{"config.toml:2", "is no list"}},
		{name: "a list of numbers", text: "[sandbox]\nimports = [1]\n", want: []string{"config.toml:2", "a list holds texts"}},
		{name: "half a process", text: "[sandbox]\npids = 99.5\n", want: []string{"config.toml:2", "99.5 is no number"}},
		{name: "folders in memory that fill it", text: "[sandbox]\ntmp = \"450m\"\n", want: []string{"sandbox.tmp 450m", "sandbox.memory 512m", "smaller"}},
		{name: "an environment variable", env: []string{"MCP_BRIDGE_MEMORY=x"}, want: []string{"MCP_BRIDGE_MEMORY", "512m"}},
		{name: "a share of more than there is", text: "[pool]\nmemory = \"120%\"\n", want: []string{"config.toml:2", "75%"}},
		{name: "no session at all", env: []string{"MCP_BRIDGE_MAX_SESSIONS=0"}, want: []string{"run.max_sessions"}},
		{name: "a patience that is none", env: []string{"MCP_BRIDGE_YIELD_AFTER=-1s"}, want: []string{"MCP_BRIDGE_YIELD_AFTER", "or never"}},
		{name: "root", env: []string{"MCP_BRIDGE_CONTAINER_USER=0:0"}, want: []string{"sandbox.user", "65534:65534"}},
		{name: "a user name", env: []string{"MCP_BRIDGE_CONTAINER_USER=nobody"}, want: []string{"sandbox.user"}},
		{name: "too little memory", args: []string{"--sandbox-memory", "1m"}, want: []string{"64m"}},
		{name: "a default over its cap", args: []string{"--run-timeout", "10m"}, want: []string{"run.max_timeout"}},
		{name: "more warm than may be", args: []string{"--pool-warm", "40"}, want: []string{"pool.max"}},
		{name: "a log level", args: []string{"--log-level", "loud"}, want: []string{"debug, info, warn or error"}},
		{name: "a log format", args: []string{"--log-format", "xml"}, want: []string{"text, json or auto"}},
		{name: "a file that was asked for and is not there", args: []string{"--config", "/nonexistent/c.toml"}, want: []string{"/nonexistent/c.toml"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := row.args
			if row.text != "" {
				args = append(args, "--config", writeConfig(t, row.text))
			}
			_, err := loadConfig(flagsFor(t, args...), env(row.env...))
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range row.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestABareNumberIsSecondsOrBytes(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"seconds", "[run]\ntimeout = 45", "45s 2m 50s 10m 512m"},
		{"a fraction of a second", "[run]\ntimeout = 0.5", "500ms 2m 50s 10m 512m"},
		{"digits in groups", "[run]\nmax_timeout = 7_200", "30s 2h 50s 10m 512m"},
		{"text", "[servers]\nidle = \"90\"", "30s 2m 50s 1m30s 512m"},
		{"patience", "[run]\nyield_after = 20", "30s 2m 20s 10m 512m"},
		{"a fraction of patience", "[run]\nyield_after = 1.5", "30s 2m 1.5s 10m 512m"},
		{"no patience", "[run]\nyield_after = 0.0", "30s 2m never 10m 512m"},
		{"bytes", "[sandbox]\nmemory = 1073741824", "30s 2m 50s 10m 1g"},
		{"bytes in another base", "[sandbox]\nmemory = 0x4000_0000", "30s 2m 50s 10m 1g"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := writeConfig(t, row.text+"\n")
			c, err := loadConfig(flagsFor(t, "--config", path), env())
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(c.Run.Timeout, c.Run.MaxTimeout, c.Run.YieldAfter, c.Servers.Idle, c.Sandbox.Memory)
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestTheSpecHasTheFoldersSizes(t *testing.T) {
	c, err := loadConfig(flagsFor(t, "--sandbox-tmp", "100m", "--sandbox-workspace", "1m"), env())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, f := range c.spec().Tmpfs {
		got[f.Target] = f.SizeBytes >> 20
	}
	want := map[string]int64{"/tmp": 100, "/workspace": 1, "/projects": 16}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MiB of the folders (-want +got):\n%s", diff)
	}
}

func TestAPatienceIsASpanOrNever(t *testing.T) {
	for _, row := range []struct {
		name, toml string
		want       time.Duration
	}{
		{"a span", `"20s"`, 20 * time.Second},
		{"a number of seconds", `"20"`, 20 * time.Second},
		{"never", `"never"`, 0},
		{"0 is never", `0`, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := writeConfig(t, "[run]\nyield_after = "+row.toml+"\n")
			c, err := loadConfig(flagsFor(t, "--config", path), env())
			if err != nil {
				t.Fatal(err)
			}
			if got := time.Duration(c.Run.YieldAfter); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestDefaultsAreValidWithoutAFile(t *testing.T) {
	if _, err := loadConfig(flagsFor(t), env()); err != nil {
		t.Error(err)
	}
}

func TestValuesKeepTheirTextForm(t *testing.T) {
	for _, k := range defaultConfig().keys() {
		before := k.value.String()
		if err := k.value.Set(before); err != nil && before != "" {
			t.Errorf("%s: its own text %q: %v", k.name, before, err)
		}
		if after := k.value.String(); after != before {
			t.Errorf("%s: got %q after setting it to %q", k.name, after, before)
		}
	}
}

// The reference for people and the code must not drift apart.
func TestDocumentationNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			rows++
		}
	}
	keys := defaultConfig().keys()
	if rows != len(keys) {
		t.Errorf("the table has %d keys, the code %d", rows, len(keys))
	}
	for _, k := range keys {
		want := fmt.Sprintf("| `%s` | `%s` | `--%s` | `%s` | %s |\n", k.name, k.env, k.flag(), k.value, k.usage)
		if k.value.String() == "" { // an empty cell
			want = strings.Replace(want, "| `` |", "|  |", 1)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("missing row:\n%s", want)
		}
	}
}

func TestAShareOfMemory(t *testing.T) {
	for _, row := range []struct {
		text, shown string
		of          int64 // a machine with 1000 bytes
	}{
		{"75%", "75%", 750},
		{"100 %", "100%", 1000},
		{"2k", "2k", 2048},
		{"never", "never", 0},
		{"0", "never", 0},
	} {
		var s share
		if err := s.Set(row.text); err != nil || s.String() != row.shown || s.of(1000) != row.of {
			t.Errorf("%s: got %s, %d and %v; want %s and %d", row.text, s, s.of(1000), err, row.shown, row.of)
		}
	}
	for _, text := range []string{"", "0%", "101%", "x%", "-1", "half"} {
		var s share
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), "never") {
			t.Errorf("%q: got %s and %v, want an error with advice", text, s, err)
		}
	}
}

// wantRefused has a configuration file that is wrong refused, with words that
// say where and what to do.
func wantRefused(t *testing.T, file string, say ...string) {
	t.Helper()
	_, err := loadConfig(flagsFor(t, "--config", writeConfig(t, file)), env())
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range say {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}
