package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/ops"
)

func TestStatusHasALineForEachPythonSession(t *testing.T) {
	synctest.Test(t, testStatusOfPythonSessions) // where time stands still: ages are printed
}

func testStatusOfPythonSessions(t *testing.T) {
	now := time.Now()
	s := ops.Status{Approvals: 3, Queues: ops.Queues{Shims: 2}, Pool: ops.Pool{Limit: "32 are allowed (pool.max)"}, Sessions: []ops.Session{{ID: "x", Since: now, Pythons: []ops.Python{
		{State: "none", Since: now.Add(-time.Hour)},
		{Name: "s \"1\"", State: "paused", Sandbox: "0123456789abcdef", Since: now.Add(-time.Hour), Used: now.Add(-10 * time.Minute), Calls: 7},
		{Name: "s2", State: "running", Sandbox: "fedcba9876543210", Since: now, Used: now.Add(-time.Minute), Calls: 1, Running: 1},
	}}}}
	var b bytes.Buffer
	if err := printStatus(&b, s, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"0 being made; 32 are allowed (pool.max)\n",
		"approvals  3 calls wait for you: bridged approvals\n",
		"sessions   2 of an earlier daemon wait for their agents' shims\n",
		"  default  none  0 calls, 0 running, 1h0m0s old\n",
		`  "s \"1\""  paused in sandbox 01234567  7 calls, 0 running, 1h0m0s old, idle for 10m0s` + "\n",
		`  "s2"  running in sandbox fedcba98  1 calls, 1 running, 0s old` + "\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant a line that ends in %q", b.String(), want)
		}
	}
}

func TestStatusTellsWhereAnEngineWasLookedFor(t *testing.T) {
	const none = "no engine\n  /a.sock: refused\n  /b.sock: \x1b[31mrefused"
	s := ops.Status{Reason: none, Engine: ops.Engine{Error: none}}
	var b bytes.Buffer
	if err := printStatus(&b, s, false); err != nil {
		t.Fatal(err)
	}
	const want = "ready    no: no engine\n" +
		"engine   none: no engine\n" +
		"           /a.sock: refused\n" +
		`           /b.sock: \x1b[31mrefused` + "\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("got\n%s\nwant in it\n%s", b.String(), want)
	}
}
