//go:build !linux

package proxy

import "syscall"

// processAttributes give a server its own process group.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit waits for the end of the first process and reaps it.
func (p *process) awaitExit() {
	_ = p.cmd.Wait() // how it ended is in ProcessState
}

// collect has nothing to do after awaitExit.
func (p *process) collect() {}

// marked finds nothing: there is no way to look into other processes'
// environments. What has left the process group is not stopped here.
func marked(string) []int { return nil }
