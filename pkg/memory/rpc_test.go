package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var background = context.Background()

// ask makes a request, and returns its answer or its error's code and text.
func ask(t testing.TB, s *Session, method, params string) string {
	t.Helper()
	answer, err := s.Call(t.Context(), method, json.RawMessage(params))
	if e, ok := err.(interface{ RPCCode() string }); ok {
		return e.RPCCode() + ": " + err.Error()
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return string(answer)
}

func TestRequestsOfCode(t *testing.T) {
	store := newStore(t, Options{MaxBytes: 50})
	store.now = func() time.Time { return time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC) }
	s := store.Session(t.TempDir())
	file := `{\n  \"key\": \"k\",\n  \"value\": 1,\n  \"metadata\": {},\n  \"created\": \"2026-11-30T10:00:00.000000Z\",\n  \"updated\": \"2026-11-30T10:00:00.000000Z\",\n  \"version\": 1\n}\n`
	row := `"key":"k","metadata":{},"created":"2026-11-30T10:00:00Z","updated":"2026-11-30T10:00:00Z","version":1,"bytes":153`
	for _, step := range [][3]string{
		{"memory.load", `{"key":"k"}`, `{"found":false,"if":"0"}`},
		{"memory.save", `{"key":"k","value":1,"metadata":null,"version":null}`, `{"name":"k.json","text":"` + file + `","version":1}`},
		{"memory.load", `{"key":"k","scope":"global"}`, `{"found":true,"if":"1-`},
		{"memory.load", `{"key":"k","scope":"project"}`, `{"found":false,"if":"0"}`},
		{"memory.save", `{"key":"k","value":2,"if":"0"}`, `memory_conflict: The memory "k" has changed meanwhile`},
		{"memory.save", `{"key":"k","value":2,"version":2}`, `memory_conflict: `},
		{"memory.save", `{"key":"p","value":[1,{"a":"é\ud83d\ude00"}],"scope":"project","metadata":{"t":1}}`, `{"name":"p.json","text":`},
		{"memory.list", `{}`, `{"memories":[{` + row + `},{"key":"p","metadata":{"t":1},`},
		{"memory.list", `{"scope":"global"}`, `{"memories":[{` + row + `}],"more":0}`},
		{"memory.list", `{"prefix":"x"}`, `{"memories":[],"more":0}`},
		{"memory.search", `{"query":"é","limit":5}`, `{"memories":[{"key":"p","metadata":{"t":1},`},
		{"memory.history", `{"key":"k"}`, `{"versions":[{"bytes":153,"current":true,"updated":"2026-11-30T10:00:00Z","version":1}]}`},
		{"memory.delete", `{"key":"k"}`, `{"deleted":true,"name":"k.json"}`},
		{"memory.delete", `{"key":"k"}`, `{"deleted":false,"name":""}`},
		{"memory.restore", `{"key":"k","version":9}`, `memory_missing: There is no version 9`},
		{"memory.restore", `{"key":"k","version":0}`, `invalid_memory: There is no version 0`},
		{"memory.restore", `{"key":"k"}`, `{"name":"k.json","text":`},
		{"memory.save", `{"key":"k","value":"` + strings.Repeat("x", 50) + `"}`, `memory_full: The memory "k" would have 54 bytes, and 50 is the limit`},
		{"memory.save", `{"key":"k","value":1,"metadata":[]}`, `invalid_memory: The metadata`},
		{"memory.save", `{"key":"k","value":1,"scope":"all"}`, `invalid_memory: There is no scope "all"`},
		{"memory.load", `{"key":""}`, `invalid_memory: A key must not be empty`},
		{"memory.delete", `{"key":""}`, `invalid_memory: A key must not be empty`},
		{"memory.load", `{"key":5}`, `bad_request: The parameters of memory.load`},
		{"memory.nope", `{}`, `bad_request: There is no method "memory.nope". There are: memory.delete,`},
	} {
		if got := ask(t, s, step[0], step[1]); !strings.HasPrefix(got, step[2]) {
			t.Errorf("%s %s gives\n\t%s, want\n\t%s", step[0], step[1], got, step[2])
		}
	}
}

func TestErrorsDoNotTellWhereTheFilesAre(t *testing.T) {
	dir := t.TempDir() + "/file"
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, Options{Dir: dir + "/memory"}).Session("/")
	for _, method := range []string{"memory.save", "memory.load", "memory.delete", "memory.list"} {
		got := ask(t, s, method, `{"key":"k","value":1}`)
		if strings.Contains(got, dir) || !strings.HasPrefix(got, "error: ") {
			t.Errorf("%s gives %s", method, got)
		}
	}
}

