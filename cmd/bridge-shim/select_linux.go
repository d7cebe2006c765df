package main

import (
	"syscall"
	"unsafe"
)

func mark(set *syscall.FdSet, fd int) {
	width := int(unsafe.Sizeof(set.Bits[0])) * 8
	set.Bits[fd/width] |= 1 << (fd % width)
}

// selectNow reports whether one of the marked files is ready, without waiting.
func selectNow(n int, set *syscall.FdSet) (bool, error) {
	ready, err := syscall.Select(n, set, nil, nil, &syscall.Timeval{})
	return ready > 0, err
}
