package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// tick is how far apart two changes of a file may be that leave one time on it:
// kernels count that in hundredths of a second at worst.
const tick = 20 * time.Millisecond

// A mark is what a file or folder was like when it was looked at.
type mark struct {
	info  fs.FileInfo // nil if it was not there
	fresh bool        // it was changed so lately that it may be changed again without a trace
}

// look marks a file. began is when its reading did, if it was read.
func look(path string, began time.Time) mark {
	info, err := os.Stat(path)
	if err != nil {
		return mark{}
	}
	changed := info.ModTime()
	return mark{info, changed.After(began.Add(-tick)) && changed.Before(time.Now().Add(tick))} // one from the future says nothing
}

// same reports whether nothing tells a file from what it was before.
func (m mark) same(was mark) bool {
	switch {
	case m.info == nil || was.info == nil:
		return m.info == nil && was.info == nil
	case was.fresh:
		return false
	}
	return unaltered(was.info, m.info)
}

// unaltered reports whether two looks were at the same file, with the same time
// and size.
func unaltered(before, now fs.FileInfo) bool {
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size()
}

// marks are those of all files of a session, so that a look tells whether to
// read them again. Of those that are not there, which are most, only the folders
// are looked at unless something is new in these.
type marks struct {
	there   map[string]mark
	absent  []string
	folders map[string]mark // the nearest that absent ones would be in
}

// newMarks marks files whose reading began at a time.
func newMarks(paths []string, began time.Time) *marks {
	m := &marks{there: map[string]mark{}, folders: map[string]mark{}}
	for _, path := range paths {
		if now := look(path, began); now.info != nil {
			m.there[path] = now
			continue
		}
		m.absent = append(m.absent, path)
		dir, _ := nearestFolder(path)
		if _, has := m.folders[dir]; !has {
			m.folders[dir] = look(dir, began)
		}
	}
	return m
}

// changed reports whether any of the files is another one than it was, or may
// be. It is not safe for concurrent use.
func (m *marks) changed() bool {
	now := time.Now()
	for path, was := range m.there {
		if !look(path, now).same(was) {
			return true
		}
	}
	stirred := false
	for dir, was := range m.folders {
		m.folders[dir] = look(dir, now)
		stirred = stirred || !m.folders[dir].same(was)
	}
	if !stirred {
		return false
	}
	for _, path := range m.absent {
		if look(path, now).info != nil {
			return true
		}
	}
	return false
}

// nearestFolder returns the folder that a path is in or would be in, the nearest
// that is there, and the paths above path that are not.
func nearestFolder(path string) (dir string, missing []string) {
	for dir = filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir, missing
		}
		missing = append(missing, dir)
	}
}
