package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Defaults of [Options].
const (
	DefaultMaxBytes = 1 << 20
	DefaultMaxTotal = 64 << 20
	DefaultMaxCount = 1000
	DefaultHistory  = 10

	// MaxMaxBytes is the highest MaxBytes: what is laid out for people takes more.
	MaxMaxBytes = 4 << 20
)

// Names in a space's folder that are no memories.
const (
	lockName    = ".lock"
	tempName    = ".tmp"     // files that are being written
	historyName = ".history" // a folder for each memory, with its earlier versions
	projectName = ".project" // which project a space is of
	projectsDir = "projects" // spaces of projects, in the global one
)

// lockWait bounds the wait for another process.
const lockWait = 30 * time.Second

// Options configure a [Store].
type Options struct {
	Dir      string // of the global memories; made when it is needed
	MaxBytes int    // of one memory: its value and metadata as JSON; 0 means [DefaultMaxBytes]
	MaxTotal int64  // of a space's files, and as much again of its history; 0 means [DefaultMaxTotal]
	MaxCount int    // memories in a space; 0 means [DefaultMaxCount]
	History  int    // earlier versions of a memory; 0 means [DefaultHistory], -1 none
}

// A Store holds memories in a folder. Any number of processes may use it at the
// same time, and people too. It is safe for concurrent use.
type Store struct {
	opts Options
	disk disk
	now  func() time.Time

	mu     sync.Mutex // guards spaces
	spaces map[string]*Space
}

// Open returns the store in a folder. Nothing is done to that yet.
func Open(o Options) *Store { return open(o, osDisk{}) }

func open(o Options, d disk) *Store {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxTotal == 0 {
		o.MaxTotal = DefaultMaxTotal
	}
	if o.MaxCount == 0 {
		o.MaxCount = DefaultMaxCount
	}
	if o.History == 0 {
		o.History = DefaultHistory
	}
	return &Store{opts: o, disk: d, now: time.Now, spaces: map[string]*Space{}}
}

// A Space is a set of memories with keys of its own: the global one, or that of
// a project.
type Space struct {
	store *Store
	dir   string
	root  string // of the project; "" for the global space

	turn  chan struct{} // holds a token; its holder may take the lock, and use what is below
	made  bool          // the folder is there, and lasts
	named bool          // the folder says which project it is of, if it is one's
	past  int64         // bytes of history, as far as known
	since int           // writes since that was counted; 0 means that it was not
}

// Global returns the memories that all sessions share.
func (s *Store) Global() *Space { return s.space(s.opts.Dir, "") }

func (s *Store) space(dir, root string) *Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp, ok := s.spaces[dir]; ok {
		return sp
	}
	sp := &Space{store: s, dir: dir, root: root, turn: make(chan struct{}, 1)}
	sp.turn <- struct{}{}
	s.spaces[dir] = sp
	return sp
}

// Project returns the root of the project that the space is of, "" for the
// global one.
func (sp *Space) Project() string { return sp.root }

func (sp *Space) path(name string) string { return filepath.Join(sp.dir, name) }

// A BrokenError says that a memory's file can't be read. It is left as it is.
type BrokenError struct {
	Key, Name string
	Why       error
}

// Error is for a language model too.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("The memory %q can't be read: its file %s was changed by hand, or damaged: %v. It is left as it is, for the user to mend; "+
		"restore_memory(key) brings back an earlier version, delete_memory(key) removes it.", e.Key, e.Name, e.Why)
}

// RPCCode returns the code, for the sandbox's reply.
func (e *BrokenError) RPCCode() string { return CodeBroken }

// RPCData returns nothing: the message says all.
func (e *BrokenError) RPCData() json.RawMessage { return nil }

// Load returns a memory. The error is an [fs.ErrNotExist] if there is none, and
// a [*BrokenError] if its file can't be read.
func (sp *Space) Load(key string) (Memory, error) {
	if err := checkKey(key); err != nil {
		return Memory{}, err
	}
	f, err := sp.look(key)
	if err != nil {
		return Memory{}, err
	}
	if f.name == "" {
		return Memory{}, fs.ErrNotExist
	}
	return f.Memory, f.broken
}

// A found is a memory's file.
type found struct {
	Memory
	name   string // "" if there is none
	text   []byte // nil if it can't be read
	broken error  // a [*BrokenError], if it is no memory
	free   string // the name that it would get
}

// find looks for a key's file, for those who write: one that was deleted gets
// the name that it had, and with it its history.
func (sp *Space) find(key string) (found, error) {
	f, err := sp.look(key)
	if err == nil && f.name == "" {
		f.free = sp.formerName(key, f.free)
	}
	return f, err
}

