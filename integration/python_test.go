//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

// TestPython runs Python's corners through the real shim on every engine. The
// harness's own tests (images/harness_test) have more of each kind.
func TestPython(t *testing.T) {
	onEngines(t, engines.All, func(t *testing.T, h *home, _ *daemon, _ *engines.Running) {
		h.servers(t, realServers(h))
		t.Run("sessions", func(t *testing.T) { // returns once all of them have
			for _, s := range pythonSessions {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					a := h.agent(t, h.dir)
					for _, c := range s.calls {
						c.check(t, text(a.call(map[string]any{"code": c.code, "servers": s.servers})))
					}
				})
			}
		})
	})
}

// A pythonCall is code, what the answer has, and what it has not.
type pythonCall struct {
	code string
	want []string
	none string
}

func (c pythonCall) check(t *testing.T, got string) {
	t.Helper()
	for _, want := range c.want {
		if !strings.Contains(got, want) {
			t.Errorf("%s\ngot %q, want %q in it", c.code, got, want)
		}
	}
	if c.none != "" && strings.Contains(got, c.none) {
		t.Errorf("%s\ngot %q, want no %q in it", c.code, got, c.none)
	}
}

var pythonSessions = []struct {
	name    string
	servers []string
	calls   []pythonCall
}{
	{"code is a module that lasts", nil, []pythonCall{
		{"import pickle, dataclasses, inspect, typing\n@dataclasses.dataclass\nclass D:\n    a: int\ndef half(n):\n    return n / 0", []string{"(no output)"}, ""},
		{"pickle.loads(pickle.dumps(D(3))), typing.get_type_hints(D), __name__", []string{"(D(a=3), {'a': <class 'int'>}, '__main__')"}, ""},
		{"print(inspect.getsource(D)); half(3)", []string{"class D:\n    a: int", "<run 1>\", line 6, in half\n    return n / 0", "ZeroDivisionError"}, "bridged/"},
		{"def half(n):\n    return n / 2\nprint(inspect.getsource(half)); half(4)", []string{"return n / 2", "2.0"}, ""},
		{"from __future__ import annotations\ndef f(x: Nothing): pass", []string{"(no output)"}, ""},
		{"def g(x: Nothing): pass\ng.__annotations__", []string{"{'x': 'Nothing'}"}, ""},
		{"type P[T] = list[T]\ndef first[T](x: list[T]) -> T: return x[0]\nmatch first([8]):\n    case 8: print('eight')", []string{"eight"}, ""},
		{"if __name__ == '__main__':\n    print('main part')", []string{"main part"}, ""},
	}},
	{"loops, tasks and context", nil, []pythonCall{
		{"import asyncio, contextvars\nv = contextvars.ContextVar('v')\nasync def m(): return 20\nprint(asyncio.run(m()) + 1)\nl = asyncio.new_event_loop(); print(l.run_until_complete(m())); l.close()", []string{"21\n20"}, ""},
		{"await m()", []string{"20"}, ""},
		{"v.set(7); await asyncio.sleep(0)", []string{""}, ""},
		{"asyncio.get_event_loop().close(); v.get()", []string{"7"}, ""},
		{"x = await m(); x + 2", []string{"22"}, ""},
		{"n = 0\nasync def tick():\n    global n\n    while True:\n        n += 1\n        await asyncio.sleep(0.01)\nt = asyncio.create_task(tick())\nasync def bad(): raise ValueError('late')\nb = asyncio.create_task(bad())", []string{"(no output)"}, ""},
		{"import time; time.sleep(0.1)\nfor _ in range(300):\n    await asyncio.sleep(0.1)\n    if n > 5: break\nn > 5, t.done(), b.done()", []string{"(True, False, True)"}, ""},
		{"await asyncio.sleep(0)\nasyncio.run(m())", []string{"hint: this code runs on an event loop already: `await` the coroutine instead"}, ""},
		{"asyncio.gather(m(), m())", []string{"[20, 20]"}, ""},
	}},
	{"calls that nobody awaited", []string{"everything"}, []pythonCall{
		{"def f():\n    mcp_everything.echo(message='x')\nf()", []string{"`mcp_everything.echo(...)` (line 2 of run 1) was never awaited"}, "RuntimeWarning"},
		{"r = mcp_everything.echo(message='x')\nr['a']", []string{"TypeError", "`mcp_everything.echo(...)` (line 1 of run 2) has not been awaited"}, ""},
		{"mcp_everything.echo(message='waited for')", []string{"waited for"}, "never awaited"},
	}},
	{"questions, values and dialects", nil, []pythonCall{
		{"input('name? ')", []string{"EOFError: input(): nobody can answer here"}, ""},
		{"import getpass; getpass.getpass()", []string{"EOFError: getpass(): nobody can answer here"}, ""},
		{"breakpoint()", []string{"no terminal for a debugger"}, ""},
		{"import os, sys, subprocess\nsys.stdin.read(), os.read(0, 9), open('/dev/stdin').read(), subprocess.run(['cat'], capture_output=True).stdout", []string{"('', b'', '', b'')"}, ""},
		{"try: print(open('/proc/1/fd/0').read())\nexcept OSError as e: print(type(e).__name__)", []string{"Error"}, ""},
		{"!pip install x", []string{"no network"}, ""},
		{"print(\u201chi\u201d)", []string{"use straight quotes", "line 1"}, ""},
		{"```python\n6 * 7\n```", []string{"42"}, ""},
		{"5;", []string{"(no output)"}, ""},
		{"class R:\n    def __repr__(s): return 1/0\nR()", []string{"ZeroDivisionError"}, ""},
		{"x = (1,\ny = 3", []string{"    x = (1,\n        ^\nSyntaxError: '(' was never closed"}, ""},
		{"import no_such_module", []string{"hint: it is not in this sandbox"}, ""},
	}},
	{"processes and threads of Python's own", nil, []pythonCall{
		{"import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\ndef f(x): return x * x", []string{"(no output)"}, ""},
		{"with multiprocessing.get_context('spawn').Pool(2) as p: r = p.map(f, [2, 3])\nr", []string{"[4, 9]"}, ""},
		{"with ProcessPoolExecutor(2) as p, ThreadPoolExecutor(2) as q: r = list(p.map(f, [2])) + list(q.map(f, [3]))\nr", []string{"[4, 9]"}, ""},
	}},
	{"ordinary needs of libraries", nil, []pythonCall{
		{"import os, tempfile, pathlib, sqlite3, getpass, socket\ntempfile.NamedTemporaryFile().name, pathlib.Path.home(), os.getcwd()", []string{"'/workspace'"}, "Error"},
		{"os.makedirs(os.path.expanduser('~/.cache/x'), exist_ok=True); open('out.txt', 'w').write('1')\nsqlite3.connect('t.db').execute('create table t(a)')\nprint('made')", []string{"made"}, "Warning"},
		{"bool(getpass.getuser() and socket.gethostname())", []string{"True"}, ""},
		{"open('/usr/x', 'w')", []string{"hint: write to /workspace or /tmp"}, ""},
	}},
}

