package audit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWholeLogHolds(t *testing.T) {
	dir := written(t, 12, Options{MaxSize: 1500})
	r := mustVerify(t, dir)
	if r.Files < 3 {
		t.Fatalf("the log has %d files, and the tests want some", r.Files)
	}
	if got, want := r.Lines, uint64(12+2+r.Files); got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
	head, err := HeadOf(dir)
	if err != nil || head != r.Last || r.First != 1 || r.Starts != 1 || r.Gaps != 0 || len(r.Notes) != 0 {
		t.Errorf("HeadOf: %+v, %v; report %+v", head, err, r)
	}
	mustVerify(t, dir, head, Head{Seq: 5, Hash: all(t, dir)[4].Hash})
	if _, err := VerifyFiles(filesOf(t, dir)[1:2]); err != nil {
		t.Errorf("one file of it: %v", err)
	}
}

// damages are ways to change the line at i of a file.
var damages = []struct {
	name        string
	atEndUnseen bool // behind the last line it needs an anchor from later
	do          func(lines []string, i int) []string
}{
	{"edited", false, func(l []string, i int) []string {
		l[i] = strings.Replace(l[i], `"seq":`, `"seq":1`, 1)
		return l
	}},
	{"edited with a hash that fits", false, func(l []string, i int) []string {
		body := strings.Replace(l[i][:len(l[i])-sealBytes], `"time":"2`, `"time":"3`, 1)
		l[i] = body + hashKey + hashOf([]byte(body)) + hashEnd
		return l
	}},
	{"removed", false, func(l []string, i int) []string { return slices.Delete(l, i, i+1) }},
	{"doubled", false, func(l []string, i int) []string { return slices.Insert(l, i, l[i]) }},
	{"followed by an empty line", false, func(l []string, i int) []string { return slices.Insert(l, i+1, "") }},
	{"followed by another of its own making", true, func(l []string, i int) []string {
		made, _ := parse([]byte(l[i]))
		c := chain{seq: made.Seq, hash: made.Hash}
		line, _ := c.seal(nil, Line{Kind: KindCall, Server: "put in"})
		return slices.Insert(l, i+1, strings.TrimSuffix(string(line), "\n"))
	}},
	{"swapped with its neighbour", false, func(l []string, i int) []string {
		j := i + 1
		if j == len(l) {
			i, j = i-1, i
		}
		l[i], l[j] = l[j], l[i]
		return l
	}},
	{"cut in half", false, func(l []string, i int) []string { l[i] = l[i][:len(l[i])/2]; return l }},
	{"the last one left", false, func(l []string, i int) []string { return l[:i] }},
}

func TestEveryDamageOfEveryLineIsFound(t *testing.T) {
	dir := written(t, 12, Options{MaxSize: 1500})
	files := filesOf(t, dir)
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			for _, path := range files {
				whole := linesOf(t, path)
				for i := range whole {
					if d.atEndUnseen && path == files[len(files)-1] && i == len(whole)-1 {
						continue
					}
					writeLines(t, path, d.do(slices.Clone(whole), i))
					_, err := Verify(dir)
					broken, ok := errors.AsType[*BreakError](err)
					if !ok {
						t.Errorf("%s line %d: got %v, want a break", filepath.Base(path), i+1, err)
						continue
					}
					checkSpot(t, files, broken, path, i+1)
				}
				writeLines(t, path, whole)
			}
		})
	}
	mustVerify(t, dir)
}

// checkSpot wants a break to be named at the damage, or right behind it.
func checkSpot(t *testing.T, files []string, got *BreakError, path string, line int) {
	t.Helper()
	next := ""
	if i := slices.Index(files, path); i+1 < len(files) {
		next = files[i+1]
	}
	atEnd := got.File == path && got.Line == 0 // the newest were removed
	if !atEnd && (got.File != path || got.Line < line-1 || got.Line > line+2) && (got.File != next || got.Line > 1) {
		t.Errorf("damage in line %d of %s is reported at %v", line, filepath.Base(path), got)
	}
}

