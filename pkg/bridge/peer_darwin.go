package bridge

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user on the other end, as it was when it connected.
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("asking for the peer's uid: %w", err)
	}
	var cred *unix.Xucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return 0, fmt.Errorf("asking for the peer's uid: %w", err)
	}
	return int(cred.Uid), nil
}
