package main

import "syscall"

func mark(set *syscall.FdSet, fd int) {
	set.Bits[fd/32] |= 1 << (fd % 32)
}

// selectNow reports whether one of the marked files is ready, without waiting.
func selectNow(n int, set *syscall.FdSet) (bool, error) {
	err := syscall.Select(n, set, nil, nil, &syscall.Timeval{})
	for _, bits := range set.Bits {
		if bits != 0 {
			return true, err
		}
	}
	return false, err
}