func TestEveryChangeOfOneByteIsFound(t *testing.T) {
	dir := written(t, 2, Options{MaxSize: 700})
	for _, path := range filesOf(t, dir) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range whole {
			text := slices.Clone(whole)
			if text[i] = '\n'; whole[i] == '\n' || i%4 > 0 {
				text[i] = whole[i] ^ []byte{0x01, 0x20, 0x80}[i%3]
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(dir); err == nil {
				t.Fatalf("%s: byte %d was changed from %q to %q, and nothing shows", filepath.Base(path), i, whole[i], text[i])
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustVerify(t, dir)
}

func TestALineThatIsBeingWrittenIsWaitedFor(t *testing.T) {
	dir := written(t, 2, Options{})
	path := filepath.Join(dir, fileName(1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	half := len(whole) - 100
	writeHalf := func(flag int, text []byte) error {
		f, err := os.OpenFile(path, os.O_WRONLY|flag, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}
	synctest.Test(t, func(t *testing.T) {
		if err := writeHalf(os.O_TRUNC, whole[:half]); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(tornMoment*4/5, func() {
			if err := writeHalf(os.O_APPEND, whole[half:]); err != nil {
				t.Error(err)
			}
		})
		mustVerify(t, dir)
	})
}

func TestAMissingFileIsFound(t *testing.T) {
	for _, row := range []struct {
		name, file, want string
	}{
		{"the oldest", fileName(1), "it was kept"},
		{"one in the middle", fileName(2), "the file is missing"},
		{"the newest", "", "the newest were removed"},
		{"the head file", "head", "missing"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := written(t, 12, Options{MaxSize: 1500})
			files := filesOf(t, dir)
			path := filepath.Join(dir, row.file)
			if row.file == "" {
				path = files[len(files)-1]
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q in it", err, row.want)
			}
		})
	}
}

// What was removed shows for good, also when the log goes on afterwards.
func TestWhatIsRemovedBetweenTwoStartsShows(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(t *testing.T, dir, newest string)
	}{
		{"the last lines", func(t *testing.T, _, newest string) {
			lines := linesOf(t, newest)
			writeLines(t, newest, lines[:len(lines)-2])
		}},
		{"everything", func(t *testing.T, dir, _ string) {
			for _, path := range filesOf(t, dir) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"the head file", func(t *testing.T, dir, _ string) {
			if err := os.Remove(filepath.Join(dir, "head")); err != nil {
				t.Fatal(err)
			}
		}},
		{"the last line's words", func(t *testing.T, _, newest string) {
			lines := linesOf(t, newest)
			lines[len(lines)-1] = strings.Replace(lines[len(lines)-1], "stop", "call", 1)
			writeLines(t, newest, lines)
		}},
		{"the last line's shape", func(t *testing.T, _, newest string) {
			lines := linesOf(t, newest)
			lines[len(lines)-1] = "{}"
			writeLines(t, newest, lines)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := written(t, 5, Options{})
			row.do(t, dir, filepath.Join(dir, fileName(1)))
			l := open(t, Options{Dir: dir})
			l.Record(call(1))
			shut(t, l)
			_, err := Verify(dir)
			if _, ok := errors.AsType[*BreakError](err); !ok {
				t.Errorf("got %v, want a break", err)
			}
		})
	}
}

func TestAChainThatWasMadeAnewIsFoundWithAnAnchor(t *testing.T) {
	dir := written(t, 5, Options{})
	anchor, err := HeadOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	mustVerify(t, dir, anchor)
	forge(t, dir)
	mustVerify(t, dir) // the chain has no secret
	_, err = Verify(dir, anchor)
	if err == nil || !strings.Contains(err.Error(), "is not the one that was named") {
		t.Errorf("got %v", err)
	}
	if _, err := Verify(dir, Head{Seq: 1000}); err == nil || !strings.Contains(err.Error(), "the newest were removed") {
		t.Errorf("got %v", err)
	}
}

// forge rewrites the log as somebody would who knows how it is made.
func forge(t *testing.T, dir string) {
	t.Helper()
	c := chain{hash: noHash}
	var text []byte
	for _, l := range all(t, dir) {
		if l.Kind == KindCall {
			l.Tool = "harmless"
		}
		var err error
		if text, err = c.seal(text, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, fileName(1)), text, 0o600); err != nil {
		t.Fatal(err)
	}
	head, err := Head{File: fileName(1), Seq: c.seq, Hash: c.hash}.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "head"), head, 0o600); err != nil {
		t.Fatal(err)
	}
}
