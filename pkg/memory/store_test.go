package memory

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newStore returns a store in a folder of the test's.
func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "user_tools", "memory")
	}
	return Open(o)
}

func save(t testing.TB, sp *Space, key, value string) Memory {
	t.Helper()
	m, err := sp.Save(t.Context(), key, Change{Value: json.RawMessage(value)})
	if err != nil {
		t.Fatalf("saving %q: %v", key, err)
	}
	return m
}

func expectValue(t testing.TB, sp *Space, key, want string) {
	t.Helper()
	m, err := sp.Load(key)
	if err != nil || string(m.Value) != want {
		t.Errorf("%q is %s, %v; want %s", key, m.Value, err, want)
	}
}

func expectCode(t testing.TB, err error, want string) {
	t.Helper()
	coded, ok := errors.AsType[interface {
		error
		RPCCode() string
	}](err)
	if !ok || coded.RPCCode() != want {
		t.Errorf("got error %v, want one with the code %s", err, want)
	}
}

func write(t testing.TB, sp *Space, name, text string) {
	t.Helper()
	if err := os.MkdirAll(sp.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sp.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, sp *Space, name string) string {
	t.Helper()
	text, err := os.ReadFile(sp.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMemoryIsAFileThatPeopleCanRead(t *testing.T) {
	s := newStore(t, Options{})
	s.now = func() time.Time { return time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC) }
	sp := s.Global()
	_, err := sp.Save(t.Context(), "ÜberPlan", Change{Value: json.RawMessage(`{"b":[1,9007199254740993],"a":"gr\u00fc\u00df \ud83d\ude00 <&> \u202e \ud800 \u0007"}`), Metadata: json.RawMessage(`{"tags":["x"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "key": "ÜberPlan",
  "value": {
    "b": [
      1,
      9007199254740993
    ],
    "a": "grüß 😀 <&> \u202e \ud800 \u0007"
  },
  "metadata": {
    "tags": [
      "x"
    ]
  },
  "created": "2026-11-30T10:00:00.000000Z",
  "updated": "2026-11-30T10:00:00.000000Z",
  "version": 1
}
`
	if diff := cmp.Diff(want, read(t, sp, "%C3%9CberPlan~1.json")); diff != "" {
		t.Errorf("the file is not as wanted (-want +got):\n%s", diff)
	}
	expectValue(t, sp, "ÜberPlan", `{"b":[1,9007199254740993],"a":"grüß 😀 <&> \u202e \ud800 \u0007"}`)
}

func TestSavesAreCountedAndKeepWhatTheyDoNotChange(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	first, err := sp.Save(t.Context(), "k", Change{Value: json.RawMessage("1"), Metadata: json.RawMessage(`{"a":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	second := save(t, sp, "k", "2")
	if second.Version != 2 || !second.Created.Equal(first.Created) || string(second.Metadata) != `{"a":1}` {
		t.Errorf("the second save made %+v of %+v", second, first)
	}
	if _, err := sp.Load("other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key that is not there gives %v", err)
	}
	if name, err := sp.Delete(t.Context(), "k"); err != nil || name != "k.json" {
		t.Errorf("deleting gives %q, %v", name, err)
	}
	if name, err := sp.Delete(t.Context(), "k"); err != nil || name != "" {
		t.Errorf("deleting again gives %q, %v", name, err)
	}
	if m := save(t, sp, "k", "3"); m.Version != 3 {
		t.Errorf("the version after a deletion is %d, want one that was never there", m.Version)
	}
}

func TestSaveIsRefusedWhenTheMemoryHasChanged(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	zero, one := int64(0), int64(1)
	change := func(c Change) error {
		c.Value = json.RawMessage("true")
		_, err := sp.Save(t.Context(), "k", c)
		return err
	}
	expectCode(t, change(Change{If: "1-00000000"}), CodeConflict)
	expectCode(t, change(Change{Version: &one}), CodeConflict)
	if err := change(Change{If: "0", Version: &zero}); err != nil {
		t.Errorf("a save of what is not there yet is refused: %v", err)
	}
	expectCode(t, change(Change{If: "0"}), CodeConflict)
	expectCode(t, change(Change{Version: &zero}), CodeConflict)
	m, _ := sp.Load("k")
	write(t, sp, "k.json", strings.Replace(read(t, sp, "k.json"), "true", "9", 1)) // by hand: the version stays
	expectCode(t, change(Change{If: m.Stamp}), CodeConflict)
	m, _ = sp.Load("k")
	if err := change(Change{If: m.Stamp, Version: &one}); err != nil {
		t.Errorf("a save of what is there is refused: %v", err)
	}
}

func TestFilesOfTheSeedProjectAreReadAsTheyAre(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	seed := `{"key": "Key with spaces!", "value": [1], "metadata": {"tags": ["x"]}, "created_at": 1700000000.25, "updated_at": 1700000001.5}`
	write(t, sp, "Key_with_spaces_.json", seed)
	m, err := sp.Load("Key with spaces!")
	if err != nil || m.Version != 1 || m.Created.Unix() != 1700000000 || m.Updated.UnixMilli() != 1700000001500 {
		t.Fatalf("got %+v, %v", m, err)
	}
	if _, err := sp.Load("Key_with_spaces_"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key is taken for it: %v", err)
	}
	save(t, sp, "Key_with_spaces_", "2") // whose name is another's
	save(t, sp, "Key with spaces!", "3")
	expectValue(t, sp, "Key_with_spaces_", "2")
	expectValue(t, sp, "Key with spaces!", "3")
	if text := read(t, sp, "Key_with_spaces_.json"); !strings.Contains(text, "2023-11-14T22:13:20.250000Z") {
		t.Errorf("the file lost its age: %s", text)
	}
	if _, err := sp.Delete(t.Context(), "Key with spaces!"); err != nil {
		t.Fatal(err)
	}
	if m, err := sp.Restore(t.Context(), "Key with spaces!", 0); err != nil || m.Name != "Key_with_spaces_.json" || m.Version != 3 {
		t.Errorf("restored %+v, %v", m, err)
	}
}

func TestFilesThatPeopleWriteAreMemories(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	save(t, sp, "plan", "1")
	write(t, sp, "copy.json", read(t, sp, "plan.json")) // its key says plan
	write(t, sp, "My Notes.json", "\ufeff{\"value\": \"x\",\n \"tags\": [\"mine\"], \"version\": \"three\", \"created\": 7}")
	rows, err := sp.List("")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range rows {
		keys = append(keys, r.Key)
	}
	if diff := cmp.Diff([]string{"My Notes", "copy", "plan"}, keys); diff != "" {
		t.Errorf("the keys are not as wanted (-want +got):\n%s", diff)
	}
	save(t, sp, "My Notes", `"y"`)
	if text := read(t, sp, "My Notes.json"); !strings.Contains(text, `"tags": [`) || !strings.Contains(text, `"version": 2`) {
		t.Errorf("the file is %s", text)
	}
	save(t, sp, "copy", "2")
	expectValue(t, sp, "plan", "1")
}

func TestBrokenFileIsReportedForItsKeyAlone(t *testing.T) {
	for why, text := range map[string]string{
		"line 3":            "{\n\"value\": 1,\n}",
		"line 4":            "{\"value\":\n[1,\n\n]}",
		"middle":            "{\"key\": \"bad\", \"value\": [1,",
		"no \"value\"":      "{}",
		"line 2: it is no":  "{\"value\":\n\"\xe9\"}",
		"no JSON object":    "[1]",
		"something follows": "{\"value\": 1} {}",
	} {
		t.Run(why, func(t *testing.T) {
			sp := newStore(t, Options{}).Global()
			save(t, sp, "good", "1")
			write(t, sp, "bad.json", text)
			_, err := sp.Load("bad")
			expectCode(t, err, CodeBroken)
			if !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), sp.dir) {
				t.Errorf("the error is %q, want it to say %q and no path", err, why)
			}
			_, err = sp.Save(t.Context(), "bad", Change{Value: json.RawMessage("2")})
			expectCode(t, err, CodeBroken)
			if got := read(t, sp, "bad.json"); got != text {
				t.Errorf("the file is %q now", got)
			}
			rows, err := sp.List("")
			if err != nil || len(rows) != 2 || rows[0].Broken == nil || rows[1].Broken != nil {
				t.Errorf("the list is %+v, %v", rows, err)
			}
			if name, err := sp.Delete(t.Context(), "bad"); err != nil || name != "bad.json" {
				t.Errorf("deleting gives %q, %v", name, err)
			}
			kept, err := filepath.Glob(sp.path(".history/bad/broken-*.json"))
			if err != nil || len(kept) != 1 {
				t.Errorf("kept of it is %v, %v", kept, err)
			}
			save(t, sp, "bad", "3")
		})
	}
}

func TestWhatIsNoFileIsNoMemory(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	save(t, sp, "good", "1")
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte(`{"value": "secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, sp.path("link.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(sp.path("folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"link", "folder"} {
		_, err := sp.Load(key)
		expectCode(t, err, CodeBroken)
		_, err = sp.Save(t.Context(), key, Change{Value: json.RawMessage("2")})
		expectCode(t, err, CodeBroken)
		_, err = sp.Delete(t.Context(), key) // it could not be kept
		expectCode(t, err, CodeBroken)
	}
	if rows, err := sp.List(""); err != nil || len(rows) != 2 || strings.Contains(string(rows[1].Value), "secret") {
		t.Errorf("the list is %+v, %v", rows, err)
	}
}

func TestQuotas(t *testing.T) {
	sp := newStore(t, Options{MaxBytes: 100, MaxTotal: 1000, MaxCount: 3}).Global()
	set := func(key string, size int) error {
		_, err := sp.Save(t.Context(), key, Change{Value: json.RawMessage(`"` + strings.Repeat("x", size-4) + `"`)})
		return err
	}
	expectCode(t, set("a", 101), CodeFull)
	for _, key := range []string{"a", "b", "c"} {
		if err := set(key, 100); err != nil {
			t.Fatal(err)
		}
	}
	expectCode(t, set("d", 10), CodeFull)
	if err := set("a", 90); err != nil {
		t.Errorf("one that was there is refused: %v", err)
	}
	sp.store.opts.MaxTotal = 10 // the user wants less now
	expectCode(t, set("a", 91), CodeFull)
	if err := set("a", 80); err != nil {
		t.Errorf("one that gets smaller is refused: %v", err)
	}
	if _, err := sp.Delete(t.Context(), "a"); err != nil {
		t.Errorf("deleting is refused: %v", err)
	}
}

func TestKeysAreChecked(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	for _, key := range []string{"", strings.Repeat("x", maxKey+1), "\xff"} {
		_, err := sp.Save(t.Context(), key, Change{Value: json.RawMessage("1")})
		expectCode(t, err, CodeInvalid)
		_, err = sp.Load(key)
		expectCode(t, err, CodeInvalid)
		_, err = sp.Delete(t.Context(), key)
		expectCode(t, err, CodeInvalid)
		_, err = sp.History(key)
		expectCode(t, err, CodeInvalid)
		_, err = sp.Restore(t.Context(), key, 0)
		expectCode(t, err, CodeInvalid)
	}
}

func TestDeepValuesDoNotGrowOnTheDisk(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	for _, value := range []string{
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		strings.Repeat("[", 30) + strings.Repeat("1,", 100000) + "1" + strings.Repeat("]", 30),
	} {
		if m := save(t, sp, "deep", value); m.Bytes > 5*len(value) {
			t.Errorf("a value of %d bytes has a file of %d", len(value), m.Bytes)
		}
		expectValue(t, sp, "deep", value)
	}
}

func TestHistoryRestoresWhatWas(t *testing.T) {
	sp := newStore(t, Options{History: 3}).Global()
	for _, v := range []string{"1", "2", "3", "4", "5", "6"} {
		save(t, sp, "k", v)
	}
	versions := func() (list []int64) {
		h, err := sp.History("k")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range h {
			list = append(list, e.Version)
		}
		return list
	}
	if diff := cmp.Diff([]int64{6, 5, 4, 3}, versions()); diff != "" {
		t.Errorf("the history is not as wanted (-want +got):\n%s", diff)
	}
	if m, err := sp.Restore(t.Context(), "k", 0); err != nil || string(m.Value) != "5" || m.Version != 7 {
		t.Errorf("restored %+v, %v", m, err)
	}
	if m, err := sp.Restore(t.Context(), "k", 4); err != nil || string(m.Value) != "4" || m.Version != 8 {
		t.Errorf("restored %+v, %v", m, err)
	}
	_, err := sp.Restore(t.Context(), "k", 1)
	expectCode(t, err, CodeMissing)
	_, err = sp.Restore(t.Context(), "other", 0)
	expectCode(t, err, CodeMissing)
	if _, err := sp.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if m, err := sp.Restore(t.Context(), "k", 0); err != nil || string(m.Value) != "4" || m.Version != 9 {
		t.Errorf("restored %+v, %v after a deletion", m, err)
	}
	write(t, sp, "k.json", "{")
	if m, err := sp.Restore(t.Context(), "k", 0); err != nil || string(m.Value) != "4" || m.Version < 9 {
		t.Errorf("restored %+v, %v in the place of a broken one", m, err)
	}
}

func TestHistoryAsAWholeIsBounded(t *testing.T) {
	t.Run("in number", func(t *testing.T) { testBoundedHistory(t, Options{MaxCount: 5}) })
	t.Run("in size", func(t *testing.T) { testBoundedHistory(t, Options{MaxTotal: 5000}) })
}

func testBoundedHistory(t *testing.T, o Options) {
	sp := newStore(t, o).Global()
	for i := range 30 {
		key := string(rune('a' + i))
		for range 4 {
			save(t, sp, key, `"`+strings.Repeat("x", 300)+`"`)
		}
		if _, err := sp.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	sp.trimAll()
	if sp.past > sp.store.opts.MaxTotal {
		t.Errorf("the history has %d bytes", sp.past)
	}
	expectRestored := func(key string, want bool) {
		t.Helper()
		if _, err := sp.Restore(t.Context(), key, 0); (err == nil) != want {
			t.Errorf("restoring %q gives %v", key, err)
		}
	}
	folders, err := os.ReadDir(sp.path(historyName))
	if err != nil || len(folders) > 10 || len(folders) == 0 {
		t.Errorf("there is a history of %d memories, %v", len(folders), err)
	}
	expectRestored(string(rune('a'+29)), true)
	expectRestored("a", false)
}

func TestSearchFindsWordsInKeysMetadataAndValues(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	save(t, sp, "deploy plan", `{"steps":["build the image","push to Staging"]}`)
	save(t, sp, "staging", `"host is st-1"`)
	if _, err := sp.Save(t.Context(), "misc", Change{Value: json.RawMessage("1"), Metadata: json.RawMessage(`{"tags":["STAGING","image"]}`)}); err != nil {
		t.Fatal(err)
	}
	find := func(query string) (keys []string) {
		hits, err := sp.Search(query)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			keys = append(keys, h.Key)
		}
		return keys
	}
	for query, want := range map[string][]string{
		"staging image": {"misc", "deploy plan", "staging"},
		"push":          {"deploy plan"},
		"stagign":       {"staging"},
		"dplan":         {"deploy plan"},
		"nothing here":  nil,
		"":              nil,
	} {
		if diff := cmp.Diff(want, find(query)); diff != "" {
			t.Errorf("%q finds other things (-want +got):\n%s", query, diff)
		}
	}
	hits, _ := sp.Search("push")
	if got := hits[0].Snippet; !strings.Contains(got, "push to Staging") {
		t.Errorf("the snippet is %q", got)
	}
}

func TestProjectsHaveMemoriesOfTheirOwn(t *testing.T) {
	s := newStore(t, Options{})
	root := t.TempDir()
	deep := filepath.Join(root, "app", "src")
	for _, dir := range []string{deep, filepath.Join(root, "app", ".git"), filepath.Join(root, "app2")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	app := s.Project(deep)
	save(t, app, "k", "1")
	save(t, s.Global(), "k", "2")
	save(t, s.Project(filepath.Join(root, "app2")), "k", "3")
	if s.Project(filepath.Join(root, "app")) != app {
		t.Error("the folders of a project have different memories")
	}
	expectValue(t, app, "k", "1")
	expectValue(t, s.Global(), "k", "2")
	again := Open(s.opts)
	list, err := again.Projects()
	if err != nil || len(list) != 2 || list[0].Project() != filepath.Join(root, "app") {
		t.Errorf("the projects are %v, %v", list, err)
	}
	if rows, err := s.Global().List(""); err != nil || len(rows) != 1 {
		t.Errorf("the global memories are %v, %v", rows, err)
	}
}

// A lockingDisk fails the test when a file is begun without the lock: whoever
// has that takes such files for what was left behind.
type lockingDisk struct {
	osDisk
	t    *testing.T
	held bool
}

func (d *lockingDisk) lock(ctx context.Context, path string) (func(), error) {
	unlock, err := d.osDisk.lock(ctx, path)
	if err != nil {
		return nil, err
	}
	d.held = true
	return func() { d.held = false; unlock() }, nil
}

func (d *lockingDisk) create(dir, path string) (draft, error) {
	if !d.held {
		d.t.Errorf("%s is written without the lock", path)
	}
	return d.osDisk.create(dir, path)
}

func TestNothingIsWrittenWithoutTheLock(t *testing.T) {
	s := open(Options{Dir: filepath.Join(t.TempDir(), "memory")}, &lockingDisk{t: t})
	for _, sp := range []*Space{s.Global(), s.Project(t.TempDir())} {
		save(t, sp, "k", "1")
		save(t, sp, "k", "2")
		if err := os.RemoveAll(sp.dir); err != nil {
			t.Fatal(err)
		}
		save(t, sp, "k", "3")
	}
	if list, err := s.Projects(); err != nil || len(list) != 1 {
		t.Errorf("the projects are %v, %v", list, err)
	}
}

func TestFoldersThatAPersonRemovesAreMadeAgain(t *testing.T) {
	sp := newStore(t, Options{}).Global()
	save(t, sp, "k", "1")
	if err := os.RemoveAll(sp.path(tempName)); err != nil {
		t.Fatal(err)
	}
	save(t, sp, "k", "2")
	if err := os.RemoveAll(sp.dir); err != nil {
		t.Fatal(err)
	}
	save(t, sp, "k", "3")
	expectValue(t, sp, "k", "3")
}
