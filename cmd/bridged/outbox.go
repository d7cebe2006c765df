package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/sandbox"
)

// maxSameName bounds the files of one name in a folder: x.csv, x (2).csv, ...
const maxSameName = 1000

// An outbox saves files in a folder of the user's, flat and under their own
// names, as a browser saves downloads. Names come from sandboxes: they never
// lead out of the folder, and never to a file that is there already. One outbox
// is one session's. Its methods may be called from several goroutines.
type outbox struct {
	dir  string
	most int64 // bytes of all files together

	mu   sync.Mutex // guards the fields below, and is held while saving
	used int64
	mine map[string]saved // what this outbox has saved, by the name asked for
}

// saved is a file as it was when it was saved.
type saved struct {
	name string
	info fs.FileInfo
}

var _ bridge.Keeper = (*outbox)(nil)

func newOutbox(dir string, most int64) *outbox {
	return &outbox{dir: dir, most: most, mine: map[string]saved{}}
}

// folderOf is the folder that a key of the configuration names, "" for none.
func folderOf(key, dir string, getenv func(string) string) (string, error) {
	if rest, ok := strings.CutPrefix(dir, "~/"); ok && getenv("HOME") != "" {
		dir = filepath.Join(getenv("HOME"), rest)
	}
	if dir != "" && !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%s %q: give an absolute path, or one that begins with ~/", key, dir)
	}
	return dir, nil
}

// tryOutput makes the folder and a file in it, so that a folder that can't be
// used is told when the daemon starts.
func tryOutput(dir string) error {
	if dir == "" {
		return nil
	}
	root, err := openFolder(dir)
	if err == nil {
		defer root.Close() //nolint:errcheck // it is only read from here on
		var name string
		if name, err = writePart(root, func(io.Writer) error { return nil }); err == nil {
			err = root.Remove(name)
		}
	}
	if err != nil {
		return fmt.Errorf("files.output: %w", err)
	}
	return nil
}

// openFolder makes the folder if need be. It is opened anew for every file,
// since the user may move it away at any time.
func openFolder(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// writePart writes a file under a name that nobody else has, which it returns.
// Nothing is left of one that could not be written.
func writePart(root *os.Root, write func(io.Writer) error) (name string, err error) {
	name = ".bridged-" + randomName() + ".part"
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, root.Remove(name))
	}
	return name, nil
}

// Keep saves a file under its name, or one with a number in it if somebody has
// that. A file that this outbox has saved under the name is replaced, unless it
// was changed since. What is in the folder under the name is a whole file, always.
func (o *outbox) Keep(name string, write func(w io.Writer, most int64) error) (string, error) {
	if name == "" || name != filepath.Base(name) || name[0] == '.' {
		return "", fmt.Errorf("%q is no name of a file", name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	root, err := openFolder(o.dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // its files are closed
	before, mine := o.mine[name]
	if mine {
		mine = before.unchanged(root)
	}
	room := o.most - o.used
	if mine {
		room += before.info.Size()
	}
	part, err := writePart(root, func(w io.Writer) error { return write(w, room) })
	if errors.Is(err, sandbox.ErrFileSize) {
		return "", fmt.Errorf("it does not fit: a session may save %s in all (files.max_bytes), of which %d bytes are left", byteSize(o.most), room)
	}
	if err != nil {
		return "", err
	}
	after, err := o.place(root, part, name, before, mine)
	if err != nil {
		return "", errors.Join(err, root.Remove(part))
	}
	o.used = o.most - room + after.info.Size()
	o.mine[name] = after
	return filepath.Join(o.dir, after.name), nil
}

// unchanged reports whether the file is still there as it was saved.
func (s saved) unchanged(root *os.Root) bool {
	info, err := root.Lstat(s.name)
	return err == nil && unaltered(s.info, info)
}

// place moves a part to its name: that of before if it may be replaced, and
// else one that it makes, which nobody had.
func (o *outbox) place(root *os.Root, part, name string, before saved, replace bool) (saved, error) {
	target := before.name
	if !replace {
		var err error
		if target, err = claim(root, name); err != nil {
			return saved{}, err
		}
	}
	if err := root.Rename(part, target); err != nil {
		if !replace {
			err = errors.Join(err, root.Remove(target)) // which claim made
		}
		return saved{}, err
	}
	info, err := root.Lstat(target)
	return saved{target, info}, err
}

// claim makes an empty file under a name that was free, and returns that.
func claim(root *os.Root, name string) (string, error) {
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 1; n <= maxSameName; n++ {
		target := name
		if n > 1 {
			target = fmt.Sprintf("%s (%d)%s", stem, n, ext)
		}
		f, err := root.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return target, f.Close()
	}
	return "", fmt.Errorf("there are %d files like %s in %s: move some away", maxSameName, name, root.Name())
}