// What code breaks of the interpreter that it shares costs an error at most.
func TestDamageToTheInterpreter(t *testing.T) {
	onEngines(t, engines.All, func(t *testing.T, h *home, _ *daemon, _ *engines.Running) {
		a := h.agent(t, h.dir)
		for _, code := range []string{
			"import json; json.dumps = None",
			"import builtins; builtins.print = builtins.len = builtins.compile = None",
			"import sys; sys.stdout.close(); sys.stderr = None",
			"import sys; sys.stdout.detach();",
			"import sys; sys.modules.clear()",
			"import time; time.time = time.monotonic = lambda: 0",
			"import os, sys; os.chdir('/'); os.environ.clear(); sys.path[:] = []; sys.argv = []",
			"import sys; sys.excepthook = sys.displayhook = None",
			"import asyncio; asyncio.set_event_loop_policy(None)",
			"import asyncio; asyncio.all_tasks = asyncio.current_task = asyncio.wait = asyncio.Future = None",
			"globals().clear()",
			"import sys; sys.setrecursionlimit(60)",
			"import gc, os; gc.disable(); os.umask(0o777)",
			"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])",
			"import linecache, traceback; linecache.cache = traceback.TracebackException = None",
			"import os, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
		} {
			a.call(map[string]any{"code": code})
			if got := text(a.call(map[string]any{"code": "1+1"})); !strings.HasPrefix(got, "2") {
				t.Errorf("after %s: got %q, want 2", code, got)
			}
			if got := text(a.call(map[string]any{"code": "1/0"})); !strings.Contains(got, "ZeroDivisionError") {
				t.Errorf("after %s: got %q, want a ZeroDivisionError", code, got)
			}
		}
	})
}