func TestSandboxIsToldWhatHasChanged(t *testing.T) {
	store := newStore(t, Options{})
	clock := time.Now()
	store.now = func() time.Time { return clock }
	s := store.Session(t.TempDir())
	expect := func(anew bool, files map[string]string, gone ...string) {
		t.Helper()
		clock = clock.Add(time.Second)
		var got, want news
		if text := s.Tell(anew); text != nil {
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
		}
		want.Files, want.Gone = files, gone
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the sandbox is told other things (-want +got):\n%s", diff)
		}
	}
	// age has files and folders be old, so that what is changed next is newer. The
	// test's clock goes faster than the kernel's, which ticks every ten
	// milliseconds at worst: two changes may have one time.
	age := func(paths ...string) {
		t.Helper()
		long := clock.Add(-time.Hour)
		for _, path := range paths {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect(true, nil)
	write(t, s.global, "a.json", "1")
	write(t, s.project, "b.json", "2")
	write(t, s.global, "notes.txt", "-")
	write(t, s.global, ".hidden.json", "-")
	expect(false, map[string]string{"a.json": "1", "project/b.json": "2"})
	expect(false, nil)
	age(s.global.dir, s.project.dir)
	expect(true, map[string]string{"a.json": "1", "project/b.json": "2"})
	write(t, s.global, "a.json", "1, by hand in its place")
	age(s.global.path("a.json"))
	clock = clock.Add(lookAfter)
	expect(false, map[string]string{"a.json": "1, by hand in its place"})
	if err := os.Remove(s.project.path("b.json")); err != nil {
		t.Fatal(err)
	}
	expect(false, nil, "project/b.json")
	write(t, s.global, "huge.json", strings.Repeat("x", maxShown-1))
	expect(false, map[string]string{"huge.json": strings.Repeat("x", maxShown-1)}, "a.json")
}

// BenchmarkTell is what each run costs when nothing has changed.
func BenchmarkTell(b *testing.B) {
	store := newStore(b, Options{})
	s := store.Session(b.TempDir())
	for i := range 1000 {
		write(b, s.global, fmt.Sprintf("k%d.json", i), `{"value": 1}`)
	}
	time.Sleep(2 * tick)
	now := time.Now()
	store.now = func() time.Time { return now }
	if s.Tell(true) == nil {
		b.Fatal("the sandbox is told nothing")
	}
	for b.Loop() {
		if s.Tell(false) != nil {
			b.Fatal("the sandbox is told again")
		}
	}
}

func BenchmarkSave(b *testing.B) {
	sp := newStore(b, Options{}).Global()
	for b.Loop() {
		save(b, sp, "k", `{"a": 1}`)
	}
}

func BenchmarkLoad(b *testing.B) {
	sp := newStore(b, Options{}).Global()
	save(b, sp, "k", `{"a": 1}`)
	for b.Loop() {
		expectValue(b, sp, "k", `{"a":1}`)
	}
}

func BenchmarkListOfAThousand(b *testing.B) {
	sp := newStore(b, Options{}).Global()
	for i := range 1000 {
		write(b, sp, fmt.Sprintf("k%d.json", i), `{"value": 1}`)
	}
	for b.Loop() {
		if rows, err := sp.List(""); err != nil || len(rows) != 1000 {
			b.Fatal(len(rows), err)
		}
	}
}

func TestSessionHasFewRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, Options{}).Session(t.TempDir())
		<-s.global.turn // somebody writes
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 * maxAsked {
			wg.Go(func() {
				if _, err := s.Call(ctx, "memory.save", json.RawMessage(`{"key":"k","value":1}`)); !errors.Is(err, context.Canceled) {
					t.Errorf("a request that was given up ends in %v", err)
				}
			})
		}
		synctest.Wait()
		if n := len(s.asked); n != maxAsked {
			t.Errorf("%d requests are answered at once, want %d", n, maxAsked)
		}
		cancel()
		wg.Wait()
		if n := len(s.asked); n != 0 {
			t.Errorf("%d requests are answered after all were given up", n)
		}
	})
}

func TestWriterThatWaitsForTooLongIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := newStore(t, Options{}).Global()
		<-sp.turn
		_, err := sp.Save(t.Context(), "k", Change{Value: json.RawMessage("1")})
		expectCode(t, err, CodeBusy)
		sp.turn <- struct{}{}
		save(t, sp, "k", "1")
	})
}
