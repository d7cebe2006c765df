package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testInstaller installs into dest what a build has made.
func testInstaller(t *testing.T, f installFlags, out *bytes.Buffer) *installer {
	t.Helper()
	root := rootCommand()
	cmd, _, err := root.Find([]string{"install"})
	if err != nil {
		t.Fatal(err)
	}
	root.SetOut(out)
	env := map[string]string{"HOME": "/home/somebody", "XDG_RUNTIME_DIR": t.TempDir()}
	i, err := newInstaller(f, cmd, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	shim := filepath.Join(filepath.Dir(os.Args[0]), "bridge-shim") // beside this program, which stands for bridged
	if err := os.WriteFile(shim, []byte("shim"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(shim) })
	return i
}

func TestPackageIsMadeInAFolder(t *testing.T) {
	dest := t.TempDir()
	var out bytes.Buffer
	i := testInstaller(t, installFlags{prefix: "/usr", dest: dest}, &out)
	if err := i.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		"usr/bin/bridged": 0o755, "usr/bin/bridge-shim": 0o755, "usr/lib/systemd/user/bridged.service": 0o644,
		"usr/lib/systemd/user/bridged.socket": 0o644, "usr/share/man/man1/bridged.1": 0o644, "usr/share/man/man1/bridged-servers-test.1": 0o644,
		"usr/share/man/man1/bridge-shim.1":              0o644,
		"usr/share/bash-completion/completions/bridged": 0o644, "usr/share/zsh/site-functions/_bridged": 0o644,
		"usr/share/fish/vendor_completions.d/bridged.fish": 0o644,
	} {
		info, err := os.Stat(filepath.Join(dest, path))
		if err != nil || info.Mode().Perm() != want || info.Size() == 0 {
			t.Errorf("%s: got %v, %v", path, info, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dest, "usr/lib/systemd/user/bridged.service"))
	if err != nil || !strings.Contains(string(text), "ExecStart=/usr/bin/bridged serve") {
		t.Errorf("the service: %s, %v", text, err)
	}
	if err := i.uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	if err := filepath.WalkDir(dest, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	}); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestHiddenCommandsHaveNoManPage(t *testing.T) {
	pages, err := manPages(rootCommand(), "/m")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range pages {
		names = append(names, filepath.Base(p.path))
	}
	if slices.Contains(names, "bridged-reap.1") || !slices.Contains(names, "bridged-serve.1") {
		t.Errorf("pages: %v", names)
	}
}

func TestUnitsGoWhereSystemdLooks(t *testing.T) {
	for _, row := range []struct {
		prefix string
		env    map[string]string
		want   string
	}{
		{"/usr", nil, "/usr/lib/systemd/user"},
		{"/usr/local", nil, "/usr/local/lib/systemd/user"},
		{"/home/somebody/.local", nil, "/home/somebody/.local/share/systemd/user"},
		{"/home/somebody/opt/x", nil, "/home/somebody/.local/share/systemd/user"},
		{"/home/somebody/opt/x", map[string]string{"XDG_DATA_HOME": "/data"}, "/data/systemd/user"},
		{"/home/somebodyelse", nil, "/home/somebodyelse/lib/systemd/user"},
	} {
		l, err := layoutAt(row.prefix, func(name string) string {
			if name == "HOME" {
				return "/home/somebody"
			}
			return row.env[name]
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row.want, l.units); diff != "" {
			t.Errorf("%s: %s", row.prefix, diff)
		}
	}
	if _, err := layoutAt("here", os.Getenv); err == nil {
		t.Error("a prefix that is relative was taken")
	}
}

func TestWithoutSystemdInstallSaysHowTheDaemonStarts(t *testing.T) {
	var out bytes.Buffer
	i := testInstaller(t, installFlags{prefix: t.TempDir()}, &out)
	if err := i.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "Nothing was started: no systemd user manager answers") {
		t.Errorf("got %s", text)
	}
}
