package bridge

import (
	"fmt"
	"net"
)

// peerUID returns the user on the other end, as it was when it connected.
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("asking for the peer's uid: %w", err)
	}
	var uid uint32
	var asked error
	err = raw.Control(func(fd uintptr) { uid, asked = socketUID(int(fd)) })
	if err == nil {
		err = asked
	}
	if err != nil {
		return 0, fmt.Errorf("asking for the peer's uid: %w", err)
	}
	return int(uid), nil
}
