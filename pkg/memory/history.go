package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// recount is after how many writes the size of a space's history is counted
// anew: other processes add to it too.
const recount = 256

// A past is what is kept of one memory: its earlier versions by number, as files.
type past struct {
	dir      string
	versions []version // the oldest first
	broken   []version // what could not be read when it was replaced
}

type version struct {
	number int64
	entry
}

func (p past) last() int64 {
	if len(p.versions) == 0 {
		return 0
	}
	return p.versions[len(p.versions)-1].number
}

// historyDir is the folder for the past of the memory in a file.
func (sp *Space) historyDir(name string) string {
	return filepath.Join(sp.path(historyName), strings.TrimSuffix(name, suffix))
}

// history lists the past of the memory in a file.
func (sp *Space) history(name string) (past, error) {
	p := past{dir: sp.historyDir(name)}
	files, err := sp.store.disk.list(p.dir)
	if err != nil {
		return p, fmt.Errorf("listing earlier versions: %w", err)
	}
	for _, e := range files {
		stem, ok := strings.CutSuffix(e.name, suffix)
		if number, err := strconv.ParseInt(stem, 10, 64); ok && err == nil && number > 0 {
			p.versions = append(p.versions, version{number, e})
		} else if ok && strings.HasPrefix(stem, "broken-") {
			p.broken = append(p.broken, version{0, e})
		}
	}
	slices.SortFunc(p.versions, func(a, b version) int { return cmp.Compare(a.number, b.number) })
	slices.SortFunc(p.broken, func(a, b version) int { return cmp.Compare(a.name, b.name) })
	return p, nil
}

// keep copies a file into the past before it is replaced. One that is no memory
// is kept too, for the user to look at.
func (sp *Space) keep(p past, was found) error {
	if was.text == nil {
		return was.broken // nil if there was none
	}
	if sp.store.opts.History < 0 && was.broken == nil {
		return nil
	}
	if err := ensure(sp.store.disk, p.dir); err != nil {
		return err
	}
	name := fmt.Sprintf("%010d%s", was.Version, suffix)
	if was.broken != nil {
		name = "broken-" + sp.store.now().UTC().Format("20060102T150405.000000") + suffix
	}
	sp.past += int64(len(was.text))
	return put(sp.store.disk, sp.path(tempName), filepath.Join(p.dir, name), was.text)
}

// trim removes what is too much of the history: of one memory, and now and then
// of all. What can't be removed now is removed later.
func (sp *Space) trim(name string) {
	if p, err := sp.history(name); err == nil {
		most := max(sp.store.opts.History, 0)
		for _, list := range [][]version{p.versions, p.broken} {
			for _, v := range list[:max(len(list)-most, 0)] {
				_ = sp.store.disk.remove(filepath.Join(p.dir, v.name))
			}
		}
	}
	if sp.since++; sp.since == 1 || sp.since > recount || sp.past > sp.store.opts.MaxTotal {
		sp.trimAll()
	}
}

// trimAll counts the history. If it is of too many memories, the past of those
// goes that were changed longest ago; if it is too large, the oldest versions do,
// and the last version of a memory, which may be deleted, after all others.
func (sp *Space) trimAll() {
	sp.past, sp.since = 0, 1
	pasts, err := sp.pasts()
	if err != nil {
		return
	}
	tooMany := max(len(pasts)-2*sp.store.opts.MaxCount, 0)
	for _, p := range pasts[:tooMany] {
		for _, v := range slices.Concat(p.versions, p.broken) {
			_ = sp.store.disk.remove(filepath.Join(p.dir, v.name))
		}
		_ = sp.store.disk.remove(p.dir)
	}
	sp.shrink(pasts[tooMany:])
}

// pasts lists the past of all memories, that which was changed longest ago first.
func (sp *Space) pasts() ([]past, error) {
	folders, err := sp.store.disk.list(sp.path(historyName))
	if err != nil {
		return nil, err
	}
	var list []past
	for _, f := range folders {
		if p, err := sp.history(f.name + suffix); err == nil && f.folder {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b past) int { return a.latest().Compare(b.latest()) })
	return list, nil
}

