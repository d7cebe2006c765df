package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// content writes a text, within bounds, as a sandbox does.
func content(text string) func(io.Writer, int64) error {
	return func(w io.Writer, most int64) error {
		if int64(len(text)) > most {
			return sandbox.ErrFileSize
		}
		_, err := io.WriteString(w, text)
		return err
	}
}

func keep(t *testing.T, o *outbox, name, text string) string {
	t.Helper()
	path, err := o.Keep(name, content(text))
	if err != nil {
		t.Fatalf("Keep %q: %v", name, err)
	}
	return filepath.Base(path)
}

// listing returns what a folder holds, links not followed.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if target, err := os.Readlink(path); err == nil {
			list[e.Name()] = "-> " + filepath.Base(target)
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list[e.Name()] = string(data)
	}
	return list
}

func TestAnOutboxSavesFilesAsABrowserDoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "out")
	one, two := newOutbox(dir, 1000), newOutbox(dir, 1000)
	got := []string{
		keep(t, one, "report.csv", "1"), keep(t, two, "report.csv", "2"), keep(t, one, "report.csv", "one again"),
		keep(t, two, "README", "r"), keep(t, one, "README", "r2"), keep(t, one, "a.tar.gz", "t"), keep(t, two, "a.tar.gz", "t2"),
		keep(t, two, "empty", ""),
	}
	want := []string{"report.csv", "report (2).csv", "report.csv", "README", "README (2)", "a.tar.gz", "a.tar (2).gz", "empty"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	files := map[string]string{
		"report.csv": "one again", "report (2).csv": "2", "README": "r", "README (2)": "r2", "a.tar.gz": "t", "a.tar (2).gz": "t2", "empty": "",
	}
	if diff := cmp.Diff(files, listing(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "report.csv"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", path, info, err, want)
		}
	}
}

