package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// ErrNoManager means that no systemd manages services of this user here.
var ErrNoManager = errors.New("no systemd user manager answers")

// A Manager is the user's systemd, spoken with over D-Bus at its own socket, so
// that no bus has to run. See org.freedesktop.systemd1(5). It is not safe for
// concurrent use.
type Manager struct{ conn *dbus.Conn }

// User connects to the manager of the user whose XDG_RUNTIME_DIR is runtimeDir.
// The error is an [ErrNoManager] where there is none. The caller must Close it.
func User(ctx context.Context, runtimeDir string) (*Manager, error) {
	path := filepath.Join(runtimeDir, "systemd", "private")
	if runtimeDir == "" {
		return nil, fmt.Errorf("%w: XDG_RUNTIME_DIR is not set; log in as the user itself, not by su or sudo", ErrNoManager)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not there", ErrNoManager, path)
	}
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) { return dial(ctx, path) })
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd at %s: %w", path, err)
	}
	return &Manager{conn}, nil
}

func dial(ctx context.Context, path string) (*godbus.Conn, error) {
	conn, err := godbus.Dial("unix:path="+path, godbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		_ = conn.Close() // the error at hand says more
		return nil, err
	}
	return conn, nil
}

// Close ends the connection.
func (m *Manager) Close() { m.conn.Close() }

// Reload has it read its unit files again.
func (m *Manager) Reload(ctx context.Context) error {
	if err := m.conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("having systemd read its units: %w", err)
	}
	return nil
}

// Enable has a unit start with the user's first login, and starts it.
func (m *Manager) Enable(ctx context.Context, unit string) error {
	if _, _, err := m.conn.EnableUnitFilesContext(ctx, []string{unit}, false, true); err != nil {
		return fmt.Errorf("enabling %s: %w", unit, err)
	}
	return m.job(ctx, "starting", unit, m.conn.StartUnitContext)
}

// Disable stops a unit, and has it start by itself no more.
func (m *Manager) Disable(ctx context.Context, unit string) error {
	if err := m.Stop(ctx, unit); err != nil {
		return err
	}
	if _, err := m.conn.DisableUnitFilesContext(ctx, []string{unit}, false); err != nil {
		return fmt.Errorf("disabling %s: %w", unit, err)
	}
	return nil
}

// Stop stops a unit and waits for its end.
func (m *Manager) Stop(ctx context.Context, unit string) error {
	return m.job(ctx, "stopping", unit, m.conn.StopUnitContext)
}

// job has systemd do something with a unit and waits until it is done.
func (m *Manager) job(ctx context.Context, what, unit string, ask func(context.Context, string, string, chan<- string) (int, error)) error {
	done := make(chan string, 1)
	if _, err := ask(ctx, unit, "replace", done); err != nil {
		return fmt.Errorf("%s %s: %w", what, unit, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s %s: systemd says %q; `systemctl --user status %s` tells more", what, unit, result, unit)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", what, unit, context.Cause(ctx))
	}
}

// State returns a unit's state, such as "active", "inactive" or "failed", and
// whether its file is there at all.
func (m *Manager) State(ctx context.Context, unit string) (state string, loaded bool, err error) {
	units, err := m.conn.ListUnitsByNamesContext(ctx, []string{unit})
	if err != nil {
		return "", false, fmt.Errorf("asking systemd for %s: %w", unit, err)
	}
	for _, u := range units {
		if u.Name == unit {
			return u.ActiveState, u.LoadState == "loaded", nil
		}
	}
	return "inactive", false, nil
}

// File returns the path of a unit's file, and whether the file has changed since
// systemd read it.
func (m *Manager) File(ctx context.Context, unit string) (path string, changed bool, err error) {
	all, err := m.conn.GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return "", false, fmt.Errorf("asking systemd for %s: %w", unit, err)
	}
	path, _ = all["FragmentPath"].(string)
	changed, _ = all["NeedDaemonReload"].(bool)
	return path, changed, nil
}
