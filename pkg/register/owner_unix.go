//go:build unix

package register

import (
	"fmt"
	"os"
	"syscall"
)

// keepOwner gives a new file the owner and group of the one that it replaces.
func keepOwner(path string, f *os.File) error {
	was, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	is, err := f.Stat()
	if err != nil {
		return err
	}
	old, ok := was.Sys().(*syscall.Stat_t)
	now, same := is.Sys().(*syscall.Stat_t)
	if !ok || !same || old.Uid == now.Uid && old.Gid == now.Gid {
		return nil
	}
	if err := f.Chown(int(old.Uid), int(old.Gid)); err != nil {
		return fmt.Errorf("keeping the file's owner: %w", err)
	}
	return f.Chmod(was.Mode().Perm()) // chown may have cleared bits
}
