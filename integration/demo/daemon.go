package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/ops"
)

// sandboxImage is the daemon's default, so that it serves the user too.
const sandboxImage = "localhost/bridged-sandbox:latest"

// daemonTimeout bounds the wait for the daemon's first warm sandbox.
const daemonTimeout = time.Minute

// environ returns the environment of everything that is ours: a home with the
// demo's MCP servers and no one else's, and folders that are gone afterwards.
func (p places) environ(e *engine) []string {
	env := append(os.Environ(),
		"HOME="+p.home,
		"XDG_CONFIG_HOME="+filepath.Join(p.private, "config"),
		"XDG_STATE_HOME="+filepath.Join(p.private, "state"),
		"XDG_CACHE_HOME="+filepath.Join(p.private, "cache"),
		"BRIDGED_SOCKET="+p.socket,
		"MCP_BRIDGE_IMAGE="+sandboxImage,
	)
	if e != nil && e.address != "" {
		env = append(env, "MCP_BRIDGE_RUNTIME="+e.address)
	}
	return env
}

// ensureImage makes the sandbox image unless the engine has it.
func ensureImage(ctx context.Context, p places, e *engine) error {
	say("Looking for the sandbox image")
	list := p.command(ctx, e, "image", "list")
	list.Stdout = nil
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing images: %w", err)
	}
	if listed(string(out)) {
		fmt.Println("  the engine has", sandboxImage)
		return nil
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		say("Building the sandbox image from a registry (a few minutes)")
		return p.command(ctx, e, "image", "build").Run()
	}
	tar := filepath.Join(p.cache, "full.tar")
	say("Building the sandbox image, if there is none: Debian with Python and its data packages (a minute or two)")
	build := exec.CommandContext(ctx, "images/debian.sh", "--if-changed", tar, "full")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the sandbox image: %w", err)
	}
	say("Importing the image into the engine")
	if err := p.command(ctx, e, "image", "import", "--file", tar, "--tag", sandboxImage).Run(); err != nil {
		return fmt.Errorf("importing the sandbox image: %w", err)
	}
	return nil
}

// listed reports whether bridged's list of images has the sandbox image. The
// one in use has a line there even when the engine lacks it.
func listed(list string) bool {
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, sandboxImage) {
			return !strings.Contains(line, "not there")
		}
	}
	return false
}

// command prepares a bridged command that shows what it prints.
func (p places) command(ctx context.Context, e *engine, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.bridged, args...)
	cmd.Env = p.environ(e)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// startDaemon starts the daemon and waits until it has a warm sandbox, as it
// has whenever an agent comes later.
func startDaemon(ctx context.Context, p places, e *engine) (*child, error) {
	cmd := exec.Command(p.bridged, "serve")
	cmd.Env = p.environ(e)
	d, err := startChild("the daemon", cmd, p.log)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(daemonTimeout); !p.warm(ctx, e); time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil || d.ended() || time.Now().After(deadline) {
			err = fmt.Errorf("waiting for the daemon: it has no sandbox ready; it said:\n%s", tail(p.log))
			return nil, errors.Join(err, d.stop())
		}
	}
	if err := p.command(ctx, e, "status").Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("asking for the daemon's status: %w", err), d.stop())
	}
	return d, nil
}

// warm reports whether the daemon runs and has a warm sandbox.
func (p places) warm(ctx context.Context, e *engine) bool {
	cmd := p.command(ctx, e, "status", "--json")
	cmd.Stdout, cmd.Stderr = nil, nil
	out, _ := cmd.Output() // the exit code says less than the status
	var s ops.Status
	return json.Unmarshal(out, &s) == nil && s.Pool.Warm > 0
}
