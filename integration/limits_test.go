//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

// TestLimits runs code that does not end well, each in a session of its own.
// The answer says what happened and whether variables are kept, that is true,
// and the next call works.
func TestLimits(t *testing.T) {
	onEngines(t, engines.All, func(t *testing.T, h *home, _ *daemon, _ *engines.Running) {
		t.Run("sessions", func(t *testing.T) { // returns once all of them have
			for _, row := range limits {
				t.Run(row.name, func(t *testing.T) {
					t.Parallel()
					testLimit(t, h, row)
				})
			}
		})
		// One after the other: without cgroups all of a user's sandboxes
		// share the limit of processes.
		for _, row := range bombs {
			t.Run(row.name, func(t *testing.T) { testLimit(t, h, row) })
		}
	}, "MCP_BRIDGE_MEMORY=160m", "MCP_BRIDGE_TMP=16m", "MCP_BRIDGE_WORKSPACE=16m")
}

func testLimit(t *testing.T, h *home, row limitRow) {
	a := h.agent(t, h.dir)
	a.run("x = 1")
	args := map[string]any{"code": row.code, "timeout": 60}
	if row.timeout {
		args["timeout"] = 1
	}
	got := text(a.call(args))
	for _, want := range row.want {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	lost := strings.Contains(got, "state lost")
	if lost != row.lost && !row.either {
		t.Errorf("got %q, want it to say that the state is lost: %v", got, row.lost)
	}
	if row.timeout && !strings.Contains(got, "timeout") {
		t.Errorf("got %q, want it to say that it is a timeout", got)
	}
	after := text(a.call(map[string]any{"code": "x"}))
	if gone := strings.Contains(after, "NameError"); gone != lost {
		t.Errorf("the next call: got %q, want the variable gone: %v", after, lost)
	}
	if left := text(a.call(map[string]any{"code": sleepers})); !strings.HasPrefix(left, "[]") {
		t.Errorf("processes left: %s", left)
	}
}

// sleepers lists what is left of the processes that the code started.
const sleepers = `import os, time
def line(p):
    try: return open(f"/proc/{p}/cmdline").read()
    except OSError: return ""
for _ in range(500): # one that was killed takes its time to die
    left = [p for p in os.listdir("/proc") if p.isdigit() and "sleep" in line(p)]
    if not left: break
    time.sleep(0.01)
left`

type limitRow struct {
	name    string
	code    string
	timeout bool // its time limit is short, and reached
	lost    bool // the interpreter is killed
	either  bool // or it is not
	want    []string
}

var limits = []limitRow{
	{"a top-level await", "import asyncio\nprint('until then')\nawait asyncio.wait_for(asyncio.Event().wait(), 90)", true, false, false, []string{"until then", "line 3"}},
	{"a gather", "import asyncio\nawait asyncio.gather(*[asyncio.sleep(90) for _ in range(10)])", true, false, false, nil},
	{"a coroutine that blocks", "import time\nasync def f(): time.sleep(60)\nawait f()", true, false, false, []string{"time.sleep(60)"}},
	{"a swallowed cancellation", "import asyncio\nasync def f():\n    try: await asyncio.sleep(60)\n    except asyncio.CancelledError: pass\n    await asyncio.sleep(60)\nawait f()", true, false, false, nil},
	{"a busy loop", "while True: pass", true, false, false, nil},
	{"C code that looks for signals", "import re\nre.match('(a+)+$', 'a' * 60 + 'b')", true, false, false, []string{"line 2"}},
	{"C code that does not", "max(range(10**12))", true, true, false, []string{"did not stop"}},
	{"code that swallows every interrupt", "import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass", true, true, false, []string{"did not stop"}},
	{"a sleep with SIGINT ignored", "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)", true, true, false, []string{"did not stop"}},
	{"a process that stops itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", true, true, false, []string{"did not stop"}},
	{"subprocess.run", "import subprocess\nsubprocess.run(['sleep', '600'])", true, false, false, nil},
	{"a session of its own", "import subprocess, time\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\ntime.sleep(60)", true, false, false, []string{"were ended: 1 (sleep)"}},
	{"a shell's job", "import subprocess, time\nsubprocess.run('sleep 600 & sleep 600', shell=True)", true, false, false, nil},
	{"a double fork", "import subprocess\nsubprocess.run('(setsid sleep 600 &) ; sleep 600', shell=True)", true, false, false, []string{"were ended"}},
	{"os.system", "import os\nos.system('sleep 600')", true, false, false, []string{"were ended"}},
	{"threads and tasks", "import asyncio, threading, time\ndef f():\n    while True: time.sleep(0.05)\nthreading.Thread(target=f).start()\nt = asyncio.create_task(asyncio.sleep(600))\nawait asyncio.sleep(60)", true, false, false, []string{"Threads that", "Tasks that"}},
	{"sys.exit", "import sys; sys.exit('bye')", false, false, false, []string{"SystemExit: bye", "variables are kept"}},
	{"exit", "exit()", false, false, false, []string{"variables are kept"}},
	{"a raised KeyboardInterrupt", "raise KeyboardInterrupt", false, false, false, []string{"KeyboardInterrupt"}},
	{"os._exit", "import os; print('last words', flush=True); os._exit(7)", false, true, false, []string{"last words", "exit code 7"}},
	{"a crash", "import ctypes; print('last words'); ctypes.string_at(0)", false, true, false, []string{"last words", "SIGSEGV"}},
	{"SIGKILL", "import os; os.kill(os.getpid(), 9)", false, true, false, []string{"SIGKILL"}},
	{"abort", "import os; os.abort()", false, true, false, []string{"SIGABRT"}},
	{"closed descriptors", "import os; os.closerange(3, 256)", false, true, false, []string{"broke the program that runs it"}},
	{"a MemoryError", "bytearray(10**12)", false, false, false, []string{"MemoryError"}},
	{"more memory than there is", "b = []\nwhile True: b.append(bytearray(10**7))", false, true, true, []string{"emory"}},
	{"a child that takes more memory than there is", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'b = []\\nwhile True: b.append(bytearray(10**7))']).returncode", false, false, false, []string{"emory"}},
	{"a full tmp", "import os\ntry:\n    with open('/tmp/f', 'wb') as f:\n        while True: f.write(b'x' * 10**6)\nexcept OSError as e: print(e)\n1/0", false, false, false, []string{"No space left on device", "ZeroDivisionError"}},
	{"a full home and /dev/shm", "import os\nfor d in (os.path.expanduser('~'), '/dev/shm', '/workspace'):\n    try:\n        with open(d + '/f', 'wb') as f:\n            while True: f.write(b'x' * 10**6)\n    except OSError as e: print(e.strerror)\n    os.remove(d + '/f')", false, false, false, []string{"No space left on device\nNo space left on device\nNo space left on device"}},
}

var bombs = []limitRow{
	{"threads without end", "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(5,), daemon=True).start()", false, false, false, []string{"can't start new thread", "limit of processes and threads"}},
	{"a fork bomb", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", true, true, true, nil},
}
