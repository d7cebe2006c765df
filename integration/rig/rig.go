//go:build integration

// Package rig starts the daemon that was built, for benchmarks.
package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bridged/bridged/pkg/ops"
)

// readyTime bounds the wait for the daemon and its pool.
const readyTime = 60 * time.Second

// A Daemon is a `bridged serve` with a home of its own.
type Daemon struct {
	Dir    string   // its home
	Socket string   // for shims
	Env    []string // its environment, and that of shims
	cmd    *exec.Cmd
}

// Start starts a daemon with the servers of entries, as `mcpServers` has them,
// and waits until its pool is warm. Env says where its engine is, and its
// image. The caller must Stop it.
func Start(ctx context.Context, entries map[string]any, env ...string) (*Daemon, error) {
	dir, err := os.MkdirTemp("", "bridged-bench")
	if err != nil {
		return nil, err
	}
	d := &Daemon{Dir: dir, Socket: filepath.Join(dir, "run", "mcp.sock")}
	d.Env = append([]string{
		"HOME=" + dir, "PATH=" + os.Getenv("BRIDGED_TEST_SERVERS") + ":" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"BRIDGED_SOCKET=" + d.Socket, "MCP_BRIDGE_LOG_LEVEL=warn",
	}, env...)
	if err := d.Configure(entries); err != nil {
		return nil, err
	}
	if err := d.Run(ctx); err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

// Run runs the daemon, again after Quit, and waits until its pool is warm.
func (d *Daemon) Run(ctx context.Context) error {
	d.cmd = exec.Command("bin/bridged", "serve")
	d.cmd.Env, d.cmd.Stderr = d.Env, os.Stderr
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("starting the daemon: %w", err)
	}
	return d.Ready(ctx)
}

// Configured is the file in which the daemon finds its servers.
func (d *Daemon) Configured() string { return filepath.Join(d.Dir, "MCPs", "bench.json") }

// Configure gives the daemon other servers.
func (d *Daemon) Configure(entries map[string]any) error {
	config, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.Configured()), 0o700); err != nil {
		return err
	}
	return os.WriteFile(d.Configured(), config, 0o600)
}

// Ready waits until the pool is at its target.
func (d *Daemon) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for {
		s, err := ops.Get(ctx, filepath.Join(filepath.Dir(d.Socket), "ops.sock"))
		if err == nil && s.Ready && s.Pool.Warm >= s.Pool.Target {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a warm pool: %w (%v, %s)", ctx.Err(), err, s.Reason)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// RSS returns the daemon's memory in bytes, as the kernel counts it.
func (d *Daemon) RSS() (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0, fmt.Errorf("reading the daemon's memory: %w", err)
	}
	return resident * int64(os.Getpagesize()), nil
}

// Quit ends the daemon and keeps its home.
func (d *Daemon) Quit(sig syscall.Signal) {
	// What goes wrong here has nothing to do with what was measured.
	_ = d.cmd.Process.Signal(sig)
	_ = d.cmd.Wait()
}

// Stop ends the daemon, its sandboxes, and removes its home.
func (d *Daemon) Stop() {
	if d.cmd.Process != nil {
		d.Quit(syscall.SIGINT)
	}
	_ = os.RemoveAll(d.Dir)
}
