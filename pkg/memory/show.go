package memory

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"time"
)

const (
	// maxShown bounds the files that a sandbox shows, in bytes: its folder for them
	// lies in its memory. The latest are shown.
	maxShown = 4 << 20

	// lookAfter is how old what is known of the files may be where their folder has
	// not changed: a person who edits a file in its place does not change that.
	lookAfter = 2 * time.Second

	// tick is how precisely a folder's time tells of a change.
	tick = 20 * time.Millisecond
)

// shown is what a session's sandbox shows of the files.
type shown struct {
	looked  time.Time
	folders [2]time.Time     // when they had changed last
	files   map[string]entry // by their path there
}

// news is what a sandbox is told: files to write, and such as are gone.
type news struct {
	Files map[string]string `json:"files,omitempty"`
	Gone  []string          `json:"gone,omitempty"`
}

// Tell returns what has changed of the files since the sandbox was told last,
// and all of them if it is a new one; nil if nothing has. What can't be read is
// not shown: code that asks for it is told why.
func (s *Session) Tell(anew bool) json.RawMessage {
	if anew {
		s.shown = shown{}
	}
	if !s.stale() {
		return nil
	}
	now := s.visible()
	var n news
	for at := range s.shown.files {
		if _, ok := now[at]; !ok {
			n.Gone = append(n.Gone, at)
		}
	}
	slices.Sort(n.Gone)
	for at, f := range now {
		if was, ok := s.shown.files[at]; ok && was == f.entry {
			continue
		}
		if text, _, err := s.global.store.disk.read(f.path); err == nil && len(text) <= maxShown {
			if n.Files == nil {
				n.Files = map[string]string{}
			}
			n.Files[at] = string(text)
		}
	}
	s.shown.files = map[string]entry{}
	for at, f := range now {
		s.shown.files[at] = f.entry
	}
	if n.Files == nil && n.Gone == nil {
		return nil
	}
	text, err := plainJSON(n)
	if err != nil {
		return nil // texts always have a form in JSON
	}
	return text
}

// stale reports whether the files must be looked at, and notes that they are.
func (s *Session) stale() bool {
	d, now := s.global.store.disk, s.global.store.now()
	folders := s.shown.folders
	for i, sp := range []*Space{s.global, s.project} {
		if t, err := d.changed(sp.dir); err == nil {
			folders[i] = t
		}
	}
	same := folders == s.shown.folders && now.Sub(s.shown.looked) < lookAfter
	for _, t := range folders {
		same = same && s.shown.looked.Sub(t) > tick
	}
	if same {
		return false
	}
	s.shown.looked, s.shown.folders = now, folders
	return true
}

// A shownFile is one that the sandbox is to show.
type shownFile struct {
	entry
	path, at string
}

// visible lists what the sandbox is to show, by path there: the latest files, as
// many as fit.
func (s *Session) visible() map[string]shownFile {
	var all []shownFile
	for folder, sp := range map[string]*Space{"": s.global, scopeProject: s.project} {
		files, err := sp.files()
		if err != nil {
			continue // code that asks is told
		}
		for _, e := range files {
			all = append(all, shownFile{e, sp.path(e.name), path.Join(folder, e.name)})
		}
	}
	slices.SortFunc(all, func(a, b shownFile) int {
		return cmp.Or(b.changed.Compare(a.changed), cmp.Compare(a.at, b.at))
	})
	list := map[string]shownFile{}
	room := int64(maxShown)
	for _, f := range all {
		if room -= f.size; room >= 0 {
			list[f.at] = f
		}
	}
	return list
}
