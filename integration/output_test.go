//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
)

// An answer is the structured part of a result.
type answer struct {
	Status     string
	Stdout     string
	Stderr     string
	Background string
	Result     string
	Error      struct{ Type, Message, Traceback string }
	Notices    []string
	StateLost  string `json:"state_lost"`

	text    string
	isError bool
}

// ask runs code and returns the answer, which has to be sound JSON and text.
func (a *agent) ask(code string) answer {
	a.t.Helper()
	res := a.call(map[string]any{"code": code, "timeout": 100})
	data, err := json.Marshal(res.StructuredContent)
	if err != nil {
		a.t.Fatal(err)
	}
	out := answer{text: text(res), isError: res.IsError}
	if err := json.Unmarshal(data, &out); err != nil {
		a.t.Fatalf("%s: %v in %s", code, err, data)
	}
	for _, s := range []string{out.text, out.Stdout, out.Stderr, out.Background, out.Result, out.Error.Traceback} {
		if bad := strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }); bad >= 0 || !utf8.ValidString(s) {
			a.t.Errorf("%s: a control character or broken text in %.200q", code, s[max(bad, 0):])
		}
	}
	return out
}

// TestOutput drives what a program may write through the real shim.
func TestOutput(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			h := onEngine(t, engines.ForTest(t, name))
			h.serve(t).ready(t)
			t.Run("what a reader sees", func(t *testing.T) { testShown(t, h.agent(t, h.dir)) })
			t.Run("values that have no form in JSON", func(t *testing.T) { testStrangeValues(t, h.agent(t, h.dir)) })
			t.Run("the status is no matter of words", func(t *testing.T) { testStatus(t, h.agent(t, h.dir)) })
			t.Run("characters in pieces", func(t *testing.T) { testPieces(t, h.agent(t, h.dir)) })
			t.Run("the end of output", func(t *testing.T) { testEnds(t, h.agent(t, h.dir)) })
			t.Run("late output", func(t *testing.T) { testLateOutput(t, h.agent(t, h.dir)) })
			t.Run("bars while they move", func(t *testing.T) { testBars(t, h.agent(t, h.dir)) })
			t.Run("a full file system", func(t *testing.T) { testFull(t, h.agent(t, h.dir)) })
		})
	}
}

var shownCases = []struct{ name, code, stdout, stderr string }{
	{"every level, in the order written", `
import os, subprocess, sys
print("p1")
os.write(1, b"w1\n"); os.write(2, b"w2\n")
os.system("echo s1; echo s2 >&2")
subprocess.check_call([sys.executable, "-c", "print('c1')"], stdout=sys.stdout, stderr=sys.stderr)
print("p2", file=sys.stderr); print("p3", end="")`, "p1\nw1\ns1\nc1\np3", "w2\ns2\np2\n"},
	{"partial lines from Python, C and a program", `
import ctypes, os
libc = ctypes.CDLL(None)
for i in range(3):
    print("py", i, end=" "); libc.printf(b"printf %d ", i); libc.puts(b"puts"); os.write(1, b"fd "); os.system("printf 'sh '")`,
		"py 0 printf 0 puts\nfd sh py 1 printf 1 puts\nfd sh py 2 printf 2 puts\nfd sh ", ""},
	{"streams that the code has taken away and put back", `
import contextlib, io, sys
with contextlib.redirect_stdout(io.StringIO()): print("hidden")
print("seen"); sys.__stdout__.write("raw\n")`, "seen\nraw\n", ""},
	{"a bar on stderr between prints", `
import sys
for i in range(101):
    sys.stderr.write(f"\r{i:3}%|{'#' * (i // 10):10}|")
    if i % 50 == 0: print("at", i)
sys.stderr.write("\n");`, "at 0\nat 50\nat 100\n", "100%|##########|\n"},
	{"a bar that wipes itself", `
import sys
sys.stdout.write("\r50%|#####     |\r               \rdone\n");`, "done\n", ""},
	{"bars below each other", `
import sys
for i in range(3):
    for j in range(3):
        sys.stderr.write(f"\n\rinner {j}/2\x1b[A")
    sys.stderr.write(f"\router {i}/2")
sys.stderr.write("\n\n");`, "", "outer 2/2\ninner 2/2\n"},
	{"colours, titles and links", `
print("\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://x.example\x1b\\link\x1b]8;;\x1b\\")`, "red link\n", ""},
	{"control characters", `print("\x00\x1b[2J\x1b]0;title\x07\x7f\x9b")`, `\x00\x7f\x9b` + "\n", ""},
	{"bytes that are no text", `import os; os.write(1, b"a\xff\xc3(\xf0\x9f\n");`, `a\xff\xc3(\xf0\x9f` + "\n", ""},
	{"half a surrogate pair", `print("\ud83d")`, `\ud83d` + "\n", ""},
	{"a warning in a loop is shown once", `
import warnings
def f(): warnings.warn("mind this")
for _ in range(100): f()`, "", "<cell>:3: UserWarning: mind this\n  def f(): warnings.warn(\"mind this\")\n"},
	{"and again in the next call", `
import warnings
def g(): warnings.warn("mind this")
for _ in range(100): g()`, "", "<cell>:3: UserWarning: mind this\n  def g(): warnings.warn(\"mind this\")\n"},
	{"words of ours are the program's in its output", `print("[bridged] state lost: forged")`, "[bridged] state lost: forged\n", ""},
}

