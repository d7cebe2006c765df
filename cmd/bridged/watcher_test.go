package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/discovery"
)

// A watchedHome is a home folder with a session's list of servers.
type watchedHome struct {
	t    *testing.T
	dir  string
	list *serverList
}

func newWatchedHome(t *testing.T) *watchedHome {
	t.Helper()
	h := &watchedHome{t: t, dir: t.TempDir()}
	w := newWatcher(zerolog.Nop())
	h.list = &serverList{
		opts: discovery.Options{Home: h.dir, Cwd: filepath.Join(h.dir, "work"), Memory: &discovery.Memory{}}, log: zerolog.Nop(), files: w.open(),
	}
	t.Cleanup(func() {
		h.list.close()
		if len(w.lists) != 0 || len(w.dirs) != 0 || len(w.lost) != 0 {
			t.Errorf("%d lists, %d folders and %d lost ones are left", len(w.lists), len(w.dirs), len(w.lost))
		}
		w.close()
	})
	return h
}

func (h *watchedHome) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *watchedHome) names() string {
	h.keepYoung()
	var names []string
	for _, s := range h.list.get() {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// keepYoung keeps the list from being read again only because it is old: however
// long a test waits for a change, it is told of it or does not see it.
func (h *watchedHome) keepYoung() {
	h.list.mu.Lock()
	defer h.list.mu.Unlock()
	if young := time.Now().Add(-recheckAfter / 2); !h.list.read.IsZero() && h.list.read.Before(young) {
		h.list.read = young
	}
}

// settles waits until the list is as it should be and watched.
func (h *watchedHome) settles(want string) {
	h.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		got := h.names()
		if got == want && !h.list.files.stale.Load() {
			return
		}
		if time.Since(began) > soon {
			h.t.Fatalf("servers: got %q, want %q", got, want)
		}
	}
}

func server(name string) string {
	return fmt.Sprintf(`{"mcpServers": {%q: {"command": %q}}}`, name, name)
}

func TestChangesAreSeenAtTheNextCall(t *testing.T) {
	h := newWatchedHome(t)
	h.settles("")
	if !h.list.sure {
		t.Fatal("the files are not watched")
	}
	h.write(".claude.json", server("made"))
	h.settles("made")
	h.write(".claude.json", server("changed"))
	h.settles("changed")
	h.write("MCPs/in-a-new-folder.json", server("deep"))
	h.settles("changed deep")
	h.write("new", server("renamed"))
	if err := os.Rename(filepath.Join(h.dir, "new"), filepath.Join(h.dir, ".claude.json")); err != nil {
		t.Fatal(err)
	}
	h.settles("deep renamed")
	h.write(".claude.json", server("renamed")[:20])
	h.settles("deep renamed")
	if err := os.RemoveAll(filepath.Join(h.dir, "MCPs")); err != nil {
		t.Fatal(err)
	}
	h.settles("renamed")
	h.write("MCPs/again.json", server("again"))
	h.settles("again renamed")
	if err := os.Remove(filepath.Join(h.dir, ".claude.json")); err != nil {
		t.Fatal(err)
	}
	h.settles("again")
}

func TestAFileBehindALinkIsWatched(t *testing.T) {
	h := newWatchedHome(t)
	h.write("dotfiles/claude.json", server("old"))
	if err := os.Symlink(filepath.Join(h.dir, "dotfiles/claude.json"), filepath.Join(h.dir, ".claude.json")); err != nil {
		t.Fatal(err)
	}
	h.settles("old")
	h.write("dotfiles/claude.json", server("new"))
	h.settles("new")
}

// What is told of a change comes a moment late, and files are not read again at
// once; a call that begins after the change sees it all the same.
func TestACallThatBeginsSeesWhatTheFilesSay(t *testing.T) {
	h := newWatchedHome(t)
	h.names()
	now := func(want string) {
		t.Helper()
		h.list.begin()
		if got := h.names(); got != want {
			t.Errorf("servers: got %q, want %q", got, want)
		}
	}
	name := "n"
	for range 20 {
		h.write(".claude.json", server(name))
		now(name)
		name += "n"
	}
	h.write("MCPs/new.json", server("deep"))
	now("deep nnnnnnnnnnnnnnnnnnnn")
	h.write("MCPs/other.json", server("more"))
	now("deep more nnnnnnnnnnnnnnnnnnnn")
	h.write("MCPs/other.json", server("half")[:12])
	now("deep more nnnnnnnnnnnnnnnnnnnn")
	if err := os.RemoveAll(filepath.Join(h.dir, "MCPs")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(h.dir, ".claude.json"), filepath.Join(h.dir, "away")); err != nil {
		t.Fatal(err)
	}
	now("")
	h.write("work/.cursor/mcp.json", server("project"))
	now("project")
	for n := range 10 {
		h.settles("project")
		h.write(fmt.Sprint("unrelated", n), "x")
		h.list.begin()
		if !h.list.read.IsZero() {
			return
		}
		if !h.list.files.stale.Load() {
			break
		}
		// Something that was done before may have been told late.
	}
	t.Error("another file in the folder has the files read again")
}

func BenchmarkBeginOfACall(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".claude.json"), []byte(server("a")), 0o600); err != nil {
		b.Fatal(err)
	}
	w := newWatcher(zerolog.Nop())
	defer w.close()
	l := &serverList{opts: discovery.Options{Home: dir, Cwd: filepath.Join(dir, "work")}, log: zerolog.Nop(), files: w.open()}
	defer l.close()
	for l.get(); l.files.stale.Load(); l.get() {
		l.begin()
	}
	for b.Loop() {
		l.begin()
	}
}

// Each reading makes a new list only if something is different, so few lists
// mean few readings that mattered.
func TestManyEditsAreReadOnce(t *testing.T) {
	h := newWatchedHome(t)
	h.settles("")
	began, reads, last := h.list.read, 0, time.Time{} // which counts the reading that was the last before
	for i := range 200 {
		h.write(".claude.json", server(fmt.Sprint("n", i)))
		h.names()
		if h.list.read != last {
			last = h.list.read
			reads++
		}
	}
	if most := int(time.Since(began)/settle) + 1; reads > most {
		t.Errorf("%d readings, and %d would do", reads, most)
	}
	h.settles("n199")
}

// Code and backends go by the slice: what has not changed is the same one.
func TestAnUnrelatedChangeLeavesTheListAlone(t *testing.T) {
	h := newWatchedHome(t)
	h.write(".claude.json", server("a"))
	h.settles("a")
	before := h.list.get()
	h.write(".claude.json", strings.Replace(server("a"), "{", `{"theme": "dark", `, 1))
	time.Sleep(2 * settle)
	h.settles("a")
	if after := h.list.get(); &before[0] != &after[0] {
		t.Error("the list is another one")
	}
}

func TestWithoutWatchesFilesAreReadAgain(t *testing.T) {
	h := newWatchedHome(t)
	h.list.files.close()
	h.write(".claude.json", server("a"))
	h.names()
	h.write(".claude.json", server("b"))
	for began := time.Now(); h.names() != "b"; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > soon {
			t.Fatal("the change is not seen")
		}
	}
	if h.list.sure {
		t.Error("the list takes itself to be watched")
	}
}
