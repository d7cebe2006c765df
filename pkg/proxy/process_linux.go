package proxy

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes give a server its own process group, and end it when the
// daemon ends, however that comes about.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits for the end of the first process and does not reap it: until
// then its pid, which is the group's, can't be another's.
func (p *process) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, p.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// collect reaps the first process, which has ended.
func (p *process) collect() {
	_ = p.cmd.Wait() // how it ended is in ProcessState
}

// marked returns the processes whose environment holds mark: those that were
// started with it, wherever they are now, as long as they keep the environment
// that they were given.
func marked(mark string) []int {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil // the pattern is right
	}
	text := []byte(mark)
	var pids []int
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, text) {
			continue // gone, a zombie, another user's, or none of ours
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