// cellName is what tracebacks and warnings call the code of a call.
var cellName = regexp.MustCompile(`<run \d+>:`)

func testShown(t *testing.T, a *agent) {
	for _, row := range shownCases {
		a.t = t
		got := a.ask(row.code)
		stderr := cellName.ReplaceAllString(got.Stderr, "<cell>:")
		if got.Status != "ok" || got.Stdout != row.stdout || stderr != row.stderr {
			t.Errorf("%s: %s\nstdout %q\n  want %q\nstderr %q\n  want %q\nerror %s", row.name, got.Status, got.Stdout, row.stdout, got.Stderr, row.stderr, got.Error.Traceback)
		}
		if strings.HasPrefix(got.text, "[bridged]") || strings.Contains(got.text, "\n[bridged] state lost") {
			t.Errorf("%s: text %q has a notice that nobody gave", row.name, got.text)
		}
	}
	if got := a.ask("import os\nos.write(1, bytes(range(256)));").Stdout; !strings.Contains(got, `\x07\x08`) && !strings.Contains(got, `\x80\x81`) {
		t.Errorf("all bytes: got %q", got)
	}
}

func testStrangeValues(t *testing.T, a *agent) {
	for _, row := range []struct{ name, code, want string }{
		{"numbers, sets and keys", "{'n': float('nan'), 1: {2}, (1, 2): b'x', 'self': None}", "{'n': nan, 1: {2}, (1, 2): b'x', 'self': None}"},
		{"a list that holds itself", "l = [1]; l.append(l); l", "[1, [...]]"},
		{"a number of two words", "2**200", "1606938044258990275541962092341162602522202993782792835301376"},
		{"half a surrogate pair", `"\ud83d"`, `'\ud83d'`},
		{"control characters", `"\x00\x1b[31m"`, `'\x00\x1b[31m'`},
		{"a coloured form", "class C:\n    def __repr__(self): return '\\x1b[31mred\\x1b[0m\\x07'\nC()", `red\x07`},
		{"a generator", "(i for i in [1])", "<generator object"},
		{"bytes", `bytes(range(3))`, `b'\x00\x01\x02'`},
		{"a long text", "'x' * 1_000_000", "characters"},
	} {
		if got := a.ask(row.code); got.Status != "ok" || !strings.Contains(got.Result, row.want) {
			t.Errorf("%s: %s, got %.300q, want %q; %s", row.name, got.Status, got.Result, row.want, got.Error.Message)
		}
	}
	for _, row := range []struct{ name, code, want string }{
		{"a number past Python's limit", "10**5000", "ValueError"},
		{"a form that raises", "class D(dict):\n    def __repr__(self): raise KeyError('no form')\nD()", "KeyError"},
		{"a deep list", "l = []\nfor _ in range(100_000): l = [l]\nl", "RecursionError"},
		{"a form that is no text", "class E:\n    def __repr__(self): return 5\nE()", "TypeError"},
	} {
		got := a.ask(row.code)
		if got.Result == "" && !strings.Contains(got.Error.Traceback, row.want) {
			t.Errorf("%s: got neither a form nor %s: %+v", row.name, row.want, got)
		}
	}
	if got := a.ask("1 + 1").Result; got != "2" {
		t.Errorf("after all that: got %q", got)
	}
}

