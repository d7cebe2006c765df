package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/bridged/bridged/pkg/bridge"
)

// paths are where a daemon keeps things.
type paths struct {
	socket string // for shims
	ops    string // for status
	state  string // folder
	output string // folder for published files, "" for none
}

// findPaths applies BRIDGED_SOCKET and the XDG base directory specification.
func findPaths(getenv func(string) string) (paths, error) {
	socket, err := bridge.SocketPath(getenv)
	if err != nil {
		return paths{}, err
	}
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := getenv("HOME")
		if home == "" {
			return paths{}, errors.New("finding the state folder: set HOME or XDG_STATE_HOME")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return paths{socket: socket, ops: opsPath(socket), state: filepath.Join(state, "bridged")}, nil
}

// opsPath is the operations socket of the daemon with a given socket.
func opsPath(socket string) string {
	if base := filepath.Base(socket); base != "mcp.sock" {
		return strings.TrimSuffix(socket, ".sock") + "-ops.sock"
	}
	return filepath.Join(filepath.Dir(socket), "ops.sock")
}

var instancePattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// instance returns the name that this daemon's containers carry. It belongs to
// the socket, of which at most one daemon at a time is the owner, and is the
// same after a restart: that is how orphans are told from other's containers.
func (p paths) instance() (string, error) {
	sum := sha256.Sum256([]byte(p.socket))
	path := filepath.Join(p.state, "instance-"+hex.EncodeToString(sum[:6]))
	data, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(data)); err == nil && instancePattern.MatchString(id) {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the daemon's identity: %w", err)
	}
	b := make([]byte, 8)
	rand.Read(b) // never fails, see crypto/rand
	id := hex.EncodeToString(b)
	if err := os.MkdirAll(p.state, 0o700); err != nil {
		return "", fmt.Errorf("making the state folder: %w", err)
	}
	if err := renameio.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("writing the daemon's identity: %w", err)
	}
	return id, nil
}