func (p past) latest() (latest time.Time) {
	for _, v := range slices.Concat(p.versions, p.broken) {
		if v.changed.After(latest) {
			latest = v.changed
		}
	}
	return latest
}

// shrink removes versions until the history is small enough, and a little more,
// so that it is not looked at for each write.
func (sp *Space) shrink(pasts []past) {
	type old struct {
		path string
		last bool
		version
	}
	var all []old
	for _, p := range pasts {
		for i, v := range slices.Concat(p.broken, p.versions) {
			all = append(all, old{filepath.Join(p.dir, v.name), i == len(p.broken)+len(p.versions)-1, v})
			sp.past += v.size
		}
	}
	slices.SortFunc(all, func(a, b old) int {
		if a.last != b.last {
			return map[bool]int{false: -1, true: 1}[a.last]
		}
		return a.changed.Compare(b.changed)
	})
	limit := sp.store.opts.MaxTotal * 9 / 10
	for _, v := range all {
		if sp.past <= limit {
			return
		}
		if sp.store.disk.remove(v.path) == nil {
			sp.past -= v.size
		}
		if v.last {
			_ = sp.store.disk.remove(filepath.Dir(v.path)) // it is empty
		}
	}
}

// An Edition is a version of a memory that can be had.
type Edition struct {
	Version int64
	Updated time.Time
	Bytes   int
	Current bool
}

// History lists the versions of a memory that can be restored, the newest
// first, and the current one before them.
func (sp *Space) History(key string) ([]Edition, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	now, err := sp.find(key)
	if err != nil {
		return nil, err
	}
	list := []Edition{}
	if now.name != "" && now.broken == nil {
		list = append(list, Edition{now.Version, now.Updated, now.Bytes, true})
	}
	p, err := sp.history(cmp.Or(now.name, now.free))
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Backward(p.versions) {
		m, err := sp.edition(p, v)
		if err == nil && m.Key == key && (len(list) == 0 || v.number < list[0].Version) {
			list = append(list, Edition{v.number, m.Updated, m.Bytes, false})
		}
	}
	return list, nil
}

func (sp *Space) edition(p past, v version) (Memory, error) {
	text, changed, err := sp.store.disk.read(filepath.Join(p.dir, v.name))
	if err != nil {
		return Memory{}, err
	}
	return parse(filepath.Base(p.dir)+suffix, text, changed)
}

// Restore saves an earlier version anew: 0 is the one before the current, or the
// last of a memory that is deleted or broken. The error has [CodeMissing] if
// there is none.
func (sp *Space) Restore(ctx context.Context, key string, number int64) (Memory, error) {
	if err := checkKey(key); err != nil {
		return Memory{}, err
	}
	unlock, err := sp.lock(ctx)
	if err != nil {
		return Memory{}, err
	}
	defer unlock()
	was, err := sp.find(key)
	if err != nil {
		return Memory{}, err
	}
	m, err := sp.earlier(key, was, number)
	if err != nil {
		return Memory{}, err
	}
	m.Updated, m.Name = sp.store.now().UTC(), cmp.Or(was.name, was.free)
	return sp.replace(was, m)
}

// earlier finds the version to restore.
func (sp *Space) earlier(key string, was found, number int64) (Memory, error) {
	p, err := sp.history(cmp.Or(was.name, was.free))
	if err != nil {
		return Memory{}, err
	}
	for _, v := range slices.Backward(p.versions) {
		if number != 0 && v.number != number || number == 0 && was.broken == nil && was.name != "" && v.number >= was.Version {
			continue
		}
		m, err := sp.edition(p, v)
		if errors.Is(err, fs.ErrNotExist) || err == nil && m.Key != key {
			continue
		}
		return m, err
	}
	if number != 0 {
		return Memory{}, errorf(CodeMissing, "There is no version %d of the memory %q any more: memory_history(key) lists those that there are.", number, key)
	}
	return Memory{}, errorf(CodeMissing, "There is no earlier version of the memory %q.", key)
}
