package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxParents bounds how far up a project's root is looked for.
const maxParents = 64

// Project returns the memories of the project that a folder is in.
func (s *Store) Project(folder string) *Space {
	root := projectRoot(folder)
	return s.space(filepath.Join(s.opts.Dir, projectsDir, slug(root)), root)
}

// projectRoot is the nearest folder above that is a repository's, else the
// folder itself.
func projectRoot(folder string) string {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		root = filepath.Clean(folder)
	}
	at := root
	for range maxParents {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	return root
}

// slug is the folder's name for a project: its own name for people, and a digest
// that tells it from others of that name.
func slug(root string) string {
	sum := sha256.Sum256([]byte(root))
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(filepath.Base(root)))
	return name[:min(len(name), 40)] + "-" + hex.EncodeToString(sum[:6])
}

// Projects returns the memories of all projects that have some, by their roots.
func (s *Store) Projects() ([]*Space, error) {
	dir := filepath.Join(s.opts.Dir, projectsDir)
	folders, err := s.disk.list(dir)
	if err != nil {
		return nil, err
	}
	var list []*Space
	for _, f := range folders {
		text, _, err := s.disk.read(filepath.Join(dir, f.name, projectName))
		root := strings.TrimSuffix(string(text), "\n")
		if err != nil || slug(root) != f.name {
			continue // it is none of ours
		}
		list = append(list, s.space(filepath.Join(dir, f.name), root))
	}
	slices.SortFunc(list, func(a, b *Space) int { return strings.Compare(a.root, b.root) })
	return list, nil
}
