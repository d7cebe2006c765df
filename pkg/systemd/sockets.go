package systemd

import (
	"errors"
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// Sockets are listeners that systemd handed over, see sd_listen_fds(3).
type Sockets struct {
	byPath map[string]*net.UnixListener
}

// Inherited takes the listeners that this process was started with: none if
// systemd did not start it for a socket. It is called once, before any child is
// started, which would otherwise believe that they are its own. An error means
// that one of them is no unix stream socket that listens at a path.
func Inherited() (*Sockets, error) {
	s := &Sockets{byPath: map[string]*net.UnixListener{}}
	var bad []error
	for _, f := range activation.Files(true) {
		ln, err := net.FileListener(f)
		_ = f.Close() // FileListener has its own copy
		if err != nil {
			bad = append(bad, fmt.Errorf("taking over the socket %s from systemd: %w", f.Name(), err))
			continue
		}
		unix, ok := ln.(*net.UnixListener)
		if !ok {
			_ = ln.Close()
			bad = append(bad, fmt.Errorf("taking over the socket %s from systemd: it is at %s; in bridged.socket, ListenStream must be a path", f.Name(), ln.Addr()))
			continue
		}
		s.byPath[unix.Addr().String()] = unix
	}
	if err := errors.Join(bad...); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Take returns the listener at path, which is the caller's from then on, or nil
// if none was handed over.
func (s *Sockets) Take(path string) *net.UnixListener {
	ln := s.byPath[path]
	delete(s.byPath, path)
	return ln
}

// Unclaimed returns an error that names the listeners nobody took: systemd would
// accept connections there that nobody answers.
func (s *Sockets) Unclaimed() error {
	for path := range s.byPath {
		return fmt.Errorf("systemd listens on %s, which is none of our sockets: let ListenStream in bridged.socket, and BRIDGED_SOCKET and XDG_RUNTIME_DIR of bridged.service, name the same", path)
	}
	return nil
}

// Close closes those that nobody took.
func (s *Sockets) Close() {
	for path, ln := range s.byPath {
		_ = ln.Close() // systemd has it still
		delete(s.byPath, path)
	}
}
