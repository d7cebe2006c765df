package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const someDigest = "0123456789abcdef0123456789abcdef"

func someList(digest string, tools ...string) KeptList {
	l := KeptList{Digest: digest, Server: "github", Name: "gh", Version: "1.2.3", Listed: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Count: len(tools)}
	for _, t := range tools {
		l.Tools = append(l.Tools, json.RawMessage(t))
	}
	return l
}

const aTool = `{"name":"search","description":"<ü>","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

func TestAnArchiveGivesBackWhatItKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	a := NewArchive(dir)
	if _, err := a.Load(someDigest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty archive: %v", err)
	}
	if lists, err := a.Lists(); err != nil || len(lists) != 0 {
		t.Errorf("an empty archive: %v, %v", lists, err)
	}
	want := someList(someDigest, aTool)
	if err := a.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := a.Load(someDigest)
	if err != nil {
		t.Fatal(err)
	}
	if tool := string(got.Tools[0]); tool != aTool {
		t.Errorf("tool: got %s, want it as its server wrote it", tool)
	}
	tools, skipped := ParseTools(got.Tools)
	if len(skipped) > 0 || tools[0].Description != "<ü>" || !tools[0].ReadOnly {
		t.Errorf("got %+v, skipped %q", tools, skipped)
	}
	got.Tools, want.Tools = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
	lists, err := a.Lists()
	if diff := cmp.Diff([]KeptList{want}, lists); diff != "" || err != nil {
		t.Errorf("Lists: %v (-want +got):\n%s", err, diff)
	}
	checkMode(t, dir, 0o700)
	checkMode(t, a.path(someDigest), 0o600)
	if n, err := a.Clear(); n != 1 || err != nil {
		t.Errorf("Clear: %d, %v", n, err)
	}
	if _, err := a.Load(someDigest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Clear: %v", err)
	}
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != want {
		t.Errorf("%s: got %v, %v, want %v", path, info.Mode().Perm(), err, want)
	}
}

func TestDamagedFilesOfAnArchiveAreNotUsed(t *testing.T) {
	tests := []struct {
		name, want string
		damage     func(path, text string) error
	}{
		{"empty", "damaged", func(path, _ string) error { return os.WriteFile(path, nil, 0o600) }},
		{"cut in the head", "damaged", func(path, text string) error { return os.WriteFile(path, []byte(text[:40]), 0o600) }},
		{"cut in the tools", "damaged", func(path, text string) error { return os.WriteFile(path, []byte(text[:len(text)-5]), 0o600) }},
		{"longer", "damaged", func(path, text string) error { return os.WriteFile(path, []byte(text+" "), 0o600) }},
		{"another letter", "damaged", func(path, text string) error {
			return os.WriteFile(path, []byte(strings.Replace(text, `"search"`, `"sEarch"`, 1)), 0o600)
		}},
		{"no JSON", "damaged", func(path, _ string) error { return os.WriteFile(path, []byte("\x00\xff\n[]"), 0o600) }},
		{"another version", "another version (7)", func(path, text string) error {
			return os.WriteFile(path, []byte(strings.Replace(text, `"bridged_tools":1`, `"bridged_tools":7`, 1)), 0o600)
		}},
		{"of another definition", "another definition", func(path, text string) error {
			return os.WriteFile(path, []byte(strings.Replace(text, someDigest, strings.Repeat("f", 32), 1)), 0o600)
		}},
		{"a folder", "no regular file", func(path, _ string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }},
		{"a link", "no regular file", func(path, _ string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) }},
		{"huge", "the limit", func(path, _ string) error { return os.Truncate(path, maxArchiveFile+1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := NewArchive(t.TempDir())
			if err := a.Save(someList(someDigest, aTool)); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(a.path(someDigest))
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.damage(a.path(someDigest), string(text)); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Load(someDigest); err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Load: got %v, want %q in it", err, tt.want)
			}
			if _, err := a.Lists(); err != nil {
				t.Errorf("Lists: %v", err)
			}
			if tt.name == "a folder" {
				return // renaming onto it is refused, and says so
			}
			if err := a.Save(someList(someDigest, aTool)); err != nil {
				t.Errorf("Save: %v", err)
			}
			if _, err := a.Load(someDigest); err != nil {
				t.Errorf("written anew: %v", err)
			}
		})
	}
}

func TestAnArchiveIsBounded(t *testing.T) {
	a := NewArchive(t.TempDir())
	digest := func(i int) string { return fmt.Sprintf("%032x", i) }
	for i := range 6 {
		if err := a.Save(someList(digest(i), aTool)); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(a.path(digest(i)), at, at); err != nil {
			t.Fatal(err)
		}
	}
	debris := filepath.Join(a.dir, "."+digest(1)+archiveSuffix+"123")
	if err := os.WriteFile(debris, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * debrisAfter)
	if err := os.Chtimes(debris, old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Load(digest(0)); err != nil { // it is in use
		t.Fatal(err)
	}
	if err := a.trim(3, maxArchiveTotal); err != nil {
		t.Fatal(err)
	}
	kept := func() (list []int) {
		for i := range 6 {
			if _, err := os.Stat(a.path(digest(i))); err == nil {
				list = append(list, i)
			}
		}
		return list
	}
	if diff := cmp.Diff([]int{0, 4, 5}, kept()); diff != "" {
		t.Errorf("three may stay (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(debris); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("debris: %v", err)
	}
	info, err := os.Stat(a.path(digest(0)))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.trim(3, 2*info.Size()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 5}, kept()); diff != "" {
		t.Errorf("two fit (-want +got):\n%s", diff)
	}
	huge := `{"name":"x","description":"` + strings.Repeat("x", maxArchiveFile) + `"}`
	if err := a.Save(someList(digest(7), huge)); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a huge list: %v", err)
	}
	if err := a.Save(someList("../x", aTool)); err == nil {
		t.Error("a digest that is a path was taken")
	}
}

func TestManyWriteOneArchive(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			a := NewArchive(dir)
			for range 10 {
				if err := a.Save(someList(someDigest, strings.Repeat(" ", i)+aTool)); err != nil {
					t.Error(err)
				}
				if _, err := a.Load(someDigest); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestAnArchiveThatCannotBeWrittenSaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := NewArchive(filepath.Join(file, "below"))
	if err := a.Save(someList(someDigest, aTool)); err == nil {
		t.Error("saved")
	}
	if err := a.SaveLearnt(NewCatalog()); err == nil {
		t.Error("saved")
	}
	if _, err := a.Load(someDigest); err == nil {
		t.Error("loaded")
	}
}

func TestAnArchiveKeepsWhatWasLearntBySeveral(t *testing.T) {
	a := NewArchive(t.TempDir())
	if err := a.LoadLearnt(NewCatalog()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing kept: %v", err)
	}
	for _, result := range []string{`{"structuredContent": {"n": 1}}`, `{"structuredContent": {"m": 1}}`} {
		c, ref := school(t, "")
		c.Learn(ref, "list", json.RawMessage(result))
		if err := a.SaveLearnt(c); err != nil {
			t.Fatal(err)
		}
	}
	c, ref := school(t, "")
	if err := a.LoadLearnt(c); err != nil {
		t.Fatal(err)
	}
	tool, _ := c.Tool(ref, "list")
	if got := tool.Returns(); !strings.Contains(got, "n?: int") || !strings.Contains(got, "m?: int") {
		t.Errorf("returns %s", got)
	}
}

func TestTheLatestListOfADefinitionThatIsWrittenAlikeIsFound(t *testing.T) {
	a := NewArchive(t.TempDir())
	save := func(digit, written string, listed time.Time) string {
		t.Helper()
		l := someList(strings.Repeat(digit, 32), aTool)
		l.Written, l.Listed = written, listed
		if err := a.Save(l); err != nil {
			t.Fatal(err)
		}
		return l.Digest
	}
	now := time.Now()
	save("1", "w", now.Add(-time.Hour))
	save("2", "", now)
	save("3", "other", now)
	latest := save("4", "w", now)
	save("5", "w", now.Add(-time.Minute))
	for _, a := range []*Archive{NewArchive(a.dir), NewArchive(a.dir)} {
		if l, err := a.LoadLike("w"); err != nil || l.Digest != latest || len(l.Tools) != 1 || l.Written != "w" {
			t.Errorf("got %+v, %v", l, err)
		}
	}
	for _, written := range []string{"", "unknown"} {
		if l, err := a.LoadLike(written); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got %+v, %v", written, l, err)
		}
	}
	newer := save("6", "w", now.Add(time.Minute))
	if l, err := a.LoadLike("w"); err != nil || l.Digest != newer {
		t.Errorf("after another was saved: %+v, %v", l, err)
	}
	if err := a.Drop(newer); err != nil {
		t.Error(err)
	}
	if l, err := a.LoadLike("w"); err != nil || l.Digest != latest {
		t.Errorf("after that was dropped: %+v, %v", l, err)
	}
}
