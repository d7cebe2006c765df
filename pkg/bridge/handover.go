package bridge

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// HandOver sends listeners that [Listen] returned to the process at the other end
// of conn, which takes them with [Receive]. They are listened on by both then, so
// that no connection is refused, and stay where they are when they are closed
// here; [Retake] undoes that.
func HandOver(conn *net.UnixConn, listeners ...net.Listener) error {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd) // a duplicate, of which the other process has one too
		}
	}()
	for _, ln := range listeners {
		l, ok := ln.(*listener)
		if !ok {
			return fmt.Errorf("handing %s over: it was not made by Listen", ln.Addr())
		}
		// Duplicates stay what they are when the daemon is told to end meanwhile.
		// Asking for a file would change how the socket behaves for both.
		for _, c := range []syscall.Conn{l, l.lock} {
			fd, err := duplicate(c)
			if err != nil {
				return fmt.Errorf("handing %s over: %w", ln.Addr(), err)
			}
			fds = append(fds, fd)
		}
	}
	if _, _, err := conn.WriteMsgUnix([]byte{byte(len(listeners))}, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("handing the sockets over: %w", err)
	}
	Yield(listeners...)
	return nil
}

// duplicate returns another descriptor of what c has open.
func duplicate(c syscall.Conn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var fd int
	var failed error
	err = raw.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(err, failed)
}

// Yield has the sockets of listeners stay where they are when these are closed:
// another process listens on them.
func Yield(listeners ...net.Listener) { yield(true, listeners) }

// Retake has listeners that were handed over in vain be this process's alone.
func Retake(listeners ...net.Listener) { yield(false, listeners) }

func yield(do bool, listeners []net.Listener) {
	for _, ln := range listeners {
		if l, ok := ln.(*listener); ok {
			l.yielded.Store(do)
		}
	}
}

// Receive takes over the listeners at these paths, in that order, which another
// process sends with [HandOver]. They are as [Listen] returns them, and the locks
// are held with the other process until that has ended.
func Receive(conn *net.UnixConn, paths ...string) ([]net.Listener, error) {
	fds, err := receiveFiles(conn, 2*len(paths))
	if err != nil {
		return nil, fmt.Errorf("taking the sockets over: %w", err)
	}
	var list []net.Listener
	for i, path := range paths {
		l, err := receiveOne(fds[2*i], fds[2*i+1], path)
		if err != nil {
			closeAll(fds[2*i+2:])
			Yield(list...)
			for _, ln := range list {
				_ = ln.Close() // the error at hand says more
			}
			return nil, fmt.Errorf("taking the socket over: %w", err)
		}
		list = append(list, l)
	}
	return list, nil
}

// receiveOne makes a listener of its files, which it takes over.
func receiveOne(socket, lock *os.File, path string) (*listener, error) {
	ln, err := net.FileListener(socket)
	_ = socket.Close() // FileListener has its own copy
	if err != nil {
		_ = lock.Close() // the error at hand says more
		return nil, err
	}
	ul, ok := ln.(*net.UnixListener)
	if !ok || ul.Addr().String() != path {
		_ = ln.Close()
		_ = lock.Close()
		return nil, fmt.Errorf("the other daemon listens on %s, and this one is to listen on %s", ln.Addr(), path)
	}
	return &listener{UnixListener: ul, lock: lock, owned: true}, nil
}

// receiveFiles reads a message with so many files, and no other.
func receiveFiles(conn *net.UnixConn, n int) ([]*os.File, error) {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4*(n+1)))
	_, used, _, _, err := conn.ReadMsgUnix(data, control)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:used])
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // it is of another kind
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	if len(files) != n {
		closeAll(files)
		return nil, fmt.Errorf("%d files came, and %d are wanted", len(files), n)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	_ = errors.Join(errs...) // nothing was written to them
}
