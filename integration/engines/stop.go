//go:build integration

package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Stop removes the engine's containers, ends the engine and everything that
// belongs to it, and gives its storage free. A second Stop does nothing.
func (r *Running) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 4*stopTime)
	defer cancel()
	var err error
	if r.Engine != nil {
		err = errors.Join(r.removeContainers(ctx), r.Engine.Close())
		r.Engine = nil
	}
	if r.cmd != nil {
		err = errors.Join(err, r.end(ctx), r.killLeft(ctx), r.unmount(ctx))
		r.cmd = nil
	}
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close()) // which unlocks
		r.lock = nil
	}
	if err != nil {
		return fmt.Errorf("stopping the engine %s: %w", r.Name, err)
	}
	return nil
}

// end asks the engine to end, and then makes it.
func (r *Running) end(ctx context.Context) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-r.exited:
			return nil
		default:
		}
		// The group holds what the engine has not sent away.
		if err := signal(ctx, -r.cmd.Process.Pid, sig); err != nil {
			return err
		}
		select {
		case <-r.exited:
			return nil
		case <-time.After(stopTime):
		}
	}
	return fmt.Errorf("process %d does not end", r.cmd.Process.Pid)
}

// killLeft ends the processes that an engine leaves behind: a service that
// outlived its test, containers' monitors, and the process that holds a
// rootless engine's user namespace. They are known by the engine's own folder
// in their command lines or its socket's in their environment.
func (r *Running) killLeft(ctx context.Context) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		left := r.left()
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			if err := signal(ctx, pid, sig); err != nil {
				return err
			}
		}
		short, cancel := context.WithTimeout(ctx, stopTime)
		err := until(short, "processes do not end", func() (bool, error) { return len(r.left()) == 0, nil })
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("processes %v do not end", r.left())
}

// left lists the processes of this engine, but not this process.
func (r *Running) left() []int {
	var pids []int
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, dir := range entries {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() || !r.owns(dir) {
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

// unmount ends the mounts that an engine leaves: Podman as root mounts its
// storage on itself.
func (r *Running) unmount(ctx context.Context) error {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	slices.Reverse(lines) // the innermost first
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) < 2 || !r.holds(fields[1]) {
			continue
		}
		if err := asRoot(ctx, "umount", fields[1]); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether path is inside one of the engine's folders.
func (r *Running) holds(path string) bool {
	return strings.HasPrefix(path, r.layout.hostStorage()+"/") || strings.HasPrefix(path, r.layout.run+"/")
}

// programs are what engines run on the host, as /proc/PID/comm has them: cut
// at 15 bytes. Whoever else names the engine's folder only talks to it.
var programs = []string{"podman", "conmon", "dockerd", "containerd", "containerd-shim", "runc", "catatonit", "podman pause"}

// owns reports whether the process at dir is this engine's.
func (r *Running) owns(dir string) bool {
	comm, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil || !slices.Contains(programs, strings.TrimSpace(string(comm))) {
		return false
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(cmdline) == 0 { // it ended, or is a zombie
		return false
	}
	if bytes.Contains(cmdline, []byte(r.layout.run+"/")) || bytes.Contains(cmdline, []byte(r.layout.storage+"/")) {
		return true
	}
	// The process that holds a rootless engine's user namespace has no
	// arguments of ours, but our XDG_RUNTIME_DIR.
	environ, err := readAsRoot(filepath.Join(dir, "environ"))
	return err == nil && bytes.Contains(environ, []byte("XDG_RUNTIME_DIR="+r.layout.run+"\x00"))
}

// readAsRoot reads a file that may be another user's. That it can't is an error
// like any other: a process may end meanwhile.
func readAsRoot(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if !errors.Is(err, os.ErrPermission) {
		return text, err
	}
	argv := sudo([]string{"cat", path})
	return exec.Command(argv[0], argv[1:]...).Output()
}

// signal sends sig to a process, or to a group for a negative pid, as root. One
// that is gone is no error.
func signal(ctx context.Context, pid int, sig syscall.Signal) error {
	if os.Geteuid() == 0 {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signalling process %d: %w", pid, err)
		}
		return nil
	}
	err := asRoot(ctx, "kill", "-"+strconv.Itoa(int(sig)), "--", strconv.Itoa(pid))
	if err != nil && strings.Contains(err.Error(), "No such process") {
		return nil
	}
	return err
}
