package main

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// A socket is a connection on which reads and writes block in the kernel. The
// net package is woken not only when there is something to read but also when
// the other side has read, which is once a message, for nothing.
//
// One goroutine may read and another write.
type socket struct{ f *os.File }

// newSocket takes over conn, which is closed in either case.
func newSocket(conn *net.UnixConn) (*socket, error) {
	defer conn.Close() //nolint:errcheck // its file descriptor was duplicated
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("taking over the connection: %w", err)
	}
	fd := -1
	var dupErr error
	if err := raw.Control(func(old uintptr) { fd, dupErr = dup(int(old)) }); err != nil {
		return nil, fmt.Errorf("taking over the connection: %w", err)
	}
	if dupErr != nil {
		return nil, fmt.Errorf("taking over the connection: %w", dupErr)
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("taking over the connection: %w", err)
	}
	return &socket{os.NewFile(uintptr(fd), "daemon")}, nil
}

// dup keeps the new descriptor out of a daemon that is started meanwhile.
func dup(old int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Dup(old)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	return fd, err
}

func (s *socket) Read(p []byte) (int, error) { return s.f.Read(p) }

func (s *socket) Write(p []byte) (int, error) { return s.f.Write(p) }

// CloseWrite tells the other side that nothing more will come.
func (s *socket) CloseWrite() error { return s.shutdown(syscall.SHUT_WR) }

// Close ends a read or a write under way, which closing alone would not.
func (s *socket) Close() error {
	_ = s.shutdown(syscall.SHUT_RDWR) // the other side may have hung up
	return s.f.Close()
}

func (s *socket) shutdown(how int) error {
	raw, err := s.f.SyscallConn()
	if err != nil {
		return err
	}
	var downErr error
	if err := raw.Control(func(fd uintptr) { downErr = syscall.Shutdown(int(fd), how) }); err != nil {
		return err
	}
	return downErr
}
