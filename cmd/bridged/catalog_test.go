package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/ops"
)

// catalogHome is a person's home with a daemon that answers on its operations
// socket, and two servers, one of which can't be started.
func catalogHome(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("BRIDGED_SOCKET", filepath.Join(home, "mcp.sock"))
	t.Chdir(home)
	script, err := json.Marshal(tinyServer)
	if err != nil {
		t.Fatal(err)
	}
	writeServers(t, home, fmt.Sprintf(`{"mcpServers": {
		"tiny": {"command": "/bin/sh", "args": ["-c", %s]},
		"broken": {"command": "no-such-program"}}}`, script))
	c, p, err := configHere()
	if err != nil {
		t.Fatal(err)
	}
	d := newDaemon(c, p, "0123456789abcdef", nil, &traces{}, emptyFiles(t), zerolog.Nop())
	if d.audit, err = startAudit(c, p.audit, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close(false) })
	ln, err := net.Listen("unix", p.ops)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- ops.Serve(t.Context(), ln, d.operations()) }() // ends with the test
	t.Cleanup(func() {
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return home
}

func TestTheCatalogueOnTheCommandLine(t *testing.T) {
	home := catalogHome(t)
	run := func(fails bool, want ...string) func(args ...string) {
		return func(args ...string) {
			t.Helper()
			var text bytes.Buffer
			root := rootCommand()
			root.SetArgs(append([]string{"catalog"}, args...))
			root.SetOut(&text)
			root.SetErr(&text)
			err := root.ExecuteContext(t.Context())
			out := text.String()
			if _, code := errors.AsType[exitCode](err); code != fails || err != nil && !code {
				t.Errorf("%v: %v", args, err)
			}
			for _, part := range want {
				if !strings.Contains(out, part) {
					t.Errorf("%v: got\n%s\nwant %q in it", args, out, part)
				}
			}
		}
	}
	run(false, "broken  configured  -", "tiny    configured  -")()
	run(false, "no server here has tools that are known; --all asks")("refresh")
	run(true, "\u2713 tiny  2 tools, not known before", "\u2717 broken", `"no-such-program" is not found in PATH`)("refresh", "--all")
	run(false, "\u2713 tiny  2 tools, unchanged")("refresh")
	run(true, "\u2717 tinny", "Did you mean tiny?")("refresh", "tinny")
	// Between the two parts of a row is the column that tells how long ago a list was made, which is as wide as that.
	run(false, "broken  configured  -      -       ", "-        can't be used\n", "tiny    started     2", "\nbroken: command \"no-such-program\" is not found")()
	run(false, `"server": "tiny",`, `"state": "started",`, `"tools": 2,`)("--json")
	// A list is kept on disk after everybody who waits for it has it.
	eventually := func(ok func() bool) {
		for end := time.Now().Add(soon); !ok() && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	var kept []string
	var err error
	eventually(func() bool {
		kept, err = filepath.Glob(filepath.Join(home, ".cache/bridged/catalog/*.tools"))
		return err != nil || len(kept) > 0
	})
	if err != nil || len(kept) != 1 {
		t.Errorf("on disk: %v, %v", kept, err)
	}
	t.Setenv("LANG", "xx") // which servers get, so that they are others
	eventually(func() bool {
		out, err := bridged(t, "catalog")
		return err != nil || strings.Contains(out, "catalogued")
	})
	run(false, "tiny    catalogued  2", "of another environment", "kept of others:\ntiny  started  2")()
	run(false, "1 list dropped")("clear", "tiny")
	run(true, "no list of a server tiny is kept", "0 lists dropped")("clear", "tiny")
	run(false, "0 lists dropped")("clear")
	if _, err := bridged(t, "catalog", "refresh", "--all", "tiny"); err == nil || !strings.Contains(err.Error(), "name the servers, or give --all") {
		t.Errorf("names and --all: %v", err)
	}
	t.Setenv("BRIDGED_SOCKET", filepath.Join(home, "other.sock"))
	if _, err := bridged(t, "catalog"); err == nil || !strings.Contains(err.Error(), "no daemon answers") {
		t.Errorf("without a daemon: %v", err)
	}
}

func TestARefreshTellsWhatHasChanged(t *testing.T) {
	many := make([]string, 20)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, row := range []struct {
		name string
		one  ops.Refreshed
		want string
	}{
		{"nothing", ops.Refreshed{Version: "1", Was: "1"}, "unchanged"},
		{"tools", ops.Refreshed{Added: []string{"a"}, Removed: []string{"b", "c"}, Changed: []string{"d"}}, "+a -b -c ~d"},
		{"the version alone", ops.Refreshed{Version: "2", Was: "1"}, "version 2 (was 1)"},
		{"many tools", ops.Refreshed{Added: many}, "+t10 +t11 and 8 more"},
		{"the first list", ops.Refreshed{First: true, Version: "2"}, "not known before"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			r := refreshing{out: &out}
			if err := r.print(row.one); err != nil || !strings.Contains(out.String(), row.want+", after") {
				t.Errorf("got %s, %v, want %q in it", &out, err, row.want)
			}
		})
	}
}
