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
	cache  string // folder, for what can be had again; "" for none
	output string // folder for published files, "" for none
	audit  string // folder of the audit log
	token  string // file of the token for operations; "" for the usual one
	kept   string // folder of what outlives sessions
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
	p := paths{socket: socket, ops: opsPath(socket), state: filepath.Join(state, "bridged")}
	p.audit = filepath.Join(p.state, "audit-"+p.mark())
	if p.kept = filepath.Join(p.state, "user_tools"); getenv("HOME") != "" {
		p.kept = filepath.Join(getenv("HOME"), "MCPs", "user_tools") // where the seed project has it
	}
	if cache := cacheHome(getenv); cache != "" {
		p.cache = filepath.Join(cache, "bridged")
	}
	return p, nil
}

// configured puts the folders in place that a configuration names.
func (p *paths) configured(c *config, getenv func(string) string) (err error) {
	if p.output, err = folderOf("files.output", string(c.Files.Output), getenv); err != nil {
		return err
	}
	folder, err := folderOf("memory.folder", string(c.Memory.Folder), getenv)
	if err != nil {
		return err
	}
	if folder != "" {
		p.kept = filepath.Join(folder, "user_tools")
	}
	if p.token, err = folderOf("ops.token_file", string(c.Ops.TokenFile), getenv); err != nil {
		return err
	}
	own, err := folderOf("audit.path", string(c.Audit.Path), getenv)
	p.audit = or(own, p.audit)
	return err
}

// cacheHome is the user's folder for what can be had again, "" if there is none.
func cacheHome(getenv func(string) string) string {
	if cache := getenv("XDG_CACHE_HOME"); filepath.IsAbs(cache) {
		return cache
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".cache")
	}
	return ""
}

// catalog is the folder for lists of tools, "" for none. They are under the
// digests of their definitions, so that all daemons of the user share it; and
// every one can be had again from its server, so that it is a cache.
func (p paths) catalog() string {
	if p.cache == "" {
		return ""
	}
	return filepath.Join(p.cache, "catalog")
}

// mark tells what belongs to this socket from what belongs to others.
func (p paths) mark() string {
	sum := sha256.Sum256([]byte(p.socket))
	return hex.EncodeToString(sum[:6])
}

// tokens is the folder for logins to remote servers.
func (p paths) tokens() string { return filepath.Join(p.state, "tokens") }

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
	path := filepath.Join(p.state, "instance-"+p.mark())
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
