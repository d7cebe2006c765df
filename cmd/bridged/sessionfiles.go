package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// sessionFormat is the version of a session's file.
	sessionFormat = 1

	// maxSessionFile bounds such a file, in bytes, and maxSessionFiles how many
	// are read.
	maxSessionFile  = 1 << 20
	maxSessionFiles = 1024

	// maxSavedPythons and maxSavedServers bound what is kept of one session.
	maxSavedPythons = 256
	maxSavedServers = 256

	// maxSavedLate bounds the runs of a Python session whose results wait to be
	// collected; of those that do, all but the last are forgotten.
	maxSavedLate = 16
)

// A savedSession is what another daemon needs to go on with an agent's session.
// It is kept in a file, which holds secrets: with a ticket code can be run.
type savedSession struct {
	Version int           `json:"version"`
	ID      string        `json:"id"`
	CWD     string        `json:"cwd"`
	Since   time.Time     `json:"since"`
	Pythons []savedPython `json:"pythons,omitempty"`
}

// A savedPython is one Python session that has had a sandbox.
type savedPython struct {
	Name    string         `json:"name"` // "" is the default one
	Ticket  sandbox.Ticket `json:"ticket"`
	Servers []string       `json:"servers,omitempty"` // that were loaded
	Late    []string       `json:"late,omitempty"`    // keys of runs that have outlived their calls
	Lost    string         `json:"lost,omitempty"`    // why there is nothing behind the ticket
}

// python returns the entry of a name, which is made if need be.
func (s *savedSession) python(name string) *savedPython {
	for i := range s.Pythons {
		if s.Pythons[i].Name == name {
			return &s.Pythons[i]
		}
	}
	if len(s.Pythons) >= maxSavedPythons {
		s.Pythons = s.Pythons[1:] // the oldest: names are forgotten before there are so many
	}
	s.Pythons = append(s.Pythons, savedPython{Name: name})
	return &s.Pythons[len(s.Pythons)-1]
}

// sessionFiles are the files of sessions, in a folder of their own. Of many
// daemons only the one that holds the folder's lock reads or writes them.
type sessionFiles struct {
	dir  string
	log  zerolog.Logger
	lock *flock.Flock
}

// sessionFolder is the folder for the daemon with a given socket.
func sessionFolder(socket string) string {
	if base := filepath.Base(socket); base != "mcp.sock" {
		return strings.TrimSuffix(socket, ".sock") + "-sessions"
	}
	return filepath.Join(filepath.Dir(socket), "sessions")
}

// lockPath is where the lock of the folder is: beside it, so that the folder may
// be removed.
func lockPath(dir string) string { return dir + ".lock" }

// openSessionFiles makes the folder and takes its lock, which the kernel frees
// when this process ends however it ends. A daemon that is ending has it until
// then, for which it waits as long as patience.
func openSessionFiles(dir string, patience time.Duration, log zerolog.Logger) (*sessionFiles, error) {
	lock, err := waitForLock(lockPath(dir), patience)
	if err != nil {
		return nil, fmt.Errorf("taking over the sessions in %s: %w", dir, err)
	}
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // it may be from before, with another umask
	}
	if err != nil {
		_ = lock.Close() // the error at hand says more
		return nil, fmt.Errorf("making the folder for sessions: %w", err)
	}
	return &sessionFiles{dir: dir, log: log, lock: lock}, nil
}

// errLocked means that another process holds a lock.
var errLocked = errors.New("another daemon has not ended yet")

func waitForLock(path string, patience time.Duration) (*flock.Flock, error) {
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ok, err := lock.TryLock()
	if !ok && err == nil {
		ok, err = lock.TryLockContext(ctx, 10*time.Millisecond)
	}
	switch {
	case ok:
		return lock, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, errLocked
	default:
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
}

// path is a session's file. The name of a session is a secret, and no file's.
func (f *sessionFiles) path(id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(f.dir, hex.EncodeToString(sum[:16])+".json")
}

func (f *sessionFiles) write(s *savedSession) error {
	data, err := json.Marshal(s)
	if err == nil && len(data) > maxSessionFile {
		err = fmt.Errorf("%d bytes are more than %d", len(data), maxSessionFile)
	}
	if err == nil {
		err = renameio.WriteFile(f.path(s.ID), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("saving the session for another daemon: %w", err)
	}
	return nil
}

func (f *sessionFiles) remove(id string) error {
	if err := os.Remove(f.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the session: %w", err)
	}
	return nil
}

// read returns the sessions of daemons that are gone. A file that is none of ours
// is set aside under another name, with a warning.
func (f *sessionFiles) read() []*savedSession {
	paths, err := filepath.Glob(filepath.Join(f.dir, "*.json"))
	if err != nil { // the folder's name is a bad pattern
		f.log.Warn().Err(err).Msg("read sessions")
	}
	var list []*savedSession
	for _, path := range paths[:min(len(paths), maxSessionFiles)] {
		s, err := readSession(path)
		if err == nil && f.path(s.ID) != path {
			err = errors.New("it is not the file of the session that it names")
		}
		if err != nil {
			f.log.Warn().Str("file", path).Err(err).Msg("set session file aside")
			if err := os.Rename(path, path+".bad"); err != nil {
				f.log.Warn().Err(err).Msg("set session file aside")
			}
			continue
		}
		list = append(list, s)
	}
	return list
}

func readSession(path string) (*savedSession, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	var owner unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &owner); err != nil {
		return nil, fmt.Errorf("finding its owner: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case int(owner.Uid) != os.Geteuid():
		return nil, fmt.Errorf("it belongs to uid %d", owner.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others may use it (mode %04o)", info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSessionFile+1))
	if err != nil {
		return nil, err
	}
	var s savedSession
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	switch {
	case s.Version != sessionFormat:
		return nil, fmt.Errorf("its version is %d and this daemon reads %d", s.Version, sessionFormat)
	case len(s.ID) < 16 || len(s.ID) > 128:
		return nil, errors.New("it has no session's id")
	case len(s.Pythons) > maxSavedPythons:
		return nil, fmt.Errorf("it has %d Python sessions", len(s.Pythons))
	}
	return &s, nil
}

// release removes the folder if it is empty, and lets another daemon have it.
func (f *sessionFiles) release() {
	_ = os.Remove(f.dir) // it is not while sessions are kept
	_ = f.lock.Close()
}
