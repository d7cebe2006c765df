package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMarksTellWhetherFilesHaveChanged(t *testing.T) {
	dir := t.TempDir()
	there, absent := filepath.Join(dir, "there"), filepath.Join(dir, "a", "b")
	long := time.Now().Add(-time.Hour)
	age := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, row := range []struct {
		name string
		do   func()
		want bool
	}{
		{"nothing", func() {}, false},
		{"an unrelated file", func() { putFile(t, filepath.Join(dir, "x"), "") }, false},
		{"another size", func() { putFile(t, there, "12"); age(there) }, true},
		{"another time", func() { putFile(t, there, "2") }, true},
		{"another file with its time and size", func() {
			putFile(t, there+"2", "2")
			age(there + "2")
			if err := os.Rename(there+"2", there); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"it is gone", func() {
			if err := os.Remove(there); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"what was not there is", func() { putFile(t, absent, "") }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Dir(absent)); err != nil {
				t.Fatal(err)
			}
			putFile(t, there, "1")
			age(there, dir)
			m := newMarks([]string{there, absent}, time.Now())
			row.do()
			if got := m.changed(); got != row.want {
				t.Errorf("changed: %t", got)
			}
			if !row.want && m.changed() {
				t.Error("changed the second time")
			}
		})
	}
}

// Two changes within a tick of the clock leave one time.
func TestAFileThatWasJustWrittenCountsAsChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	began := time.Now()
	putFile(t, path, "1")
	if !newMarks([]string{path}, began).changed() {
		t.Error("it may have been written again")
	}
	if newMarks([]string{path}, began.Add(time.Minute)).changed() {
		t.Error("a minute later, its time would tell")
	}
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, future, future); err != nil {
		t.Fatal(err)
	}
	if newMarks([]string{path}, time.Now()).changed() {
		t.Error("a file from the future is read again for ever")
	}
	dir := filepath.Dir(path)
	m := newMarks([]string{filepath.Join(dir, "absent")}, time.Now().Add(-time.Minute))
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(dir, "absent"), "")
	if err := os.Chtimes(dir, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if !m.changed() {
		t.Error("a file that was made in the same tick is not seen")
	}
}
