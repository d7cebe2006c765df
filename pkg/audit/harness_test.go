package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hang is how long a test waits for what should come at once.
const hang = 30 * time.Second

func open(t *testing.T, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func shut(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// call is an entry whose lines differ.
func call(n int) Entry {
	args, err := json.Marshal(map[string]any{"n": n, "text": "some words <&>"})
	if err != nil {
		panic(err)
	}
	return Entry{
		Kind: KindCall, Session: "abcdefgh", Client: "test 1", Server: "git", Tool: "log", Arguments: args,
		Duration: 1500 * time.Microsecond, Outcome: "ok", In: 10, Out: int64(n), Sources: []string{"web"},
	}
}

// written makes a log of several files: all but the last are full.
func written(t *testing.T, calls int, o Options) string {
	t.Helper()
	o.Dir = t.TempDir()
	l := open(t, o)
	for n := range calls {
		l.Record(call(n))
		waitEmpty(t, l)
	}
	shut(t, l)
	return o.Dir
}

func waitEmpty(t *testing.T, l *Log) {
	t.Helper()
	eventually(t, "the queue is empty", func() bool { return l.Status().Waiting == 0 })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to pass that %s", what)
		}
	}
}

// linesOf reads a file as lines, without their ends.
func linesOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func writeLines(t *testing.T, path string, lines []string) {
	t.Helper()
	text := strings.Join(lines, "\n") + "\n"
	if len(lines) == 0 {
		text = ""
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// all reads the whole log.
func all(t *testing.T, dir string) []Line {
	t.Helper()
	var list []Line
	if _, err := Read(dir, func(l Line, raw []byte) error {
		if bytes.ContainsAny(raw, "\n") || l.Hash == "" {
			t.Errorf("a line that is none: %q", raw)
		}
		list = append(list, l)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

func ofKind(list []Line, k Kind) []Line {
	var found []Line
	for _, l := range list {
		if l.Kind == k {
			found = append(found, l)
		}
	}
	return found
}

func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	list, err := numbers(dir)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, n := range list {
		paths = append(paths, filepath.Join(dir, fileName(n)))
	}
	return paths
}

func mustVerify(t *testing.T, dir string, anchors ...Head) Report {
	t.Helper()
	r, err := Verify(dir, anchors...)
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	return r
}
