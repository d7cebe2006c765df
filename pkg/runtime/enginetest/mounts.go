package enginetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bridged/bridged/pkg/runtime"
)

// mountsProgram looks at a folder and a file that are mounted, and prints what
// it finds as one JSON object.
const mountsProgram = `
import json, os, sys
folder, file = sys.argv[1:]
def told(do, *args):
    try: return do(*args)
    except OSError as e: return "error"
def write(path):
    with open(path, "w") as f: f.write("x")
    return "written"
def read(path):
    with open(path) as f: return f.read()
rows = [line.split() for line in open("/proc/self/mountinfo")]
print(json.dumps({
    "text": {p: told(read, p) for p in (folder + "/table.csv", folder + "/deep/er.txt", file)},
    "out": told(read, folder + "/out"),
    "changes": [
        told(write, folder + "/new"), told(write, folder + "/table.csv"), told(write, file),
        told(os.unlink, folder + "/table.csv"), told(os.chmod, folder + "/table.csv", 0o777), told(os.rename, file, file + "2"),
        told(write, folder + "/public/new"),
    ],
    "options": {t: [r[5].split(",") for r in rows if r[4] == t] for t in (folder, file)},
    "propagation": [f for r in rows if r[4] in (folder, file) for f in r[6:r.index("-")]],
}))
`

// A mountsView is what mountsProgram prints.
type mountsView struct {
	Text        map[string]string
	Out         string
	Changes     []string
	Options     map[string][][]string
	Propagation []string
}

func testMounts(l *lab, shared string) {
	dir := makeData(l, shared)
	spec := l.python(mountsProgram)
	spec.Mounts = []runtime.Mount{
		{Source: filepath.Join(dir, "data"), Target: "/mounts/data"},
		{Source: filepath.Join(dir, "one.txt"), Target: "/one.txt"},
	}
	spec.Cmd = append(spec.Cmd, "/mounts/data", "/one.txt")
	r := l.attach(l.create(spec))
	if err := l.e.Start(l.ctx, r.id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	var v mountsView
	text := r.rest()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		l.Fatalf("reading %q: %v; stderr: %s", text, err, r.stderr.String())
	}
	v.check(l)
	if got, err := os.ReadFile(filepath.Join(dir, "data", "table.csv")); err != nil || string(got) != "a,b" {
		l.Errorf("the source is %q, %v now", got, err)
	}
	testNoSource(l, filepath.Join(dir, "missing"))
	l.checkEmpty()
}

// makeData makes a folder and a file to mount, and beside them a secret, to
// which a symbolic link in the folder points.
func makeData(l *lab, shared string) string {
	l.Helper()
	dir := filepath.Join(shared, "mounts-"+l.label)
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	public := filepath.Join(dir, "data", "public")
	if err := os.MkdirAll(filepath.Join(dir, "data", "deep"), 0o755); err != nil {
		l.Fatal(err)
	}
	for name, text := range map[string]string{
		"secret": "secret", "one.txt": "one", "data/table.csv": "a,b", "data/deep/er.txt": "deeper",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			l.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "data", "out")); err != nil {
		l.Fatal(err)
	}
	if err := os.Mkdir(public, 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.Chmod(public, 0o777); err != nil { // so that nothing but ro is in the way
		l.Fatal(err)
	}
	return dir
}

func (v *mountsView) check(l *lab) {
	same(l, "what can be read", v.Text, map[string]string{
		"/mounts/data/table.csv": "a,b", "/mounts/data/deep/er.txt": "deeper", "/one.txt": "one",
	})
	same(l, "where a link out of the folder leads", v.Out, "error")
	same(l, "changes", v.Changes, slices.Repeat([]string{"error"}, 7))
	same(l, "propagation", v.Propagation, []string{})
	info, err := l.e.Info(l.ctx)
	if err != nil {
		l.Fatalf("Info: %v", err)
	}
	want := []string{"ro", "nosuid", "nodev"}
	if info.Name == "docker" {
		want = want[:1] // its API has no word for the others
	}
	for target, mounts := range v.Options {
		if len(mounts) != 1 {
			l.Errorf("%s is mounted %d times", target, len(mounts))
			continue
		}
		for _, o := range want {
			if !slices.Contains(mounts[0], o) {
				l.Errorf("%s is not %s: %v", target, o, mounts[0])
			}
		}
	}
}

// testNoSource wants a refusal that names the path: by Create or, as Podman
// does it, by Start.
func testNoSource(l *lab, path string) {
	l.Helper()
	spec := l.python("")
	spec.Mounts = []runtime.Mount{{Source: path, Target: "/data"}}
	id, err := l.e.Create(l.ctx, spec)
	if err == nil {
		err = l.e.Start(l.ctx, id)
		l.remove(id)
	}
	if !isRefusal(err) || !strings.Contains(err.Error(), path) {
		l.Errorf("a source that is not there: %v, want a refusal that names it", err)
	}
	if _, err := os.Stat(path); err == nil {
		l.Errorf("the engine made %s", path)
	}
}

func testMountWithoutSource(l *lab) { testNoSource(l, "/nonexistent/data") }
