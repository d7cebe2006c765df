package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestContextTarHoldsWhatTheContainerfileCopies(t *testing.T) {
	files := untar(t, ContextTar())
	copies := regexp.MustCompile(`(?m)^COPY (\S+) `).FindAllStringSubmatch(files["Containerfile"], -1)
	if len(copies) == 0 {
		t.Fatal("the Containerfile copies nothing, and the test knows better")
	}
	for _, c := range copies {
		if _, ok := files[c[1]]; !ok {
			t.Errorf("the Containerfile copies %s, and the context lacks it", c[1])
		}
	}
}

func TestContextTarIsTheSameEveryTime(t *testing.T) {
	first, err := io.ReadAll(ContextTar())
	if err != nil {
		t.Fatal(err)
	}
	second, err := io.ReadAll(ContextTar())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two build contexts differ")
	}
}

func TestRequirementsArePinned(t *testing.T) {
	pin := regexp.MustCompile(`^[a-z0-9_-]+==[0-9][0-9.]*$`)
	var names []string
	for line := range strings.Lines(string(recipe("requirements.txt"))) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !pin.MatchString(line) {
			t.Errorf("requirement %q is not pinned to one version", line)
		}
		name, _, _ := strings.Cut(line, "==")
		names = append(names, name)
	}
	want := []string{"numpy", "pandas", "scipy", "scikit-learn", "matplotlib", "pillow", "openpyxl", "pyarrow"}
	if diff := cmp.Diff(want, names[:min(len(want), len(names))]); diff != "" {
		t.Errorf("packages offered to agents (-want +got):\n%s", diff)
	}
}

func TestDebianScriptIsTheFileBesideUs(t *testing.T) {
	want, err := os.ReadFile("debian.sh")
	if err != nil {
		t.Fatal(err)
	}
	if got := DebianScript(); !bytes.Equal(got, want) {
		t.Error("the embedded script differs from debian.sh")
	}
}

// untar returns the files of a tar by name.
func untar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatalf("reading the build context: %v", err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatalf("reading %s: %v", h.Name, err)
		}
		files[h.Name] = string(text)
	}
}
