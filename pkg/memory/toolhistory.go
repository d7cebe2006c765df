package memory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxGone bounds the deleted tools whose versions are kept.
const maxGone = 100

// A toolHistory keeps versions of tools, each as a file: slugify/0003.py. The
// last is what the tool's own file says, unless a person has edited that.
type toolHistory struct {
	folder string
	keep   int // versions of a tool
}

func (h toolHistory) path(name string, version int) string {
	return filepath.Join(h.folder, name, fmt.Sprintf("%04d.py", version))
}

// versions lists those of a tool, the oldest first.
func (h toolHistory) versions(name string) []int {
	entries, err := os.ReadDir(filepath.Join(h.folder, name))
	if err != nil {
		return nil
	}
	var list []int
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), ".py")
		if n, err := strconv.Atoi(number); ok && err == nil && n > 0 {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

func (h toolHistory) read(name string, version int) (string, error) {
	text, _, err := readText(h.path(name, version))
	return text, err
}

// add keeps a version, on the disk when it returns, and drops those over the
// bound.
func (h toolHistory) add(name string, version int, text string) error {
	if err := h.make(name); err != nil {
		return err
	}
	if err := writeTool(h.path(name, version), text); err != nil {
		return err
	}
	old := h.versions(name)
	for len(old) > h.keep {
		if err := os.Remove(h.path(name, old[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		old = old[1:]
	}
	return nil
}

// make makes the folder of a tool's versions. Whoever commits the tools has
// versions already: git is told to leave these out.
func (h toolHistory) make(name string) error {
	if err := ensure(osDisk{}, filepath.Join(h.folder, name)); err != nil {
		return err
	}
	ignore := filepath.Join(h.folder, ".gitignore")
	if _, err := os.Lstat(ignore); err == nil {
		return nil
	}
	return put(osDisk{}, h.folder, ignore, []byte("*\n"))
}

// prune forgets the versions of tools that were deleted longest ago, past the
// bound. here tells which tools there are.
func (h toolHistory) prune(here func(name string) bool) error {
	entries, err := os.ReadDir(h.folder)
	if err != nil {
		return err
	}
	type gone struct {
		name string
		at   int64
	}
	var list []gone
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && !here(e.Name()) {
			list = append(list, gone{e.Name(), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(list, func(a, b gone) int { return cmp.Compare(a.at, b.at) })
	for ; len(list) > maxGone; list = list[1:] {
		if err := os.RemoveAll(filepath.Join(h.folder, list[0].name)); err != nil {
			return err
		}
	}
	return nil
}

// writeTool writes a file, whole or not at all, and returns when it is on the
// disk. A link is followed: people keep such files elsewhere.
func writeTool(path, text string) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	return put(osDisk{}, filepath.Dir(path), path, []byte(text))
}