// look looks for a key's file. Files of other keys may have names that could be
// its own.
func (sp *Space) look(key string) (found, error) {
	free := ""
	for i, name := range candidates(key) {
		f, err := sp.open(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if free == "" && i < 2 {
				free = name
			}
			continue
		case err != nil:
			return found{}, err
		case f.Key == key:
			return f, nil
		}
	}
	if free == "" {
		return found{}, errorf(CodeInvalid, "The files that the memory %q could have are those of others: give it another key.", key)
	}
	return found{free: free}, nil
}

// formerName is the name that a memory had which is deleted now, if there is an
// earlier version of it under that name and no other has it; else free.
func (sp *Space) formerName(key, free string) string {
	for _, name := range candidates(key) {
		p, err := sp.history(name)
		if err != nil || len(p.versions) == 0 {
			continue
		}
		m, err := sp.edition(p, p.versions[len(p.versions)-1])
		if err != nil || m.Key != key {
			continue
		}
		if _, err := sp.open(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return free
}

// freshness is how young a file that makes no sense may be to be read again: a
// person's editor may be writing it.
const (
	freshness = 200 * time.Millisecond
	rereads   = 5
)

// open reads a file, a broken one too.
func (sp *Space) open(name string) (found, error) {
	for again := 0; ; again++ {
		text, changed, err := sp.store.disk.read(sp.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			return found{}, err
		}
		if err != nil && (errors.Is(err, fs.ErrPermission) || !isPath(err)) {
			return found{name: name, Memory: Memory{Key: keyOf(name), Name: name}, broken: &BrokenError{keyOf(name), name, plainly(err)}}, nil
		}
		if err != nil {
			return found{}, fmt.Errorf("reading the memory file %s: %w", name, err)
		}
		m, err := parse(name, text, changed)
		if err == nil {
			return found{Memory: m, name: name, text: text}, nil
		}
		if again == rereads || sp.store.now().Sub(changed) > freshness {
			return found{Memory: m, name: name, text: text, broken: &BrokenError{m.Key, name, err}}, nil
		}
		time.Sleep(freshness / rereads)
	}
}

// isPath reports whether an error is one of the system's.
func isPath(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

// plainly is an error without the path, which is the user's.
func plainly(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// lock makes the space the caller's alone, among all processes.
func (sp *Space) lock(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait,
		errorf(CodeBusy, "Others have been writing memories for %s without an end: try again later.", lockWait))
	defer cancel()
	select {
	case <-sp.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	release, err := sp.enter(ctx)
	if err != nil {
		sp.turn <- struct{}{}
		return nil, err
	}
	return func() { release(); sp.turn <- struct{}{} }, nil
}

func (sp *Space) enter(ctx context.Context) (func(), error) {
	d := sp.store.disk
	if !sp.made {
		if err := sp.make(); err != nil {
			return nil, fmt.Errorf("making the folder of the memories: %w", err)
		}
	}
	release, err := d.lock(ctx, sp.path(lockName))
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed the folder
		if err = sp.make(); err == nil {
			release, err = d.lock(ctx, sp.path(lockName))
		}
	}
	if err != nil {
		return nil, err
	}
	err = sp.sweep()
	if err == nil && !sp.named {
		err = sp.name()
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// make makes the folders. One that another process has just made may not last
// yet, so that the folder above is synced in any case.
func (sp *Space) make() error {
	d := sp.store.disk
	for _, dir := range []string{sp.dir, sp.path(tempName), sp.path(historyName)} {
		if err := ensure(d, dir); err != nil {
			return err
		}
		if err := d.sync(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	sp.made, sp.named = true, sp.root == ""
	return nil
}

// name writes which project the space is of. The lock is held: else another
// process would sweep the file away that is being written.
func (sp *Space) name() error {
	if err := put(sp.store.disk, sp.path(tempName), sp.path(projectName), []byte(sp.root+"\n")); err != nil {
		return fmt.Errorf("making the folder of the memories: %w", err)
	}
	sp.named = true
	return nil
}

// sweep removes what writers have left that were killed. The lock is held, so
// nobody is writing.
func (sp *Space) sweep() error {
	d := sp.store.disk
	left, err := d.list(sp.path(tempName))
	if err != nil {
		return err
	}
	for _, e := range left {
		if err := d.remove(filepath.Join(sp.path(tempName), e.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// files lists the files that may be memories.
func (sp *Space) files() ([]entry, error) {
	all, err := sp.store.disk.list(sp.dir)
	if err != nil {
		return nil, fmt.Errorf("listing the memories: %w", err)
	}
	list := all[:0]
	for _, e := range all {
		if !e.folder && strings.HasSuffix(e.name, suffix) && e.name[0] != '.' && e.name[0] != '~' {
			list = append(list, e)
		}
	}
	return list, nil
}
