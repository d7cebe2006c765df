//go:build !windows

package discovery

import "syscall"

// errNotDir is what opening a path below a file gives.
const errNotDir = syscall.ENOTDIR
