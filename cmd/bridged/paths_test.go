package main

import (
	"path/filepath"
	"testing"
)

func TestPathsFollowTheEnvironment(t *testing.T) {
	for _, row := range []struct {
		name   string
		env    []string
		socket string
		ops    string
		state  string
		cache  string
	}{
		{"the runtime folder of the session", []string{"HOME=/h", "XDG_RUNTIME_DIR=/run/user/1"},
			"/run/user/1/bridged/mcp.sock", "/run/user/1/bridged/ops.sock", "/h/.local/state/bridged", "/h/.cache/bridged"},
		{"no runtime folder", []string{"HOME=/h"},
			"/h/.local/state/bridged/mcp.sock", "/h/.local/state/bridged/ops.sock", "/h/.local/state/bridged", "/h/.cache/bridged"},
		{"a socket by name has an operations socket by name", []string{"XDG_CACHE_HOME=/c", "BRIDGED_SOCKET=/x/a.sock", "XDG_STATE_HOME=/s"},
			"/x/a.sock", "/x/a-ops.sock", "/s/bridged", "/c/bridged"},
	} {
		p, err := findPaths(env(row.env...))
		if err != nil || p.socket != row.socket || p.ops != row.ops || p.state != row.state || p.cache != row.cache {
			t.Errorf("%s: got %+v, %v", row.name, p, err)
		}
	}
}

func TestInstanceBelongsToTheSocketAndStays(t *testing.T) {
	state := t.TempDir()
	id := func(socket string) string {
		v, err := paths{socket: socket, state: filepath.Join(state, "s")}.instance()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	a, b := id("/a.sock"), id("/b.sock")
	if a == b {
		t.Error("two sockets share one instance")
	}
	if again := id("/a.sock"); again != a {
		t.Errorf("instance changed from %s to %s", a, again)
	}
}