func TestAnOutboxTouchesNothingOfOthers(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for _, row := range []struct {
		name  string
		plant func(t *testing.T, path string) // before the file is published again
		same  string                          // what must be at the path after
	}{
		{"a file that the user has", func(t *testing.T, path string) { put(t, path, "user's") }, "user's"},
		{"a file that the user has changed in place", func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close() //nolint:errcheck // WriteString has told
			if _, err := f.WriteString(" and the user"); err != nil {
				t.Fatal(err)
			}
		}, "first and the user"},
		{"a link to a file elsewhere", func(t *testing.T, path string) { link(t, outside, path) }, "-> outside"},
		{"a link to nothing", func(t *testing.T, path string) { link(t, outside+"-missing", path) }, "-> outside-missing"},
	} {
		t.Run(row.name, func(t *testing.T) {
			put(t, outside, "outside")
			dir := t.TempDir()
			o, path := newOutbox(dir, 1000), filepath.Join(dir, "f.txt")
			keep(t, o, "f.txt", "first")
			row.plant(t, path)
			if got := keep(t, o, "f.txt", "second"); got != "f (2).txt" {
				t.Errorf("saved as %s, want f (2).txt", got)
			}
			if got := keep(t, o, "f.txt", "third"); got != "f (2).txt" {
				t.Errorf("then saved as %s, want f (2).txt again", got)
			}
			if diff := cmp.Diff(map[string]string{"f.txt": row.same, "f (2).txt": "third"}, listing(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if data, err := os.ReadFile(outside); err != nil || string(data) != "outside" {
				t.Errorf("the file elsewhere holds %q, %v", data, err)
			}
			if _, err := os.Lstat(outside + "-missing"); err == nil {
				t.Error("a file was made elsewhere")
			}
		})
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	_ = os.Remove(path) // it need not be there
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// Names come validated from pkg/sandbox; here they are powerless all the same.
func TestAnOutboxTakesNoPathForAName(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	o := newOutbox(inner, 1000)
	keep(t, o, "ok", "x")
	link(t, dir, filepath.Join(inner, "ok"))
	for _, name := range []string{"", ".", "..", "../up", "/etc/x", "ok/up", "a/b", ".hidden", "a\x00b"} {
		if path, err := o.Keep(name, content("x")); err == nil {
			t.Errorf("%q was saved as %s", name, path)
		}
	}
	if diff := cmp.Diff(map[string]string{"ok": "-> " + filepath.Base(dir)}, listing(t, inner)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestAnOutboxIsBounded(t *testing.T) {
	dir := t.TempDir()
	o := newOutbox(dir, 10)
	keep(t, o, "a", "123456")
	if _, err := o.Keep("b", content("12345")); err == nil || !strings.Contains(err.Error(), "files.max_bytes") || !strings.Contains(err.Error(), "4 bytes are left") {
		t.Errorf("got %v, want an error that says what is left", err)
	}
	keep(t, o, "b", "1234")
	for range 5 {
		keep(t, o, "a", "123") // in the place of the first
	}
	keep(t, o, "c", "123")
	if _, err := o.Keep("d", content("1")); err == nil {
		t.Error("an eleventh byte was saved")
	}
	broken := errors.New("broken off")
	if _, err := o.Keep("a", func(w io.Writer, _ int64) error { _, _ = io.WriteString(w, "x"); return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if diff := cmp.Diff(map[string]string{"a": "123", "b": "1234", "c": "123"}, listing(t, dir)); diff != "" {
		t.Errorf("files, of which none may be half (-want +got):\n%s", diff)
	}
}

func TestManySessionsSaveAtOnce(t *testing.T) {
	dir := t.TempDir()
	var done sync.WaitGroup
	for range 20 {
		o := newOutbox(dir, 1000)
		done.Go(func() {
			for range 5 {
				if _, err := o.Keep("plot.png", content("png")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if n := len(listing(t, dir)); n != 20 {
		t.Errorf("%d files, want one of each session", n)
	}
}

func TestTheOutputFolderIsTriedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	put(t, file, "x")
	if err := tryOutput(file); err == nil || !strings.Contains(err.Error(), "files.output") {
		t.Errorf("a file: got %v", err)
	}
	out := filepath.Join(dir, "a", "b")
	if err := tryOutput(out); err != nil {
		t.Error(err)
	}
	if list := listing(t, out); len(list) != 0 {
		t.Errorf("the trial left %v", list)
	}
	if err := tryOutput(""); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{"~/out": "/home/ann/out", "/out": "/out", "": ""} {
		if got, err := folderOf("files.output", path, env("HOME=/home/ann")); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", path, got, err, want)
		}
	}
	if _, err := folderOf("files.output", "out", env()); err == nil || !strings.Contains(err.Error(), "~/") || !strings.Contains(err.Error(), "files.output") {
		t.Errorf("a relative path: got %v", err)
	}
}

// A shelf holds published files, by their addresses.
type shelf map[string]mcp.ResourceContents

func (s shelf) ReadResource(_ context.Context, req mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	c, ok := s[req.Params.URI]
	if !ok {
		return nil, errors.New("nothing is published there")
	}
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{c}}, nil
}

func TestRunSavesWhatWasPublished(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	s := shelf{"b://t": mcp.TextResourceContents{Text: "a,b"}, "b://b": mcp.BlobResourceContents{Blob: "AAE="}}
	res := &mcp.CallToolResult{Content: []mcp.Content{
		mcp.NewTextContent("hi"), mcp.NewImageContent("cG5n", "image/png"),
		mcp.NewResourceLink("b://t", "t.csv", "", "text/csv"), mcp.NewResourceLink("b://gone", "gone", "", ""),
		mcp.NewResourceLink("b://b", "b.bin", "", ""), mcp.NewResourceLink("b://t", "../evil", "", ""),
	}}
	var out strings.Builder
	err := (&runFlags{out: dir}).show(t.Context(), s, &out, res)
	if err == nil || !strings.Contains(err.Error(), "reading gone") || !strings.Contains(err.Error(), "saving ../evil") {
		t.Errorf("got %v, want both errors", err)
	}
	want := map[string]string{"picture-1.png": "png", "t.csv": "a,b", "b.bin": "\x00\x01"}
	if diff := cmp.Diff(want, listing(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if text := out.String(); !strings.Contains(text, filepath.Join(dir, "t.csv")) {
		t.Errorf("the paths are not told: %s", text)
	}
	out.Reset()
	if err := (&runFlags{}).show(t.Context(), s, &out, res); err != nil || !strings.Contains(out.String(), "[t.csv, text/csv, 0 bytes; -o FOLDER saves it]") {
		t.Errorf("without a folder: got %v, %s", err, out.String())
	}
}
