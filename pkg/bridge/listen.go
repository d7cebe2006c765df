package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse means that another daemon listens on the socket.
var ErrInUse = errors.New("another bridged is listening")

// probeTimeout bounds the question whether a socket's daemon is alive. A local
// connect is accepted by the kernel, so it takes microseconds.
const probeTimeout = time.Second

// Listen listens on the unix socket at path. The socket has mode 0600 and its
// folder, made if missing, 0700; a folder that somebody else owns or may write
// is refused. A socket that a dead daemon left is replaced.
//
// Of many that call Listen at once for one path, in one process or several,
// exactly one wins; for the others the error wraps [ErrInUse]. The winner is
// elected with a lock on the file path + ".lock", which stays behind.
//
// Accept returns connections of this user's processes only; others are closed.
// Close removes the socket.
func Listen(path string) (net.Listener, error) {
	lock, err := claim(path)
	if err != nil {
		return nil, err
	}
	ln, err := replace(path)
	if err != nil {
		_ = lock.Close() // the error at hand says more
		return nil, err
	}
	return &listener{UnixListener: ln, lock: lock, owned: true}, nil
}

// Adopt is Listen for a socket on which somebody else has this process listen,
// such as systemd: it stays when the listener is closed. Its folder, the election
// and what Accept returns are as with Listen. When it fails ln is closed.
func Adopt(ln *net.UnixListener) (net.Listener, error) {
	path := ln.Addr().String()
	lock, err := claim(path)
	if err != nil {
		_ = ln.Close() // the error at hand says more
		return nil, err
	}
	return &listener{UnixListener: ln, lock: lock}, nil
}

// claim checks a socket's place and wins the election for it.
func claim(path string) (*os.File, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if err := checkDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return elect(path + ".lock")
}

// maxPath is the longest path that fits in a sockaddr_un with its NUL.
func maxPath() int {
	if runtime.GOOS == "darwin" {
		return 103
	}
	return 107
}

func checkPath(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("listening on %q: the socket's path must be absolute", path)
	}
	if n := len(path); n > maxPath() {
		return fmt.Errorf("listening on %s: the path has %d bytes and the system allows %d for a socket; set BRIDGED_SOCKET to a shorter one",
			path, n, maxPath())
	}
	return nil
}

// checkDir makes dir if it is missing and refuses one in which somebody else
// could put a socket of his own.
func checkDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the socket's folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("checking the socket's folder: %w", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if uid := owner(info); uid != 0 && uid != os.Geteuid() {
			return fmt.Errorf("checking the socket's folder: %s is a link that uid %d placed", dir, uid)
		}
		if info, err = os.Stat(dir); err != nil {
			return fmt.Errorf("checking the socket's folder: %w", err)
		}
	}
	switch uid, perm := owner(info), info.Mode().Perm(); {
	case !info.IsDir():
		return fmt.Errorf("checking the socket's folder: %s is no folder", dir)
	case uid != os.Geteuid():
		return fmt.Errorf("checking the socket's folder: %s belongs to uid %d, not to %d; set BRIDGED_SOCKET to a path in a folder of your own",
			dir, uid, os.Geteuid())
	case perm&0o022 != 0:
		return fmt.Errorf("checking the socket's folder: others may write to %s (mode %04o); run chmod 700 %s, or set BRIDGED_SOCKET to a path in a folder of its own",
			dir, perm, dir)
	}
	return nil
}

func owner(info fs.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}

// elect takes the lock at path, which the kernel frees when this process ends
// however it ends.
func elect(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the socket's lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is locked", ErrInUse, path)
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// replace listens on path, whose lock the caller holds, in place of a socket
// that nobody answers on.
func replace(path string) (*net.UnixListener, error) {
	if err := clearStale(path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("closing the socket to others: %w", err)
	}
	return ln, nil
}

func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for an old socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listening on %s: something that is no socket is there (%s); move it away", path, info.Mode())
	}
	// The lock file may have been deleted under a daemon that still lives, so
	// the lock alone does not prove that the socket is stale.
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("%w: %s answers", ErrInUse, path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing an old socket: %w", err)
	}
	return nil
}

// A listener accepts connections of this user alone.
type listener struct {
	*net.UnixListener
	lock    *os.File
	owned   bool        // Close removes the socket
	yielded atomic.Bool // but not now
	once    sync.Once
	err     error
}

// Accept returns the next connection whose peer is this user.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(conn); err == nil && uid == os.Geteuid() {
			return conn, nil
		}
		_ = conn.Close() // a stranger learns nothing
	}
}

// Close removes the socket, then gives up the lock.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.SetUnlinkOnClose(l.owned && !l.yielded.Load())
		l.err = errors.Join(l.UnixListener.Close(), l.lock.Close())
	})
	return l.err
}

// SocketPath returns where the daemon listens and shims look:
// $BRIDGED_SOCKET, else bridged/mcp.sock under $XDG_RUNTIME_DIR, else under
// $XDG_STATE_HOME, which defaults to ~/.local/state.
func SocketPath(getenv func(string) string) (string, error) {
	if path := getenv("BRIDGED_SOCKET"); path != "" {
		return path, nil
	}
	dir := getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = getenv("XDG_STATE_HOME")
	}
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("finding the socket: none of BRIDGED_SOCKET, XDG_RUNTIME_DIR, XDG_STATE_HOME and HOME is set")
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "bridged", "mcp.sock"), nil
}
