package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// A Change is what a save makes of a memory.
type Change struct {
	Value    json.RawMessage // any JSON
	Metadata json.RawMessage // an object; nil leaves it as it is

	// If is the stamp of the memory that the change is of, "" if any will do, and
	// "0" if there must be none.
	If string
	// Version is as If, by the version; nil if any will do, 0 if there must be none.
	Version *int64
}

// Save makes a change last, and returns the memory as it is then. When the
// memory is not the one that the change is of, the error has [CodeConflict].
func (sp *Space) Save(ctx context.Context, key string, c Change) (Memory, error) {
	if err := checkKey(key); err != nil {
		return Memory{}, err
	}
	var err error
	if c.Value, err = readable(c.Value); err != nil {
		return Memory{}, errorf(CodeInvalid, "The value of %q is no JSON: %v.", key, err)
	}
	if c.Metadata != nil {
		if c.Metadata, err = readable(c.Metadata); err != nil || len(c.Metadata) == 0 || c.Metadata[0] != '{' {
			return Memory{}, errorf(CodeInvalid, "The metadata of %q is no JSON object: pass a dict, such as {'tags': [...]}.", key)
		}
	}
	unlock, err := sp.lock(ctx)
	if err != nil {
		return Memory{}, err
	}
	defer unlock()
	return sp.save(key, c)
}

// save is Save for the holder of the lock.
func (sp *Space) save(key string, c Change) (Memory, error) {
	was, err := sp.find(key)
	if err != nil {
		return Memory{}, err
	}
	if was.broken != nil {
		return Memory{}, was.broken
	}
	if err := c.fits(key, was); err != nil {
		return Memory{}, err
	}
	m := Memory{Key: key, Value: c.Value, Metadata: c.Metadata, Updated: sp.store.now().UTC()}
	m.Created, m.rest, m.Name = m.Updated, was.rest, was.free
	if was.name != "" {
		m.Created, m.Name = was.Created, was.name
	}
	if m.Metadata == nil {
		m.Metadata = was.Metadata
	}
	if m.Metadata == nil {
		m.Metadata = json.RawMessage("{}")
	}
	return sp.replace(was, m)
}

// fits reports a conflict if the change is of another state of the memory.
func (c Change) fits(key string, was found) error {
	version, stamp := was.Version, was.Stamp
	if was.name == "" {
		version, stamp = 0, "0"
	}
	if (c.If == "" || c.If == stamp) && (c.Version == nil || *c.Version == version) {
		return nil
	}
	if was.name == "" {
		return errorf(CodeConflict, "The memory %q is gone: load it again before you save it.", key)
	}
	return errorf(CodeConflict, "The memory %q has changed meanwhile, it has version %d now: load it again before you save it, or use update_memory.", key, version)
}

// replace puts a memory in the place of the one before, which goes into the
// history first: a loss of power between the two leaves both. It has the next
// version, or its own if that is later.
func (sp *Space) replace(was found, m Memory) (Memory, error) {
	past, err := sp.history(m.Name)
	if err != nil {
		return Memory{}, err
	}
	m.Version = max(m.Version, 1+max(was.Version, past.last()))
	text, err := m.text()
	if err != nil {
		return Memory{}, err
	}
	if err := sp.admit(was, m, len(text)); err != nil {
		return Memory{}, err
	}
	if err := sp.keep(past, was); err != nil {
		return Memory{}, fmt.Errorf("keeping the earlier version of %q: %w", m.Key, err)
	}
	if err := put(sp.store.disk, sp.path(tempName), sp.path(m.Name), text); err != nil {
		return Memory{}, fmt.Errorf("writing the memory %q: %w", m.Key, err)
	}
	sp.trim(m.Name)
	return parse(m.Name, text, m.Updated)
}

// admit refuses what is over a quota. A memory that does not grow may be saved
// when the others have used it up.
func (sp *Space) admit(was found, m Memory, size int) error {
	o := sp.store.opts
	if n := len(m.Value) + len(m.Metadata); n > o.MaxBytes {
		return errorf(CodeFull, "The memory %q would have %d bytes, and %d is the limit: save less, in several memories, or hand a file to the user with publish().", m.Key, n, o.MaxBytes)
	}
	files, err := sp.files()
	if err != nil {
		return err
	}
	if was.name == "" && len(files) >= o.MaxCount {
		return errorf(CodeFull, "There are %d memories, the most there may be: delete some that are not needed, list_memories() shows them.", len(files))
	}
	total := int64(size)
	for _, e := range files {
		if e.name != was.name {
			total += e.size
		}
	}
	if total > o.MaxTotal && size > len(was.text) {
		return errorf(CodeFull, "All memories together would have %d bytes, and %d is the limit: delete some that are not needed, list_memories() shows their sizes.", total, o.MaxTotal)
	}
	return nil
}

// Delete removes a memory, a broken one too, and returns the name of its file,
// "" if there was none. It stays in the history.
func (sp *Space) Delete(ctx context.Context, key string) (name string, err error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	unlock, err := sp.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	was, err := sp.find(key)
	if err != nil || was.name == "" {
		return "", err
	}
	past, err := sp.history(was.name)
	if err != nil {
		return "", err
	}
	if err := sp.keep(past, was); err != nil {
		return "", fmt.Errorf("keeping the last version of %q: %w", key, err)
	}
	if err := sp.store.disk.remove(sp.path(was.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("deleting the memory %q: %w", key, err)
	}
	if err := sp.store.disk.sync(sp.dir); err != nil {
		return "", fmt.Errorf("deleting the memory %q: %w", key, err)
	}
	sp.trim(was.name)
	return was.name, nil
}