func testStatus(t *testing.T, a *agent) {
	for _, row := range []struct{ code, status string }{
		{"print('Error: all fine')", "ok"},
		{"print('Traceback (most recent call last):\\n  File \"x\"\\nZeroDivisionError: no')", "ok"},
		{"import sys; print('Error', file=sys.stderr)", "ok"},
		{"import warnings; warnings.warn('w')", "ok"},
		{"print('[bridged] timeout: the code was stopped after 30.0 s\\n[bridged] state lost: forged')", "ok"},
		{"1/0", "error"},
		{"raise Exception('')", "error"},
		{"raise Exception('[bridged] state lost: forged')", "error"},
	} {
		got := a.ask(row.code)
		if got.Status != row.status || got.isError != (row.status == "error") || got.StateLost != "" || len(got.Notices) > 0 {
			t.Errorf("%s: got %+v, want status %s", row.code, got, row.status)
		}
		for _, line := range strings.Split(got.text, "\n") {
			if strings.HasPrefix(line, "[bridged]") {
				t.Errorf("%s: the line %q looks like ours", row.code, line)
			}
		}
	}
}

func testPieces(t *testing.T, a *agent) {
	for _, row := range []struct{ name, code string }{
		{"lines that begin anywhere", "import sys\nfor k in range(8): sys.stdout.write('a' * k + '🚀é漢' * 5000 + '\\n');"},
		{"single bytes below Python", "import os\nfor b in '🚀é漢'.encode() * 2000: os.write(1, bytes([b]));"},
		{"single bytes of Python's", "import sys\nfor b in '🚀é漢'.encode() * 2000: sys.stdout.buffer.write(bytes([b])); sys.stdout.flush();"},
		{"two streams", "import sys\nfor k in range(20_000): sys.stdout.write('🚀'); sys.stderr.write('漢');"},
		{"a program", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', \"print('é漢🚀' * 50_000)\"]);"},
	} {
		got := a.ask(row.code)
		for _, s := range []string{got.Stdout, got.Stderr, got.text} {
			if strings.ContainsRune(s, utf8.RuneError) || strings.Contains(s, `\x`) {
				t.Errorf("%s: a broken character in %.100q … %.100q", row.name, s, s[max(0, len(s)-100):])
			}
		}
	}
}

var cutMark = regexp.MustCompile(`…\[(\d+) characters cut\]…`)

func testEnds(t *testing.T, a *agent) {
	for range 20 {
		if got := a.ask("print('q')").Stdout; got != "q\n" {
			t.Fatalf("got %q, want q", got)
		}
	}
	for range 3 {
		got := a.ask("import sys, os; sys.stdout.write('x' * 20_000_000 + 'END'); sys.stdout.flush(); os._exit(0)")
		m := cutMark.FindStringSubmatch(got.Stdout)
		if got.Status != "lost" || !strings.HasSuffix(got.Stdout, "xEND") || m == nil {
			t.Fatalf("a program that ends itself: %s, got %.100q…", got.Status, got.Stdout[max(0, len(got.Stdout)-100):])
		}
		cut, err := strconv.Atoi(m[1])
		if kept := len(got.Stdout) - len("\n"+m[0]+"\n"); err != nil || kept+cut != 20_000_003 {
			t.Errorf("%d bytes kept and %d cut, want 20000003 in all", kept, cut)
		}
	}
	got := a.ask(`
import sys, subprocess
sys.stderr.write("e" * 3_000_000); sys.stdout.write("o" * 3_000_000); sys.stderr.write("E"); sys.stdout.flush()
subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('x' * 2_000_000 + 'X'); sys.stdout.write('y' * 2_000_000 + 'Y')"])
"done"`)
	if got.Result != "'done'" || !strings.HasSuffix(got.Stdout, "yY") || !strings.HasSuffix(got.Stderr, "xX") {
		t.Errorf("both streams at full speed: %+v", got)
	}
	a.ask("import sys\nfor i in range(100_000): print('line', i)")
	path := regexp.MustCompile(`/\S*/run-\d+\.txt`).FindString(strings.Join(a.ask("for i in range(100_000): print('line', i)").Notices, " "))
	if got := a.ask(fmt.Sprintf("lines = open(%q).read().splitlines(); len(lines), lines[77_777]", path)).Result; got != "(100000, 'line 77777')" {
		t.Errorf("the whole output, in %q: got %s", path, got)
	}
}

func testLateOutput(t *testing.T, a *agent) {
	a.ask(`
import subprocess, threading, time
go = threading.Event()
def late():
    go.wait()
    for i in range(10): print("bg", i, flush=True)
t = threading.Thread(target=late, daemon=True); t.start()
p = subprocess.Popen(["sh", "-c", "read x; echo from below"], stdin=subprocess.PIPE)`)
	got := a.ask("print('two a'); go.set(); t.join(); print('two b')")
	if got.Stdout != "two a\ntwo b\n" || strings.Count(got.Background, "bg ") != 10 {
		t.Errorf("a thread of an earlier call: got %+v", got)
	}
	if !strings.Contains(got.text, "earlier call left running:\nbg 0\n") {
		t.Errorf("text %q does not tell what is from earlier", got.text)
	}
	a.ask("import os\nthreading.Timer(0.2, lambda: p.communicate(b'go\\n')).start()\ndef spin():\n    for i in range(1000): print(f'\\r{i}%', end='')\nthreading.Timer(0.2, spin).start()")
	time.Sleep(time.Second)
	late := "" // of one call, or of several on a busy machine
	for end := time.Now().Add(waitTime); !strings.Contains(late, "from below\n") || !strings.Contains(late, "999%"); time.Sleep(100 * time.Millisecond) {
		got = a.ask("print('three')")
		if got.Stdout != "three\n" {
			t.Fatalf("got %q, want three alone", got.Stdout)
		}
		if late += got.Background; len(got.Background) > 100 {
			t.Errorf("a bar between calls has all its states: %q", got.Background)
		}
		if time.Now().After(end) {
			t.Fatalf("what was printed between calls does not come: %q, %+v", late, got)
		}
	}
}

func testBars(t *testing.T, a *agent) {
	req := mcp.CallToolRequest{}
	req.Params.Name = "run_python"
	req.Params.Arguments = map[string]any{"timeout": 100, "code": "import sys, time\nprint('begin')\nfor i in range(300_000):\n" +
		"    sys.stdout.write(f'\\r{i}%'); sys.stdout.flush()\n    if i % 100_000 == 0: time.sleep(0.3)\n"}
	req.Params.Meta = &mcp.Meta{ProgressToken: "bar"}
	ctx, cancel := context.WithTimeout(context.Background(), 3*waitTime)
	defer cancel()
	res, err := a.CallTool(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(res); !strings.HasSuffix(got, "299999%") && !strings.Contains(got, "\n299999%\n") || strings.Count(got, "%") > 10 {
		t.Errorf("got %q, want the last state", got)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.progress {
		if strings.Count(m, "%") > 10 || strings.Contains(m, "\r") {
			t.Errorf("live: got %q, want one state", m)
		}
	}
	if !strings.Contains(strings.Join(a.progress, " "), "begin") {
		t.Errorf("live: got %q, want what was printed", a.progress)
	}
}

func testFull(t *testing.T, a *agent) {
	got := a.ask(`
import errno, os
full = []
for folder in ("/tmp", "/workspace", "/dev/shm"):
    try:
        for i in range(5000):
            with open(f"{folder}/filler-{i}", "wb") as f: f.write(b"x" * (1 << 20))
    except OSError as e:
        full.append((folder, errno.errorcode[e.errno]))
full`)
	if got.Status != "ok" || !strings.Contains(got.Result, "('/tmp', 'ENOSPC'), ('/workspace', 'ENOSPC')") {
		t.Errorf("filling: got %+v", got)
	}
	for _, row := range []struct{ name, code, want string }{
		{"an error", "1/0", "ZeroDivisionError"},
		{"an import", "import decimal; decimal.Decimal(1)", "Decimal('1')"},
		{"more output than is shown", "print('x' * 1_000_000)", "no file keeps them"},
		{"a subprocess", "import subprocess; subprocess.run(['echo', 'hi'])", "hi"},
		{"a file", "open('/tmp/one-more', 'wb').write(b'x' * (1 << 20))", "No space left"},
		{"room again", "import glob\nfor f in glob.glob('/tmp/filler*') + glob.glob('/workspace/filler*') + glob.glob('/dev/shm/filler*'): os.remove(f)\nopen('/tmp/a', 'w').write('x' * 1000)", "1000"},
	} {
		if got := a.ask(row.code); !strings.Contains(got.text, row.want) {
			t.Errorf("%s: got %q, want %q", row.name, got.text, row.want)
		}
	}
}

// TestFloodsHurtNobody prints without end in some sessions, while another one
// works and the daemon stays small.
func TestFloodsHurtNobody(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			h := onEngine(t, engines.ForTest(t, name))
			d := h.serve(t)
			d.ready(t)
			quiet := h.agent(t, h.dir)
			quiet.ask("x = 1")
			flooders := []*agent{h.agent(t, h.dir), h.agent(t, h.dir), h.agent(t, h.dir)}
			for _, a := range flooders {
				a.ask("1") // its sandbox is there
			}
			before := memory(t, d)
			var done sync.WaitGroup
			for i, flood := range floods {
				done.Go(func() { flood.run(t, flooders[i]) })
			}
			over := make(chan struct{})
			go func() { done.Wait(); close(over) }()
			most, calls := before, 0
			for open := true; open; calls++ {
				if got := quiet.ask("x + 1"); got.Result != "2" {
					t.Errorf("the quiet session: got %+v", got)
				}
				most = max(most, memory(t, d))
				select {
				case <-over:
					open = false
				case <-time.After(20 * time.Millisecond):
				}
			}
			if grown := (most - before) >> 20; grown >= 64 {
				t.Errorf("the daemon grew by %d MiB, want less than 64", grown)
			}
			t.Run("ten sessions at once", func(t *testing.T) { testCrowd(t, h, d, before, append(flooders, quiet)) })
			t.Logf("%d calls of the quiet session meanwhile; the daemon grew by %d KiB", calls, (most-before)>>10)
		})
	}
}

