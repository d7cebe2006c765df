package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"
)

// maxWatched bounds the folders that a daemon watches. Users of a system share
// a limit of such watches, of which editors need many.
const maxWatched = 1024

// A watcher tells sessions' lists that a file of theirs may have changed. It
// watches folders, since editors put another file in the place of the old one.
// It is safe for concurrent use. The caller must close it.
type watcher struct {
	log  zerolog.Logger
	fs   *fsnotify.Watcher // nil: there are no watches to be had
	done sync.WaitGroup

	mu    sync.Mutex          // guards the fields below
	dirs  map[string]int      // watched folders, and how many lists need them
	lists map[*watched]bool   // those that are open
	lost  map[string]struct{} // folders whose watch has ended by itself
}

// newWatcher starts watching. Where that can't be had, lists do without.
func newWatcher(log zerolog.Logger) *watcher {
	w := &watcher{log: log, dirs: map[string]int{}, lists: map[*watched]bool{}, lost: map[string]struct{}{}}
	var err error
	if w.fs, err = fsnotify.NewWatcher(); err != nil {
		log.Warn().Err(err).Msg("watch configuration files")
		w.fs = nil
		return w
	}
	w.done.Go(w.run) // ends with close
	return w
}

func (w *watcher) close() {
	if w.fs == nil {
		return
	}
	if err := w.fs.Close(); err != nil {
		w.log.Warn().Err(err).Msg("end watching configuration files")
	}
	w.done.Wait()
}

func (w *watcher) run() {
	for {
		select {
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			w.tell(e)
		case err, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.log.Debug().Err(err).Msg("watch configuration files")
			}
			w.tellAll()
		}
	}
}

// tell marks the lists that an event is about.
func (w *watcher) tell(e fsnotify.Event) {
	if e.Op == fsnotify.Chmod {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dirs[e.Name] > 0 && e.Op.Has(fsnotify.Remove|fsnotify.Rename) {
		w.lost[e.Name] = struct{}{}
	}
	for l := range w.lists {
		if l.names[e.Name] || l.names[filepath.Dir(e.Name)] || l.dirs[e.Name] {
			l.stale.Store(true)
		}
	}
}

// tellAll marks every list: something was missed.
func (w *watcher) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.lists {
		l.stale.Store(true)
	}
}

// A watched is the set of paths that one list was read from.
type watched struct {
	w     *watcher
	stale atomic.Bool // something has changed since it was last cleared

	names map[string]bool // that events are looked for under; guarded by w.mu
	dirs  map[string]bool // that it needs watched; guarded by w.mu
}

// open returns an empty set. The caller must close it.
func (w *watcher) open() *watched {
	l := &watched{w: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists[l] = true
	return l
}

func (l *watched) close() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	delete(l.w.lists, l)
	for dir := range l.dirs {
		l.w.releaseLocked(dir)
	}
	l.dirs = nil
}

// set replaces the paths, files or folders that need not be there, and reports
// whether a change of any of them will be told. When it begins to watch a
// folder, the set is stale: what happened there before is not known.
func (l *watched) set(paths []string) (complete bool) {
	names, dirs := map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		note(path, names, dirs)
		if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
			note(target, names, dirs)
		}
	}
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fs == nil || !w.lists[l] {
		return false
	}
	complete = true
	for dir := range dirs {
		_, lost := w.lost[dir]
		if l.dirs[dir] && !lost {
			continue
		}
		if !w.acquireLocked(dir, l.dirs[dir]) {
			complete = false
			delete(dirs, dir)
			continue
		}
		l.stale.Store(true)
	}
	for dir := range l.dirs {
		if !dirs[dir] {
			w.releaseLocked(dir)
		}
	}
	l.names, l.dirs = names, dirs
	return complete
}

// note says under which names events about a path come, and the folder in
// which they are seen: the nearest one that is there.
func note(path string, names, dirs map[string]bool) {
	names[path] = true
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dirs[path] = true
	}
	dir, missing := nearestFolder(path)
	dirs[dir] = true
	for _, at := range missing {
		names[at] = true
	}
}

// acquireLocked has a folder watched. has says that the list counts already;
// when that fails, it still does.
func (w *watcher) acquireLocked(dir string, has bool) bool {
	_, lost := w.lost[dir]
	if w.dirs[dir] == 0 || lost {
		if w.dirs[dir] == 0 && len(w.dirs) >= maxWatched {
			return false
		}
		if err := w.fs.Add(dir); err != nil {
			w.log.Debug().Err(err).Str("folder", dir).Msg("watch configuration files")
			return false
		}
		delete(w.lost, dir)
	}
	if !has {
		w.dirs[dir]++
	}
	return true
}

func (w *watcher) releaseLocked(dir string) {
	if w.dirs[dir]--; w.dirs[dir] > 0 {
		return
	}
	delete(w.dirs, dir)
	delete(w.lost, dir)
	if w.fs != nil {
		_ = w.fs.Remove(dir) // it may be gone
	}
}
