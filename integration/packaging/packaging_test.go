//go:build integration

package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What the tests release, and when it was committed.
const (
	tag   = "v1.2.3-rc.1-4-gabc1234"
	epoch = 1_700_000_000
)

// names of what dist makes for this machine.
var (
	archive = "bridged_1.2.3-rc.1-4-gabc1234_linux_" + runtime.GOARCH
	debian  = "bridged_1.2.3~rc.1+4.gabc1234_" + runtime.GOARCH + ".deb"
)

// run runs a program in a folder; it must succeed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// tree copies the files of this repository, those that are not committed yet
// too, to a new folder of that name.
func tree(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	root := strings.TrimSpace(run(t, ".", nil, "git", "rev-parse", "--show-toplevel"))
	list := strings.Split(run(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00")
	for _, file := range list {
		info, err := os.Stat(filepath.Join(root, file))
		if file == "" || errors.Is(err, fs.ErrNotExist) { // removed, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// dist makes a release of a copy of this repository, and returns its folder.
func dist(t *testing.T, folder, umask string, env ...string) string {
	t.Helper()
	dir := tree(t, folder)
	out := filepath.Join(dir, "out", "dist")
	run(t, dir, env, "sh", "-c", "umask "+umask+` && exec make dist "$@"`, "sh",
		"VERSION="+tag, "SOURCE_DATE_EPOCH=1700000000", "PLATFORMS=linux/"+runtime.GOARCH)
	return out
}

// TestRelease makes a release twice and uses what came out.
func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Fatal("releases are made on Linux")
	}
	out := dist(t, "one", "022")
	t.Run("another folder, user's settings and day make the same bytes", func(t *testing.T) {
		again := dist(t, "a folder of another name", "077", "TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8")
		var sums []string
		for _, dir := range []string{out, again} {
			text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
			if err != nil {
				t.Fatal(err)
			}
			sums = append(sums, string(text))
		}
		if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
			t.Error(diff)
		}
		for _, name := range []string{archive + ".tar.gz", debian} {
			if !strings.Contains(sums[0], "  "+name+"\n") {
				t.Errorf("no %s in\n%s", name, sums[0])
			}
		}
	})
	run(t, out, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	t.Run("archive", func(t *testing.T) { useArchive(t, filepath.Join(out, archive+".tar.gz")) })
	t.Run("Debian package", func(t *testing.T) { usePackage(t, filepath.Join(out, debian)) })
}

// useArchive looks at an archive's members, and installs from it.
func useArchive(t *testing.T, path string) {
	var names []string
	for _, h := range members(t, path) {
		if h.Uid != 0 || h.Gid != 0 || h.Uname+h.Gname != "" || !h.ModTime.Equal(time.Unix(epoch, 0)) {
			t.Errorf("%s: owned by %d:%d (%q, %q), of %s", h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime)
		}
		if mode := h.FileInfo().Mode().Perm(); mode != 0o644 && mode != 0o755 {
			t.Errorf("%s: mode %o", h.Name, mode)
		}
		names = append(names, strings.TrimPrefix(h.Name, archive+"/"))
	}
	for _, want := range []string{
		"LICENSE", "THIRD_PARTY_LICENSES", "README.md", "CHANGELOG.md", "SECURITY.md", "docs/security.md",
		"bin/bridged", "bin/bridge-shim", "share/man/man1/bridged.1", "share/man/man1/bridge-shim.1",
		"share/bash-completion/completions/bridged", "share/zsh/site-functions/_bridged",
		"share/fish/vendor_completions.d/bridged.fish", "lib/systemd/user/bridged.service", "lib/systemd/user/bridged.socket",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s", want)
		}
	}
	dir := t.TempDir()
	run(t, dir, nil, "tar", "-xf", path)
	program := filepath.Join(dir, archive, "bin", "bridged")
	if got := run(t, dir, nil, program, "version"); !strings.HasPrefix(got, "bridged "+tag+" ") {
		t.Errorf("version: %s", got)
	}
	run(t, dir, nil, program, "install", "--prefix", "/opt/bridged", "--destdir", filepath.Join(dir, "dest"))
	if got := run(t, dir, nil, filepath.Join(dir, "dest/opt/bridged/bin/bridge-shim"), "--version"); got != "bridge-shim "+tag+"\n" {
		t.Errorf("the installed shim: %s", got)
	}
}

// members lists what an archive holds; it must have been packed without a
// name and a time.
func members(t *testing.T, path string) []*tar.Header {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if z.Name != "" || !z.ModTime.IsZero() {
		t.Errorf("gzip: name %q, time %s", z.Name, z.ModTime)
	}
	var list []*tar.Header
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, h)
	}
}

// usePackage has Debian's own tools judge, install, use and purge a package.
func usePackage(t *testing.T, path string) {
	root := t.TempDir()
	t.Log(run(t, root, nil, "lintian", "--allow-root", "--fail-on", "error", path)) // warnings, if any
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	before := files(t, root)
	dpkg(t, root, "--install", path)
	for _, file := range []string{
		"usr/bin/bridge-shim", "usr/lib/systemd/user/bridged.socket", "usr/share/man/man1/bridged.1.gz", "usr/share/man/man1/bridge-shim.1.gz",
		"usr/share/bash-completion/completions/bridged", "usr/share/zsh/vendor-completions/_bridged",
		"usr/share/fish/vendor_completions.d/bridged.fish", "usr/share/doc/bridged/copyright", "usr/share/doc/bridged/docs/security.md",
	} {
		info, err := os.Stat(filepath.Join(root, file))
		if err != nil {
			t.Error(err)
		} else if !info.ModTime().Equal(time.Unix(epoch, 0)) {
			t.Errorf("%s is of %s", file, info.ModTime())
		}
	}
	if got := run(t, root, nil, filepath.Join(root, "usr/bin/bridged"), "version"); !strings.HasPrefix(got, "bridged "+tag+" ") {
		t.Errorf("version: %s", got)
	}
	// The units name /usr/bin/bridged and man:bridged(1), which must be there.
	run(t, root, []string{"ROOT=" + root, "XDG_RUNTIME_DIR=" + t.TempDir()}, "unshare", "--mount", "sh", "-ec", `
		mount -t overlay -o lowerdir="$ROOT/usr:/usr" overlay /usr
		exec systemd-analyze --user --man=no verify /usr/lib/systemd/user/bridged.service /usr/lib/systemd/user/bridged.socket`)
	dpkg(t, root, "--purge", "bridged")
	if diff := cmp.Diff(before, files(t, root)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

// dpkg works on the system below root.
func dpkg(t *testing.T, root string, args ...string) {
	t.Helper()
	run(t, root, []string{"LC_ALL=C"}, "dpkg", append([]string{"--root=" + root, "--log=/dev/null"}, args...)...)
}

// files lists what is below root, dpkg's own notes apart.
func files(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasSuffix(path, "/var/lib/dpkg") {
			return filepath.SkipDir
		}
		list = append(list, strings.TrimPrefix(path, root))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
