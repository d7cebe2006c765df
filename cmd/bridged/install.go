package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/systemd"
)

// managerTimeout bounds what systemd is asked to do: it stops a daemon, which
// may take as long as TimeoutStopSec of its unit.
const managerTimeout = time.Minute

// installFlags are what `install` and `uninstall` take.
type installFlags struct {
	prefix string
	dest   string
	files  bool
}

func installCommand() *cobra.Command {
	return installing("install", "Install bridged for systemd, and start it",
		"Copies bridged and bridge-shim to PREFIX/bin, with man pages, shell completions and the units of a systemd user\n"+
			"service. Then it enables and starts bridged.socket, which starts the daemon when an agent first asks for it.",
		(*installer).install)
}

func uninstallCommand() *cobra.Command {
	return installing("uninstall", "Take back what install has done",
		"Stops the service, which ends the agents' sessions, disables it, and removes the files that `bridged install` with\n"+
			"the same prefix has written. Your configuration, memories and logs stay.",
		(*installer).uninstall)
}

func installing(use, short, long string, do func(*installer, context.Context) error) *cobra.Command {
	var f installFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := newInstaller(f, cmd, os.Getenv)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), managerTimeout)
			defer cancel()
			return do(i, ctx)
		},
	}
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "folder to install below; your own ~/.local, or /usr/local for root")
	cmd.Flags().StringVar(&f.dest, "destdir", "", "folder that stands for /, to make a package in; implies --files-only")
	cmd.Flags().BoolVar(&f.files, "files-only", false, "ask nothing of systemd")
	return cmd
}

// An installer installs into one place.
type installer struct {
	layout  layout
	dest    string
	files   bool
	runtime string // XDG_RUNTIME_DIR
	paths   paths
	root    *cobra.Command
	out     io.Writer
}

func newInstaller(f installFlags, cmd *cobra.Command, getenv func(string) string) (*installer, error) {
	l, err := layoutAt(f.prefix, getenv)
	if err != nil {
		return nil, err
	}
	p, err := findPaths(getenv)
	if err != nil {
		return nil, err
	}
	return &installer{
		layout: l, dest: f.dest, files: f.files || f.dest != "", runtime: getenv("XDG_RUNTIME_DIR"), paths: p,
		root: cmd.Root(), out: cmd.OutOrStdout(),
	}, nil
}

func (i *installer) say(format string, args ...any) {
	_, _ = fmt.Fprintf(i.out, format+"\n", args...) // there is nobody else to tell
}

// install writes the files, then has systemd listen.
func (i *installer) install(ctx context.Context) error {
	list, err := i.artifacts()
	if err != nil {
		return err
	}
	for _, a := range list {
		if err := a.write(i.dest); err != nil {
			return err
		}
		i.say("installed %s", a.path)
	}
	if i.files {
		return nil
	}
	m, err := systemd.User(ctx, i.runtime)
	if errors.Is(err, systemd.ErrNoManager) {
		i.say("Nothing was started: %v.\nAgents start the daemon by themselves; with systemd, `systemctl --user enable --now %s` does it at the first login.", err, systemd.SocketUnit)
		return nil
	}
	if err != nil {
		return err
	}
	defer m.Close()
	if err := i.enable(ctx, m); err != nil {
		return err
	}
	i.explain()
	return nil
}

// enable has systemd listen, unless somebody else does.
func (i *installer) enable(ctx context.Context, m *systemd.Manager) error {
	if want := filepath.Join(i.runtime, "bridged", "mcp.sock"); i.paths.socket != want {
		return fmt.Errorf("enabling %s: it listens on %s, and BRIDGED_SOCKET says %s; unset it, or use --files-only and edit the unit", systemd.SocketUnit, want, i.paths.socket)
	}
	if err := m.Reload(ctx); err != nil {
		return err
	}
	state, _, err := m.State(ctx, systemd.SocketUnit)
	if err != nil {
		return err
	}
	running, err := ops.Get(ctx, i.paths.ops)
	switch {
	case err == nil && state != "active":
		return fmt.Errorf("enabling %s: a daemon that systemd did not start has its sockets (pid %d, %d sessions); when no agent needs it, run `kill %d`, then install again",
			systemd.SocketUnit, running.PID, len(running.Sessions), running.PID)
	case err == nil && running.Version != version:
		i.say("version %s goes on running until `systemctl --user restart %s`, which ends %d sessions", running.Version, systemd.ServiceUnit, len(running.Sessions))
	}
	return m.Enable(ctx, systemd.SocketUnit)
}

// explain says what a person should know next.
func (i *installer) explain() {
	i.say("%s listens on %s", systemd.SocketUnit, i.paths.socket)
	if u, err := user.Current(); err == nil {
		if _, err := os.Stat(filepath.Join("/var/lib/systemd/linger", u.Username)); err != nil {
			i.say("The service ends with your last login. To keep it: loginctl enable-linger %s", u.Username)
		}
	}
	i.say("Next: %s register", filepath.Join(i.layout.bin, "bridged"))
}

// uninstall is install backwards. What is not there is no error.
func (i *installer) uninstall(ctx context.Context) error {
	if err := i.disable(ctx); err != nil {
		return err
	}
	list, err := i.artifacts()
	if err != nil {
		return err
	}
	for _, a := range list {
		removed, err := a.remove(i.dest)
		if err != nil {
			return err
		}
		if removed {
			i.say("removed %s", a.path)
		}
	}
	return nil
}

// disable stops both units where there is a manager that knows them.
func (i *installer) disable(ctx context.Context) error {
	if i.files {
		return nil
	}
	m, err := systemd.User(ctx, i.runtime)
	if errors.Is(err, systemd.ErrNoManager) {
		return nil
	}
	if err != nil {
		return err
	}
	defer m.Close()
	for _, unit := range []string{systemd.SocketUnit, systemd.ServiceUnit} {
		if _, loaded, err := m.State(ctx, unit); err != nil || !loaded {
			return err
		}
	}
	if state, _, err := m.State(ctx, systemd.ServiceUnit); err == nil && state == "active" {
		// By systemd alone it would leave its sessions to another daemon, which
		// their shims would start.
		if err := ops.Stop(ctx, i.paths.ops); err != nil {
			i.say("%v", err)
		}
	}
	// The socket first: it would start the service again.
	if err := m.Disable(ctx, systemd.SocketUnit); err != nil {
		return err
	}
	return m.Disable(ctx, systemd.ServiceUnit)
}