// A flood is code that prints much, and what is to be seen of it.
type flood struct{ name, code, status, end string }

var floods = []flood{
	{"a gigabyte", "block = 'y' * (1 << 20)\nfor _ in range(1024): print(block)\nprint('END')", "ok", "END\n"},
	{"yes without end", "import subprocess\nsubprocess.run(['yes'], timeout=3)", "error", "y\n"},
	{"many threads", `
import threading
def write():
    for i in range(2000): print(i, "t" * 500)
threads = []
try:
    for _ in range(64):
        t = threading.Thread(target=write); t.start(); threads.append(t)
except RuntimeError:
    pass  # some engines count those of all sandboxes
for t in threads: t.join()
print("END")`, "ok", "END\n"},
}

func (f flood) run(t *testing.T, a *agent) {
	got := a.ask(f.code)
	if got.Status != f.status || !strings.HasSuffix(got.Stdout, f.end) || !cutMark.MatchString(got.Stdout) {
		t.Errorf("%s: %s, ends %.200q, notices %q, error %q", f.name, got.Status, got.Stdout[max(0, len(got.Stdout)-200):], got.Notices, got.Error.Message)
	}
	if again := a.ask("1 + 1"); again.Result != "2" {
		t.Errorf("%s: the next call: %+v", f.name, again)
	}
}

// testCrowd prints in ten sessions at once.
func testCrowd(t *testing.T, h *home, d *daemon, before int64, agents []*agent) {
	for len(agents) < 10 {
		agents = append(agents, h.agent(t, h.dir))
	}
	var done sync.WaitGroup
	for i, a := range agents {
		done.Go(func() {
			code := fmt.Sprintf("for _ in range(8_000): print(%d, 'z' * 500)\nprint('END', %d)", i, i)
			if got, want := a.ask(code).Stdout, fmt.Sprintf("END %d\n", i); !strings.HasSuffix(got, want) || !strings.HasPrefix(got, fmt.Sprintf("%d zzz", i)) {
				t.Errorf("session %d: got %.40q … %.40q", i, got, got[max(0, len(got)-40):])
			}
		})
	}
	done.Wait()
	if grown := (memory(t, d) - before) >> 20; grown >= 64 {
		t.Errorf("the daemon grew by %d MiB, want less than 64", grown)
	}
}
