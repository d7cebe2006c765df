package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errPower is what each step on a disk without power ends in.
var errPower = errors.New("the power is gone")

// A powerDisk is a disk in memory that loses power, or fails once, at a step of
// choice. What was not synced by then may be there afterwards or not, each piece
// on its own: the content of a file in part, and what was done to a folder.
type powerDisk struct {
	mu      sync.Mutex // guards the fields below
	rng     *rand.Rand
	step    int // done so far
	cut     int // the step at which it happens; 0 for never
	failing bool
	dead    bool
	clock   time.Time
	now     map[string]*inode // what is there, by path
	lasting map[string]*inode // what is there after a loss of power in any case
	pending []deed            // what was done since its folder was synced
}

type inode struct {
	folder  bool
	data    []byte
	synced  bool
	changed time.Time
}

// A deed is a change of a folder: an entry is another inode, or none.
type deed struct {
	path string
	to   *inode
}

var _ disk = (*powerDisk)(nil)

func newPowerDisk(seed uint64) *powerDisk {
	root := &inode{folder: true}
	return &powerDisk{
		rng: rand.New(rand.NewPCG(seed, 7)), clock: time.Unix(1e9, 0),
		now: map[string]*inode{"/": root}, lasting: map[string]*inode{"/": root},
	}
}

// tick is one step.
func (d *powerDisk) tick() error {
	if d.dead {
		return errPower
	}
	d.step++
	d.clock = d.clock.Add(time.Millisecond)
	switch {
	case d.step != d.cut:
		return nil
	case d.failing:
		return &fs.PathError{Op: "write", Path: "x", Err: syscall.EIO}
	}
	d.dead = true
	return errPower
}

// do changes a folder, with the rest of a step.
func (d *powerDisk) do(path string, to *inode) {
	if to == nil {
		delete(d.now, path)
	} else {
		d.now[path] = to
	}
	d.pending = append(d.pending, deed{path, to})
}

// restart returns the disk as it is after the loss of power.
func (d *powerDisk) restart() *powerDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := maps.Clone(d.lasting)
	for _, p := range d.pending {
		if d.rng.IntN(2) == 0 {
			continue
		}
		if p.to == nil {
			delete(left, p.path)
		} else {
			left[p.path] = p.to
		}
	}
	next := newPowerDisk(d.rng.Uint64())
	next.clock = d.clock
	for _, path := range slices.Sorted(maps.Keys(left)) { // in order, so that a seed is one course of events
		i := left[path]
		if !reachable(left, path) {
			continue
		}
		kept := &inode{folder: i.folder, data: slices.Clone(i.data), synced: true, changed: i.changed}
		if !i.folder && !i.synced {
			kept.data = kept.data[:d.rng.IntN(len(kept.data)+1)]
		}
		next.now[path], next.lasting[path] = kept, kept
	}
	return next
}

func reachable(left map[string]*inode, path string) bool {
	for path != "/" {
		path = filepath.Dir(path)
		if i := left[path]; i == nil || !i.folder {
			return false
		}
	}
	return true
}

func (d *powerDisk) read(path string) ([]byte, time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, time.Time{}, errPower
	}
	i := d.now[path]
	if i == nil {
		return nil, time.Time{}, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return slices.Clone(i.data), i.changed, nil
}

func (d *powerDisk) list(dir string) ([]entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errPower
	}
	var list []entry
	for path, i := range d.now {
		if path != "/" && filepath.Dir(path) == dir {
			list = append(list, entry{filepath.Base(path), int64(len(i.data)), i.changed, i.folder})
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

func (d *powerDisk) changed(string) (time.Time, error) { return d.clock, nil }

func (d *powerDisk) mkdir(dir string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now[filepath.Dir(dir)] == nil {
		return false, fs.ErrNotExist
	}
	if d.now[dir] != nil {
		return false, nil
	}
	if err := d.tick(); err != nil {
		return false, err
	}
	d.do(dir, &inode{folder: true, changed: d.clock})
	return true, nil
}

func (d *powerDisk) remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now[path] == nil {
		return fs.ErrNotExist
	}
	for other := range d.now {
		if filepath.Dir(other) == path && other != path {
			return syscall.ENOTEMPTY
		}
	}
	if err := d.tick(); err != nil {
		return err
	}
	d.do(path, nil)
	return nil
}

func (d *powerDisk) sync(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.tick(); err != nil {
		return err
	}
	d.pending = slices.DeleteFunc(d.pending, func(p deed) bool {
		if filepath.Dir(p.path) != dir {
			return false
		}
		if p.to == nil {
			delete(d.lasting, p.path)
		} else {
			d.lasting[p.path] = p.to
		}
		return true
	})
	return nil
}

func (d *powerDisk) lock(context.Context, string) (func(), error) {
	if d.dead {
		return nil, errPower
	}
	return func() {}, nil
}

// A powerDraft is a file that is being written.
type powerDraft struct {
	d          *powerDisk
	i          *inode
	temp, path string
	placed     bool
}

func (d *powerDisk) create(dir, path string) (draft, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now[dir] == nil || d.now[filepath.Dir(path)] == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err := d.tick(); err != nil {
		return nil, err
	}
	w := &powerDraft{d: d, i: &inode{changed: d.clock}, temp: fmt.Sprintf("%s/.%d", dir, d.step), path: path}
	d.do(w.temp, w.i)
	return w, nil
}

func (w *powerDraft) Write(text []byte) (int, error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	err := w.d.tick()
	if err != nil {
		text = text[:w.d.rng.IntN(len(text)+1)]
	}
	w.i.data = append(w.i.data, text...)
	return len(text), err
}

func (w *powerDraft) CloseAtomicallyReplace() error {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if err := w.d.tick(); err != nil {
		return err
	}
	w.i.synced = true
	if err := w.d.tick(); err != nil {
		return err
	}
	w.i.changed = w.d.clock
	w.d.do(w.path, w.i)
	w.d.do(w.temp, nil)
	w.placed = true
	return nil
}

func (w *powerDraft) Cleanup() error {
	if w.placed {
		return nil
	}
	return w.d.remove(w.temp)
}
