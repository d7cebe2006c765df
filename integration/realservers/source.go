//go:build integration

package realservers

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// installTimeout bounds one server's installation.
const installTimeout = 4 * time.Minute

// A Source is a row of servers.json: a server, and how to start it.
type Source struct {
	Name     string            `json:"name"`     // as queries and results call it
	Registry string            `json:"registry"` // npm or pypi
	Package  string            `json:"package"`
	Version  string            `json:"version"` // exact
	Command  string            `json:"command"` // the program; empty means the only one of the package, or the package's name
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`  // placeholders: no server gets a real secret
	With     []string          `json:"with"` // further packages, pinned, without which it does not start

	// Unlabelled means that no query of the search benchmark was written with
	// its tools in view, so that they would count as wrong where they are right.
	Unlabelled bool `json:"unlabelled"`
}

// Home is the server's folder in the cache.
func (s Source) Home(cache string) string { return filepath.Join(cache, s.Name+"-"+s.Version) }

// IsCaptured reports whether the server's tools are in the cache folder.
func (s Source) IsCaptured(cache string) bool {
	_, err := os.Stat(filepath.Join(s.Home(cache), toolsFile))
	return err == nil
}

//go:embed servers.json
var serversFile []byte

// List returns the pinned list of servers.
func List() ([]Source, error) {
	var list []Source
	if err := json.Unmarshal(serversFile, &list); err != nil {
		return nil, fmt.Errorf("reading servers.json: %w", err)
	}
	return list, nil
}

// install fetches a server and what it needs into dir. Nothing of what is
// fetched is run: neither npm's scripts nor the builds of source packages.
func (s Source) install(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	stamp := filepath.Join(dir, "installed")
	if _, err := os.Stat(stamp); err == nil {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(WorkIn(dir), 0o700); err != nil {
		return err
	}
	steps := [][]string{{"npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
		"--before=" + pinnedOn, s.Package + "@" + s.Version}}
	if s.Registry == "pypi" {
		venv := filepath.Join(dir, "venv")
		install := []string{uv(dir), "pip", "install", "--quiet", "--python", filepath.Join(venv, "bin", "python"),
			"--only-binary=:all:", "--exclude-newer=" + pinnedOn, s.Package + "==" + s.Version}
		steps = [][]string{{uv(dir), "venv", "--quiet", "--python=python3", venv}, append(install, s.With...)}
	}
	for _, step := range steps {
		out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", filepath.Base(step[0]), err, tail(out))
		}
	}
	return os.WriteFile(stamp, nil, 0o600)
}

// pinnedOn is the day after which nothing was published that is installed: it
// pins what the servers need.
const pinnedOn = "2026-11-01"

// uv is the program that installs the servers of PyPI, beside the folders of the
// servers. It takes a tenth of pip's time and can leave out what is new.
func uv(dir string) string { return filepath.Join(filepath.Dir(dir), "uv", "bin", "uv") }

// InstallUV puts uv into the cache folder unless it is there.
func InstallUV(ctx context.Context, cache string) error {
	home := filepath.Join(cache, "uv")
	if _, err := os.Stat(filepath.Join(home, "bin", "uv")); err == nil {
		return nil
	}
	for _, step := range [][]string{
		{"python3", "-m", "venv", home},
		{filepath.Join(home, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "uv==0.9.11"},
	} {
		if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("installing uv: %w: %s", err, tail(out))
		}
	}
	return nil
}

func tail(out []byte) string {
	const limit = 400
	return string(out[max(0, len(out)-limit):])
}

// Program returns the command of an installed server.
func (s Source) Program(dir string) (string, []string, error) {
	if s.Registry == "pypi" {
		name := s.Command
		if name == "" {
			name = s.Package
		}
		return filepath.Join(dir, "venv", "bin", name), s.Args, nil
	}
	home := filepath.Join(dir, "node_modules", filepath.FromSlash(s.Package))
	text, err := os.ReadFile(filepath.Join(home, "package.json"))
	if err != nil {
		return "", nil, err
	}
	var manifest struct {
		Bin json.RawMessage `json:"bin"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return "", nil, fmt.Errorf("reading its package.json: %w", err)
	}
	script, err := s.script(manifest.Bin)
	if err != nil {
		return "", nil, err
	}
	return "node", append([]string{filepath.Join(home, script)}, s.Args...), nil
}

// WorkIn is the folder in which an installed server runs.
func WorkIn(dir string) string { return filepath.Join(dir, "home") }

// Environ is what a server gets in its environment, besides the PATH.
func (s Source) Environ(dir string) map[string]string {
	env := map[string]string{"HOME": WorkIn(dir), "LANG": "C.UTF-8", "NO_COLOR": "1", "DO_NOT_TRACK": "1"}
	maps.Copy(env, s.Env)
	return env
}

// script picks a server's program among those of its package.json.
func (s Source) script(bin json.RawMessage) (string, error) {
	var one string
	if json.Unmarshal(bin, &one) == nil {
		return one, nil
	}
	var many map[string]string
	if err := json.Unmarshal(bin, &many); err != nil {
		return "", fmt.Errorf("its package.json names no program")
	}
	for name, path := range many {
		if name == s.Command || len(many) == 1 {
			return path, nil
		}
	}
	return "", fmt.Errorf("its package.json names several programs: say which in servers.json: %s", bin)
}
