package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// maxFile bounds a file that is read, in bytes.
const maxFile = 24 << 20

// lockStep is how often a lock that another process holds is tried again.
const lockStep = 5 * time.Millisecond

// A disk is what the store does to files. Tests have one that loses power.
type disk interface {
	// read returns a regular file, and when it was changed.
	read(path string) ([]byte, time.Time, error)
	// list returns what is in a folder; nothing if there is none.
	list(dir string) ([]entry, error)
	// changed returns when something came into a folder, or left it, last.
	changed(dir string) (time.Time, error)
	// mkdir makes a folder, and reports whether it was not there.
	mkdir(dir string) (bool, error)
	// create begins a file that will be at path, in a folder for such files.
	create(dir, path string) (draft, error)
	remove(path string) error
	// sync makes what was done to a folder's entries last.
	sync(dir string) error
	// lock waits until no other has the lock, or ctx ends.
	lock(ctx context.Context, path string) (unlock func(), err error)
}

// A draft is a file that is not there yet.
type draft interface {
	io.Writer
	// CloseAtomicallyReplace makes the content last, then puts the file in its
	// place in one step.
	CloseAtomicallyReplace() error
	// Cleanup removes it, if it is not in its place.
	Cleanup() error
}

// An entry is a file or a folder.
type entry struct {
	name    string
	size    int64
	changed time.Time
	folder  bool
}

// osDisk is the machine's.
type osDisk struct{}

var _ disk = osDisk{}

func (osDisk) read(path string) ([]byte, time.Time, error) {
	// Neither a pipe in the file's place nor a link out of the folder is followed.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, time.Time{}, errors.New("it is a symbolic link")
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case !info.Mode().IsRegular():
		return nil, time.Time{}, errors.New("it is no regular file")
	case info.Size() > maxFile:
		return nil, time.Time{}, fmt.Errorf("it has %d bytes, and %d is the limit", info.Size(), maxFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	return text, info.ModTime(), err
}

func (osDisk) list(dir string) ([]entry, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, e := range found {
		if info, err := e.Info(); err == nil { // else it is gone
			list = append(list, entry{e.Name(), info.Size(), info.ModTime(), e.IsDir()})
		}
	}
	return list, nil
}

func (osDisk) changed(dir string) (time.Time, error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

func (osDisk) mkdir(dir string) (bool, error) {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func (osDisk) create(dir, path string) (draft, error) {
	return renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithPermissions(0o600), renameio.WithExistingPermissions())
}

func (osDisk) remove(path string) error { return os.Remove(path) }

func (osDisk) sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

func (osDisk) lock(ctx context.Context, path string) (func(), error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW))
	if _, err := lock.TryLockContext(ctx, lockStep); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { _ = lock.Close() }, nil // which unlocks
}

// ensure makes a folder, with those above it, such that they last.
func ensure(d disk, dir string) error {
	made, err := d.mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		if err := ensure(d, filepath.Dir(dir)); err != nil {
			return err
		}
		made, err = d.mkdir(dir)
	}
	if err != nil || !made {
		return err
	}
	return d.sync(filepath.Dir(dir))
}

// put writes a file whole, and returns when it will outlast a loss of power.
func put(d disk, temp, path string, text []byte) error {
	w, err := d.create(temp, path)
	if errors.Is(err, fs.ErrNotExist) { // a person has tidied up
		if err := ensure(d, temp); err != nil {
			return err
		}
		w, err = d.create(temp, path)
	}
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return errors.Join(err, w.Cleanup())
	}
	if err := w.CloseAtomicallyReplace(); err != nil {
		return errors.Join(err, w.Cleanup())
	}
	return d.sync(filepath.Dir(path))
}
