//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bridged/bridged/integration/engines"
)

// TestAuditRefusesWhatItCannotLog lets the daemon's files grow no further, as on
// a full disk, and then again.
func TestAuditRefusesWhatItCannotLog(t *testing.T) {
	h := onEngine(t, engines.ForTest(t, engines.Rootful), "MCP_BRIDGE_AUDIT_ON_ERROR=refuse")
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("n = 1")
	file := filepath.Join(d.status(t).Audit.Path, "audit-000001.jsonl")
	d.until(t, "the run is logged", func() bool { return strings.Contains(read(t, file), `"n = 1"`) })

	var before unix.Rlimit
	full := func(limit *unix.Rlimit) {
		t.Helper()
		if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_FSIZE, limit, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		t.Fatal(err)
	}
	full(&unix.Rlimit{Cur: uint64(len(read(t, file))), Max: before.Max})
	a.run("n += 1") // was let through, and its line waits
	d.until(t, "the log cannot be written", func() bool { return d.status(t).Audit.Error != "" })
	res := a.call(map[string]any{"code": "n += 10"})
	if got := text(res); !res.IsError || !strings.Contains(got, "nothing ran") || !strings.Contains(got, "audit.on_error is refuse") {
		t.Errorf("while it cannot be written: %s", got)
	}

	full(&before)
	d.until(t, "the log is written again", func() bool { return d.status(t).Audit.Error == "" })
	if got := a.run("n"); !strings.Contains(got, "2") {
		t.Errorf("afterwards n is %s, want 2", got)
	}
	d.until(t, "the last run is logged", func() bool { return strings.Contains(read(t, file), `"code":"n"`) })
	if got := read(t, file); !strings.Contains(got, `"n += 1"`) || strings.Contains(got, "n += 10") || strings.Contains(got, `"kind":"gap"`) {
		t.Errorf("the log:\n%s", got)
	}
	h.audit(t, "verify")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
