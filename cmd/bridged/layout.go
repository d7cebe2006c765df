package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/bridged/bridged/pkg/systemd"
)

// A layout says where files of an installation go, by the Filesystem Hierarchy
// Standard and file-hierarchy(7).
type layout struct {
	bin, share, units string
}

// layoutAt is the layout below a prefix; "" is the user's own.
func layoutAt(prefix string, getenv func(string) string) (layout, error) {
	home := getenv("HOME")
	if prefix == "" {
		if prefix = "/usr/local"; os.Getuid() != 0 {
			prefix = filepath.Join(home, ".local")
		}
	}
	if !filepath.IsAbs(prefix) {
		return layout{}, fmt.Errorf("installing below %q: --prefix must be an absolute path", prefix)
	}
	l := layout{bin: filepath.Join(prefix, "bin"), share: filepath.Join(prefix, "share"), units: filepath.Join(prefix, "lib", "systemd", "user")}
	// systemd looks at one place in a home, see systemd.unit(5).
	if rel, err := filepath.Rel(home, prefix); err == nil && home != "" && home != "/" && filepath.IsLocal(rel) {
		data := getenv("XDG_DATA_HOME")
		if !filepath.IsAbs(data) {
			data = filepath.Join(home, ".local", "share")
		}
		l.units = filepath.Join(data, "systemd", "user")
	}
	return l, nil
}

// An artifact is one file of an installation.
type artifact struct {
	path string
	mode os.FileMode
	data []byte
}

// write puts the file in place, whole or not at all. dest stands for /.
func (a artifact) write(dest string) error {
	path := filepath.Join(dest, a.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	if err := renameio.WriteFile(path, a.data, a.mode, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	return nil
}

// remove reports whether the file was there.
func (a artifact) remove(dest string) (bool, error) {
	err := os.Remove(filepath.Join(dest, a.path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("uninstalling: %w", err)
	}
	return true, nil
}

// artifacts are all files of the installation.
func (i *installer) artifacts() ([]artifact, error) {
	l := i.layout
	programs, err := programs(l.bin)
	if err != nil {
		return nil, err
	}
	units, err := systemd.Units(filepath.Join(l.bin, "bridged"))
	if err != nil {
		return nil, err
	}
	list := programs
	for _, name := range []string{systemd.ServiceUnit, systemd.SocketUnit} {
		list = append(list, artifact{filepath.Join(l.units, name), 0o644, []byte(units[name])})
	}
	completions, err := completions(i.root, l.share)
	if err != nil {
		return nil, err
	}
	pages, err := manPages(i.root, filepath.Join(l.share, "man", "man1"))
	if err != nil {
		return nil, err
	}
	shim, err := manPages(shimManual(), filepath.Join(l.share, "man", "man1"))
	if err != nil {
		return nil, err
	}
	return slices.Concat(list, completions, pages, shim), nil
}

// programs are this one and the shim beside it.
func programs(bin string) ([]artifact, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	var list []artifact
	for name, from := range map[string]string{"bridged": self, "bridge-shim": filepath.Join(filepath.Dir(self), "bridge-shim")} {
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("reading what is to be installed: %w; `make build` makes both programs in one folder", err)
		}
		list = append(list, artifact{filepath.Join(bin, name), 0o755, data})
	}
	slices.SortFunc(list, func(a, b artifact) int { return -strings.Compare(a.path, b.path) })
	return list, nil
}

// completions are generated from the commands.
func completions(root *cobra.Command, share string) ([]artifact, error) {
	var list []artifact
	for _, one := range []struct {
		path  string
		write func(*bytes.Buffer) error
	}{
		{"bash-completion/completions/bridged", func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) }},
		{"zsh/site-functions/_bridged", func(b *bytes.Buffer) error { return root.GenZshCompletion(b) }},
		{"fish/vendor_completions.d/bridged.fish", func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) }},
	} {
		var text bytes.Buffer
		if err := one.write(&text); err != nil {
			return nil, fmt.Errorf("generating %s: %w", one.path, err)
		}
		list = append(list, artifact{filepath.Join(share, one.path), 0o644, text.Bytes()})
	}
	return list, nil
}

// shimManual describes the shim for its man page. The shim itself has no
// library that could.
func shimManual() *cobra.Command {
	return &cobra.Command{
		Use:   "bridge-shim",
		Short: "MCP server on stdio that hands an agent over to bridged",
		Long: "An agent starts bridge-shim as an MCP server. It copies messages between the agent and the daemon, bridged(1),\n" +
			"starts the daemon if there is none, and comes back to it when it was started again.\n" +
			"`bridged register` enters it in agents' configuration files.",
		Run: func(*cobra.Command, []string) {}, // without one it would have no page
	}
}

// manPages are one page for each command that a person runs. Their date is
// SOURCE_DATE_EPOCH's, if that is set.
func manPages(cmd *cobra.Command, folder string) ([]artifact, error) {
	if cmd.Hidden || (!cmd.IsAvailableCommand() && cmd.HasParent()) {
		return nil, nil
	}
	cmd.DisableAutoGenTag = true
	var text bytes.Buffer
	header := &doc.GenManHeader{Section: "1", Source: "bridged " + version, Manual: "bridged"}
	if err := doc.GenMan(cmd, header, &text); err != nil {
		return nil, fmt.Errorf("generating the man page of %s: %w", cmd.CommandPath(), err)
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	list := []artifact{{filepath.Join(folder, name), 0o644, text.Bytes()}}
	for _, sub := range cmd.Commands() {
		pages, err := manPages(sub, folder)
		if err != nil {
			return nil, err
		}
		list = append(list, pages...)
	}
	return list, nil
}
