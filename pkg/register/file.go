package register

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/google/renameio/v2"
)

// maxFile bounds a config file. Agents keep other state in theirs.
const maxFile = 64 << 20

// ErrChanged says that a file is no longer what the diff was made from.
var ErrChanged = errors.New("somebody has changed the file in the meantime; it was left alone, run the command again")

const mark = "\ufeff" // UTF-8 byte order mark

// A lineError is what is wrong in a text, and where.
type lineError struct {
	line string
	msg  string
}

func (e *lineError) Error() string { return "line " + e.line + ": " + e.msg }

// A content is a file's bytes, or that there is none.
type content struct {
	data   []byte
	absent bool
}

func (c content) equal(d content) bool { return c.absent == d.absent && bytes.Equal(c.data, d.data) }

// bytes returns the content, nil for none.
func (c content) bytes() []byte {
	if c.absent {
		return nil
	}
	return append([]byte{}, c.data...)
}

// digest identifies a content.
func (c content) digest() string {
	if c.absent {
		return "absent"
	}
	sum := sha256.Sum256(c.data)
	return hex.EncodeToString(sum[:])
}

// text returns the content without its byte order mark.
func (c content) text() (text, bom string, err error) {
	if !utf8.Valid(c.data) {
		return "", "", errors.New("the file is not UTF-8, so it cannot be edited; save it as UTF-8")
	}
	text, had := strings.CutPrefix(string(c.data), mark)
	if had {
		bom = mark
	}
	return text, bom, nil
}

// resolve follows the symbolic links to the file that is to be written. A link
// to nothing leads to the file that it names.
func resolve(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if to, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		return "", fmt.Errorf("it is a symbolic link to %s, which is not there", to)
	}
	return path, nil
}

func read(path string) (content, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{absent: true}, nil
	}
	if err != nil {
		return content{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return content{}, fmt.Errorf("it is no ordinary file of at most %d MiB", maxFile>>20)
	}
	data, err := os.ReadFile(path)
	return content{data: data}, err
}

// replace writes a file's new content, or removes it, if it still is what it was.
func replace(c *Change) error {
	if c.after.absent {
		if err := unchanged(c.Path, c.before); err != nil {
			return err
		}
		return os.Remove(c.Path)
	}
	folder := c.perm | c.perm&0o444>>2 // who may read may look in
	if err := os.MkdirAll(filepath.Dir(c.Path), folder); err != nil {
		return err
	}
	f, err := renameio.NewPendingFile(c.Path, renameio.WithTempDir(filepath.Dir(c.Path)),
		renameio.WithPermissions(c.perm), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // it does nothing after the replacement
	if _, err := f.Write(c.after.data); err != nil {
		return err
	}
	if err := keepOwner(c.Path, f.File); err != nil {
		return err
	}
	// As late as can be: what an editor saves after this is what it overwrites.
	if err := unchanged(c.Path, c.before); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

func unchanged(path string, before content) error {
	now, err := read(path)
	if err != nil {
		return err
	}
	if !now.equal(before) {
		return ErrChanged
	}
	return nil
}
