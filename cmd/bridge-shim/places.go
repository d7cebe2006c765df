package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Places are where things are looked for.
type places struct {
	sockets []string // in the order in which they are tried; a daemon is started at the first
	state   string   // folder of the daemon's log
}

// findPlaces derives the places from the environment. Agents are often started
// without XDG_RUNTIME_DIR, so the usual runtime folder is tried too.
func findPlaces(getenv func(string) string) (places, error) {
	state := getenv("XDG_STATE_HOME")
	if home := getenv("HOME"); state == "" && home != "" {
		state = filepath.Join(home, ".local", "state")
	}
	var p places
	if state != "" {
		p.state = filepath.Join(state, "bridged")
	}
	if path := getenv("BRIDGED_SOCKET"); path != "" {
		p.sockets = []string{path}
		if p.state == "" {
			p.state = filepath.Dir(path)
		}
		return p, nil
	}
	runtimeDir := getenv("XDG_RUNTIME_DIR")
	for _, dir := range []string{runtimeDir, state, filepath.Join("/run/user", strconv.Itoa(os.Getuid()))} {
		if dir != "" {
			p.sockets = append(p.sockets, filepath.Join(dir, "bridged", "mcp.sock"))
		}
	}
	if runtimeDir == "" && state == "" {
		return p, errors.New("finding the socket: none of BRIDGED_SOCKET, XDG_RUNTIME_DIR, XDG_STATE_HOME and HOME is set")
	}
	if p.state == "" {
		p.state = filepath.Join(runtimeDir, "bridged")
	}
	return p, nil
}

// findDaemon returns the path of the bridged binary.
func findDaemon(getenv func(string) string) (string, error) {
	if path := getenv("BRIDGED_BIN"); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("BRIDGED_BIN names a file that can't be run: %w", err)
		}
		return filepath.Abs(path)
	}
	beside := "the folder of bridge-shim"
	if self, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(self); err == nil {
			self = target
		}
		beside = filepath.Join(filepath.Dir(self), "bridged")
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath("bridged"); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("there is no bridged binary: neither %s nor one on PATH; install it, or set BRIDGED_BIN to its path", beside)
}
