// Package bridged_test freezes how the packages of this module hang together.
package bridged_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/bridged/bridged/"

// allowed lists every import between the product's packages. A new arrow is a
// design change: add it here in the same commit, with the reason in its message.
// Packages under integration may use all of these, and none may use them.
var allowed = map[string]string{
	"cmd/bridge-shim":         "",
	"cmd/bridged":             "images pkg/audit pkg/bridge pkg/discovery pkg/memory pkg/ops pkg/policy pkg/proxy pkg/register pkg/runtime pkg/runtime/docker pkg/runtime/podman pkg/sandbox pkg/systemd pkg/tracing",
	"images":                  "",
	"pkg/audit":               "",
	"pkg/bridge":              "pkg/memory pkg/proxy pkg/sandbox pkg/tokens pkg/toon pkg/tracing",
	"pkg/discovery":           "pkg/meaning",
	"pkg/meaning":             "",
	"pkg/memory":              "",
	"pkg/ops":                 "",
	"pkg/policy":              "",
	"pkg/proxy":               "pkg/discovery pkg/policy pkg/runtime pkg/runtime/commandline pkg/tracing",
	"pkg/proxy/oauthtest":     "",
	"pkg/register":            "",
	"pkg/runtime":             "",
	"pkg/runtime/commandline": "pkg/runtime",
	"pkg/runtime/docker":      "pkg/runtime",
	"pkg/runtime/enginetest":  "pkg/runtime",
	"pkg/runtime/podman":      "pkg/runtime",
	"pkg/sandbox":             "pkg/runtime pkg/tracing",
	"pkg/systemd":             "",
	"pkg/tokens":              "",
	"pkg/toon":                "",
	"pkg/tracing":             "",
}

// sole names libraries that have one importer each, tests included.
var sole = map[string]string{
	"github.com/containers/podman/": "pkg/runtime/podman",
	"github.com/docker/cli/":        "pkg/runtime/commandline",
	"github.com/docker/docker/":     "pkg/runtime/docker",
}

// starters are the packages that may start programs: the shim its daemon,
// `bridged run` the shim, the proxy MCP servers, and the engine without
// containers, which serves tests, a process for each container.
var starters = []string{"cmd/bridge-shim", "cmd/bridged", "pkg/proxy", "pkg/runtime/enginetest"}

func TestImportsFollowTheArrows(t *testing.T) {
	for _, p := range packages(t) {
		if !p.product() {
			continue
		}
		row, ok := allowed[p.path()]
		if !ok {
			t.Errorf("%s is not in the list of arrows", p.path())
			continue
		}
		arrows := strings.Fields(row)
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if ours && !slices.Contains(arrows, to) {
				t.Errorf("%s imports %s: that arrow is not in the design", p.path(), to)
			}
		}
	}
}

func TestEngineLibrariesHaveOneImporter(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for library, owner := range sole {
				if strings.HasPrefix(imp, library) && p.path() != owner {
					t.Errorf("%s imports %s: only %s may", p.path(), imp, owner)
				}
			}
		}
	}
}

func TestShimImportsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range packages(t) {
		if p.path() != "cmd/bridge-shim" {
			continue
		}
		for _, imp := range p.Imports {
			if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") {
				t.Errorf("the shim imports %s", imp)
			}
		}
		return
	}
	t.Error("there is no cmd/bridge-shim")
}

// Engines are driven over their sockets: no file of the product that may start
// programs names an engine's command.
func TestNoEngineCommandIsStarted(t *testing.T) {
	for _, p := range packages(t) {
		if !p.product() || !slices.Contains(p.Imports, "os/exec") {
			continue
		}
		if !slices.Contains(starters, p.path()) {
			t.Errorf("%s imports os/exec: only %v may start programs", p.path(), starters)
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(p.Dir + "/" + file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), `"os/exec"`) {
				continue
			}
			for _, command := range []string{`"podman"`, `"docker"`, `"nerdctl"`, `"buildah"`} {
				if strings.Contains(string(text), command) {
					t.Errorf("%s/%s starts programs and names %s", p.path(), file, command)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItGives(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its comment begins %q, want %q", p.path(), p.Doc, want)
		}
	}
}

// A goPackage is what go list says of a package.
type goPackage struct {
	ImportPath, Name, Dir, Doc         string
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
}

// path returns the package's folder in the module.
func (p goPackage) path() string { return strings.TrimPrefix(p.ImportPath, module) }

// product reports whether the package is more than tests and their helpers.
func (p goPackage) product() bool {
	return len(p.GoFiles) > 0 && !strings.HasPrefix(p.path(), "integration")
}

// packages lists the module's packages, integration tests included.
func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags=integration", "-json", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	var list []goPackage
	for d := json.NewDecoder(out); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("listing packages: %v", err)
		}
		list = append(list, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	if len(list) < 5 {
		t.Fatalf("go list found %d packages, and there are more", len(list))
	}
	slices.SortFunc(list, func(a, b goPackage) int { return cmp.Compare(a.ImportPath, b.ImportPath) })
	return list
}
