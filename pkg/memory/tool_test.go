package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clock is where the tests' time stands still.
var clock = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newTestTools(t *testing.T, o ToolOptions) *Tools {
	t.Helper()
	if o.Folder == "" {
		o.Folder = filepath.Join(t.TempDir(), "user_tools")
	}
	o.Shown = "~/MCPs/user_tools"
	if o.now == nil {
		o.now = func() time.Time { return clock }
	}
	return NewTools(o)
}

func mustSave(t *testing.T, tools *Tools, name, source string) ToolSaved {
	t.Helper()
	saved, err := tools.Save(t.Context(), ToolSave{Name: name, Source: source})
	if err != nil {
		t.Fatalf("saving %s: %v", name, err)
	}
	return saved
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantCode checks the code of an error, and that its text has some words.
func wantCode(t *testing.T, err error, code string, words ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want an error with code %s", err, code)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			t.Errorf("the error %q lacks %q", e.Message, w)
		}
	}
}

func TestASavedToolIsAFileThatAPersonCanRead(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	got, err := tools.Save(t.Context(), ToolSave{Name: "slugify", Source: "def slugify(t):\n    return t\n\n", Description: "Makes\n a slug.\x1b"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ToolSaved{Version: 1, Path: "~/MCPs/user_tools/slugify.py"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := "# A saved tool. You may edit it: the next call that uses it does as this file says.\n" +
		"# saved: version 1, 2026-03-04T05:06:07Z\n# description: Makes a slug.\n\ndef slugify(t):\n    return t\n"
	data, err := os.ReadFile(filepath.Join(tools.opts.Folder, "slugify.py"))
	if err != nil || string(data) != want {
		t.Errorf("the file says %q, %v; want %q", data, err, want)
	}
	ignore, err := os.ReadFile(filepath.Join(tools.opts.Folder, ".history", ".gitignore"))
	if err != nil || string(ignore) != "*\n" {
		t.Errorf("git is told %q, %v", ignore, err)
	}
}

func TestEveryVersionCanBeHadAgain(t *testing.T) {
	tools := newTestTools(t, ToolOptions{Versions: 3})
	for i := 1; i <= 4; i++ {
		if got := mustSave(t, tools, "f", fmt.Sprintf("v = %d", i)); got.Version != i || got.Replaced != i-1 {
			t.Fatalf("save %d gave %+v", i, got)
		}
	}
	text := func(version int) string {
		got, err := tools.Read("f", version)
		if err != nil {
			t.Fatalf("reading version %d: %v", version, err)
		}
		_, source, _ := strings.Cut(got.Source, "\n\n")
		return source
	}
	if text(0) != "v = 4\n" || text(2) != "v = 2\n" {
		t.Errorf("version 4 is %q and version 2 is %q", text(0), text(2))
	}
	_, err := tools.Read("f", 1)
	wantCode(t, err, CodeToolMissing, "no version 1", "2, 3, 4")
	back, err := tools.Restore(t.Context(), "f", 0)
	if err != nil || back.Version != 5 || text(0) != "v = 3\n" {
		t.Errorf("restored %+v, %v: %q", back, err, text(0))
	}
	if got, _ := tools.Read("f", 0); !strings.Contains(got.Source, "# saved: version 5,") {
		t.Errorf("the restored file says %q", got.Source)
	}
	if _, err := tools.Restore(t.Context(), "f", 4); err != nil || text(0) != "v = 4\n" {
		t.Errorf("restored version 4: %v, %q", err, text(0))
	}
	_, err = tools.Restore(t.Context(), "f", 1)
	wantCode(t, err, CodeToolMissing, "no version 1")
}

func TestADeletedToolCanBeBroughtBack(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	mustSave(t, tools, "f", "v = 1")
	mustSave(t, tools, "f", "v = 2")
	version, err := tools.Delete(t.Context(), "f")
	if err != nil || version != 2 {
		t.Fatalf("deleted version %d, %v", version, err)
	}
	if names := tools.Names(); len(names) != 0 {
		t.Errorf("after Delete there are %q", names)
	}
	_, err = tools.Read("f", 0)
	wantCode(t, err, CodeToolMissing, `restore_tool("f") brings version 2 back`)
	_, err = tools.Delete(t.Context(), "f")
	wantCode(t, err, CodeToolMissing)
	if old, err := tools.Read("f", 1); err != nil || !strings.HasSuffix(old.Source, "v = 1\n") {
		t.Errorf("version 1 is %q, %v", old.Source, err)
	}
	if back, err := tools.Restore(t.Context(), "f", 0); err != nil || back.Version != 3 {
		t.Fatalf("restored %+v, %v", back, err)
	}
	if got, err := tools.Read("f", 0); err != nil || !strings.HasSuffix(got.Source, "v = 2\n") {
		t.Errorf("what is back is %q, %v", got.Source, err)
	}
	_, err = tools.Restore(t.Context(), "never", 0)
	wantCode(t, err, CodeToolMissing, "list_tools_saved()")
}

func TestWhatAPersonHasWrittenIsKept(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	mustSave(t, tools, "f", "v = 1")
	file := filepath.Join(tools.opts.Folder, "f.py")
	putFile(t, file, "by = 'hand'\n")
	if got, err := tools.Read("f", 0); err != nil || got.Source != "by = 'hand'\n" || got.Version != 2 {
		t.Errorf("read %+v, %v", got, err)
	}
	if got := tools.List(); !got[0].Edited || got[0].Version != 2 {
		t.Errorf("listed %+v", got)
	}
	if got := mustSave(t, tools, "f", "v = 3"); got.Version != 3 || got.Replaced != 2 {
		t.Errorf("saved %+v", got)
	}
	if got, err := tools.Read("f", 2); err != nil || got.Source != "by = 'hand'\n" {
		t.Errorf("version 2 is %+v, %v", got, err)
	}
	putFile(t, file, "again = 'by hand'\n")
	if _, err := tools.Delete(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if got, err := tools.Read("f", 4); err != nil || got.Source != "again = 'by hand'\n" {
		t.Errorf("version 4 is %+v, %v", got, err)
	}
	putFile(t, filepath.Join(tools.opts.Folder, "own.py"), "def own(): pass\n")
	if got := mustSave(t, tools, "own", "v = 2"); got.Version != 2 {
		t.Errorf("saved over a person's own file: %+v", got)
	}
	if back, err := tools.Restore(t.Context(), "own", 1); err != nil || back.Version != 3 {
		t.Errorf("restored %+v, %v", back, err)
	}
	if got, _ := tools.Read("own", 0); got.Source != "def own(): pass\n" {
		t.Errorf("a person's own file came back as %q", got.Source)
	}
}

func TestSaversAtOnceLoseNothing(t *testing.T) {
	const savers, each = 32, 4
	folder := filepath.Join(t.TempDir(), "user_tools")
	var saving sync.WaitGroup
	for i := range savers {
		tools := newTestTools(t, ToolOptions{Folder: folder, Versions: savers * each}) // as of another process
		saving.Go(func() {
			for j := 0; j < each; {
				_, err := tools.Save(t.Context(), ToolSave{Name: "f", Source: fmt.Sprintf("who = %d, %d", i, j)})
				if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeBusy {
					continue // as it is told to: the disk is slow, and the lock is no queue
				}
				if err != nil {
					t.Error(err)
				}
				j++
			}
		})
	}
	saving.Wait()
	tools := newTestTools(t, ToolOptions{Folder: folder, Versions: savers * each})
	found := map[string]bool{}
	for v := 1; v <= savers*each; v++ {
		got, err := tools.Read("f", v)
		if err != nil {
			t.Fatalf("version %d: %v", v, err)
		}
		_, source, _ := strings.Cut(got.Source, "\n\n")
		found[source] = true
	}
	if len(found) != savers*each {
		t.Errorf("%d of %d saves are kept", len(found), savers*each)
	}
	if got := tools.List(); got[0].Edited || got[0].Version != savers*each {
		t.Errorf("the last is %+v", got[0])
	}
}

func TestASaveForAnotherVersionIsRefused(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	one, two := 1, 2
	_, err := tools.Save(t.Context(), ToolSave{Name: "f", Source: "x", Version: &one})
	wantCode(t, err, CodeToolConflict, "no saved tool f now")
	zero := 0
	if _, err := tools.Save(t.Context(), ToolSave{Name: "f", Source: "x", Version: &zero}); err != nil {
		t.Fatal(err)
	}
	_, err = tools.Save(t.Context(), ToolSave{Name: "f", Source: "y", Version: &two})
	wantCode(t, err, CodeToolConflict, "has version 1, not 2", `tool_source("f")`, "version=1")
	if _, err := tools.Save(t.Context(), ToolSave{Name: "f", Source: "y", Version: &one}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoToolIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		save ToolSave
		code string
		word string
	}{
		"a path":                    {ToolSave{Name: "../f", Source: "x"}, CodeBadRequest, "letters, digits"},
		"no name":                   {ToolSave{Source: "x"}, CodeBadRequest, "letters, digits"},
		"a hidden name":             {ToolSave{Name: "_f", Source: "x"}, CodeBadRequest, "letters, digits"},
		"letters of other scripts":  {ToolSave{Name: "größe", Source: "x"}, CodeBadRequest, "letters, digits"},
		"a long name":               {ToolSave{Name: strings.Repeat("f", 65), Source: "x"}, CodeBadRequest, "letters, digits"},
		"a line end after the name": {ToolSave{Name: "f\n", Source: "x"}, CodeBadRequest, "letters, digits"},
		"the name of a server":      {ToolSave{Name: "mcp_x", Source: "x"}, CodeBadRequest, "mcp_"},
		"the file of many":          {ToolSave{Name: "user_tools", Source: "x"}, CodeBadRequest, "user_tools"},
		"no source":                 {ToolSave{Name: "f", Source: " \n"}, CodeBadRequest, "empty"},
		"a NUL":                     {ToolSave{Name: "f", Source: "x\x00"}, CodeBadRequest, "no text"},
		"no UTF-8":                  {ToolSave{Name: "f", Source: "\xff"}, CodeBadRequest, "no text"},
		"too much":                  {ToolSave{Name: "f", Source: strings.Repeat("x", 101)}, CodeToolTooLarge, "tools.max_bytes"},
		"too much said":             {ToolSave{Name: "f", Source: "x", Description: strings.Repeat("x", 1001)}, CodeToolTooLarge, "description"},
		"only case tells it apart":  {ToolSave{Name: "Here", Source: "x"}, CodeBadRequest, "saved tool here"},
	} {
		t.Run(name, func(t *testing.T) {
			tools := newTestTools(t, ToolOptions{MaxBytes: 100})
			mustSave(t, tools, "here", "x")
			_, err := tools.Save(t.Context(), tt.save)
			wantCode(t, err, tt.code, tt.word)
			if got := tools.Names(); !slices.Equal(got, []string{"here"}) {
				t.Errorf("there are %q", got)
			}
		})
	}
}

func TestTheNumberOfToolsIsBounded(t *testing.T) {
	tools := newTestTools(t, ToolOptions{MaxTools: 2})
	mustSave(t, tools, "a", "x")
	mustSave(t, tools, "b", "x")
	_, err := tools.Save(t.Context(), ToolSave{Name: "c", Source: "x"})
	wantCode(t, err, CodeToolFull, "2 saved tools", "tools.max_count", "delete_tool")
	mustSave(t, tools, "a", "y")
	if _, err := tools.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	mustSave(t, tools, "c", "x")
	_, err = tools.Restore(t.Context(), "b", 0)
	wantCode(t, err, CodeToolFull)
}

func TestVersionsOfDeletedToolsAreBounded(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	for i := range maxGone + 5 {
		name := fmt.Sprintf("f%d", i)
		mustSave(t, tools, name, "x")
		if _, err := tools.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		at := clock.Add(time.Duration(i) * time.Second) // as if time had passed
		if err := os.Chtimes(filepath.Join(tools.history.folder, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if v := tools.history.versions("f2"); len(v) != 0 {
		t.Errorf("the first that was deleted still has versions %d", v)
	}
	if v := tools.history.versions(fmt.Sprintf("f%d", maxGone+4)); len(v) != 1 {
		t.Errorf("the last that was deleted has versions %d", v)
	}
}

func TestNamesFollowTheFolder(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	want := func(names ...string) {
		t.Helper()
		if diff := cmp.Diff(names, tools.Names()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want()
	mustSave(t, tools, "b", "x")
	want("b")
	folder := tools.opts.Folder
	for _, name := range []string{"a.py", "notes.txt", "_private.py", "odd name.py", "mcp_x.py", ".#a.py", "__init__.py", "sub.py/x"} {
		putFile(t, filepath.Join(folder, name), "def a(): pass\n")
	}
	want("a", "b")
	putFile(t, filepath.Join(folder, "user_tools.py"), "import os\ndef two(): pass\ndef one(): pass\ndef _no(): pass\ndef two(): pass\n")
	want("a", "b", "user_tools.one", "user_tools.two")
	putFile(t, filepath.Join(folder, "user_tools.py"), "def six(): pass\n")
	want("a", "b", "user_tools.six")
	if err := os.Remove(filepath.Join(folder, "a.py")); err != nil {
		t.Fatal(err)
	}
	want("b", "user_tools.six")
}

func TestNamesAreNotReadAgainWhenNothingHasChanged(t *testing.T) {
	tools := newTestTools(t, ToolOptions{now: time.Now})
	mustSave(t, tools, "b", "x")
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(tools.opts.Folder, long, long); err != nil {
		t.Fatal(err)
	}
	first := tools.Names()
	if second := tools.Names(); &first[0] != &second[0] {
		t.Error("the folder was read again")
	}
	putFile(t, filepath.Join(tools.opts.Folder, "c.py"), "x")
	if got := tools.Names(); len(got) != 2 {
		t.Errorf("there are %q", got)
	}
}

func TestListTellsOfEachTool(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	mustSave(t, tools, "f", "async def f(a: int,\n            b: str = ')') -> str:\n    '''Does it.\n    At once.\n\n    More.\n    '''\n    await mcp_github.x(); from mcp.servers.files import y\n")
	if _, err := tools.Save(t.Context(), ToolSave{Name: "g", Source: "def g(): pass", Description: "In other words."}); err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(tools.opts.Folder, "user_tools.py"), "def g(): pass\n\n\ndef old(x):\n    \"\"\"Of the seed.\"\"\"\n")
	putFile(t, filepath.Join(tools.opts.Folder, "bad.py"), "\xff")
	if err := syscall.Mkfifo(filepath.Join(tools.opts.Folder, "pipe.py"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := tools.List()
	for i := range got {
		got[i].Saved = time.Time{}
	}
	want := []SavedTool{
		{Name: "bad", Signature: "bad(...)", File: "~/MCPs/user_tools/bad.py", Problem: "The saved tool bad can't be read: ~/MCPs/user_tools/bad.py: it is not in UTF-8."},
		{Name: "f", Signature: "f(a: int, b: str = ')') -> str", Description: "Does it. At once.", Version: 1, Versions: []int{1}, Servers: []string{"files", "github"}, File: "~/MCPs/user_tools/f.py"},
		{Name: "g", Signature: "g()", Description: "In other words.", Version: 1, Versions: []int{1}, File: "~/MCPs/user_tools/g.py"},
		{Name: "old", Signature: "old(x)", Description: "Of the seed.", File: "~/MCPs/user_tools/user_tools.py"},
		{Name: "pipe", Signature: "pipe(...)", File: "~/MCPs/user_tools/pipe.py", Problem: "The saved tool pipe can't be read: ~/MCPs/user_tools/pipe.py: it is no regular file."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALinkIsFollowed(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	elsewhere := filepath.Join(t.TempDir(), "f.py")
	putFile(t, elsewhere, "v = 1\n")
	if err := os.MkdirAll(tools.opts.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(tools.opts.Folder, "f.py")); err != nil {
		t.Fatal(err)
	}
	mustSave(t, tools, "f", "v = 2")
	if data, err := os.ReadFile(elsewhere); err != nil || !strings.HasSuffix(string(data), "v = 2\n") {
		t.Errorf("the file that the link leads to says %q, %v", data, err)
	}
}

func TestASandboxAsksForTools(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	call := func(method, params string) (map[string]any, error) {
		raw, err := tools.Call(t.Context(), method, json.RawMessage(params))
		var answer map[string]any
		if err == nil {
			err = json.Unmarshal(raw, &answer)
		}
		return answer, err
	}
	for _, step := range []struct{ method, params, key, want string }{
		{"saved.save", `{"name":"f","source":"def f(): pass"}`, "version", "1"},
		{"saved.read", `{"name":"f"}`, "path", "~/MCPs/user_tools/f.py"},
		{"saved.list", ``, "tools", "[map[description: file:~/MCPs/user_tools/f.py name:f"},
		{"saved.save", `{"name":"f","source":"def f(): 2"}`, "replaced", "1"},
		{"saved.restore", `{"name":"f","version":1}`, "version", "3"},
		{"saved.delete", `{"name":"f"}`, "version", "3"},
	} {
		got, err := call(step.method, step.params)
		if err != nil || !strings.HasPrefix(fmt.Sprint(got[step.key]), step.want) {
			t.Errorf("%s gave %v, %v; want %s %s", step.method, got, err, step.key, step.want)
		}
	}
	mustSave(t, tools, "g", "x")
	text, err := tools.Read("g", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := call("saved.read", `{"name":"g","digest":"`+text.Digest+`"}`); err != nil || got["same"] != true || got["source"] != nil {
		t.Errorf("a text that the sandbox has: %v, %v", got, err)
	}
	_, err = call("saved.read", `{"name":"../../etc/passwd"}`)
	wantCode(t, err, CodeBadRequest)
	_, err = call("saved.read", `[]`)
	wantCode(t, err, CodeBadRequest, "cannot be read")
	_, err = call("saved.nothing", `{}`)
	wantCode(t, err, CodeBadRequest, "no method")
}

func TestSketchFindsWhatPythonWouldDefine(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []definition
	}{
		"nothing":                        {"", nil},
		"a class":                        {"class A(B):\n    'Doc.'\n", []definition{{"A", "A(...)", "Doc."}}},
		"a def in a string":              {"x = '''\ndef no(): pass\n'''\ndef yes(): pass\n", []definition{{"yes", "yes()", ""}}},
		"a def in a comment":             {"# def no():\ndef yes(): pass # def no():\n", []definition{{"yes", "yes()", ""}}},
		"nested ones are others'":        {"def a():\n    def b(): pass\n", []definition{{"a", "a()", ""}}},
		"parameters on many lines":       {"def a(\n    b,  # of b\n    c=(1, 2),\n):\n    r\"\"\"One.\n\n      Two.\n    Three.\"\"\"\n", []definition{{"a", "a(b, c=(1, 2))", "One.\n\n  Two.\nThree."}}},
		"a lambda and a slice":           {"def a(k=lambda x: x[1:2], *, d: dict = {1: 2}) -> 'x:y': 'Doc'\n", []definition{{"a", "a(k=lambda x: x[1:2], *, d: dict = {1: 2}) -> 'x:y'", "Doc"}}},
		"decorated, and the last wins":   {"@dec('def no():')\nasync def a(): pass\ndef a(x): pass\n", []definition{{"a", "a()", ""}, {"a", "a(x)", ""}}},
		"what is broken hides nothing":   {"x = (1,\ndef a(: pass\ny = 'open\ndef b(): pass\n", []definition{{"a", "a(: pass y = 'open def b(): pass", ""}}},
		"an end in the middle":           {"def a(", []definition{{"a", "a(", ""}}},
		"an end in a string":             {"def a():\n  '''", []definition{{"a", "a()", ""}}},
		"a backslash at the end":         {"x = 'a\\", nil},
		"a bracket that is never closed": {"x = [\ndef a(): pass\n", []definition{{"a", "a()", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sketch(tt.text), cmp.AllowUnexported(definition{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzSketch(f *testing.F) {
	f.Add("def a(b='\\'', c=[\"\"\"x\"\"\"]):\n  '''d'''\nclass B: pass")
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range sketch(text) {
			if !strings.Contains(text, d.name) || len(d.signature) > maxSignature+3 {
				t.Errorf("sketch(%q) has %+v", text, d)
			}
		}
	})
}

func TestASessionIsToldWhatHasChanged(t *testing.T) {
	tools := newTestTools(t, ToolOptions{})
	s := tools.Session()
	for _, step := range []struct {
		what string
		do   func()
		anew bool
		want string
	}{
		{"at first, when there are none", func() {}, true, ""},
		{"after a save", func() { mustSave(t, tools, "f", "x") }, false, `["f"]`},
		{"with nothing new", func() {}, false, ""},
		{"in a fresh sandbox", func() {}, true, `["f"]`},
		{"after the last was deleted", func() { _, _ = tools.Delete(t.Context(), "f") }, false, `[]`},
	} {
		step.do()
		if got := string(s.Tell(step.anew)); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
}
