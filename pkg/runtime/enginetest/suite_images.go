package enginetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bridged/bridged/pkg/runtime"
)

var imageBehaviours = []behaviour{
	{"an image says what it is", testImage},
	{"an imported file system is an image with labels", testImport},
	{"a broken tar is refused", testBadImport},
	{"a Containerfile is built", testBuild},
	{"a Containerfile that can't be built is told", testBadBuild},
	{"an unreachable registry is told", testPull},
}

func testImage(l *lab) {
	img, err := l.e.Image(l.ctx, l.image)
	if err != nil {
		l.Fatalf("Image: %v", err)
	}
	if !strings.HasPrefix(img.ID, "sha256:") || !slices.Contains(img.Refs, l.image) || img.Size <= 0 || img.Created.IsZero() {
		l.Errorf("image = %+v: a field is wrong", img)
	}
	all, err := l.e.Images(l.ctx)
	if err != nil {
		l.Fatalf("Images: %v", err)
	}
	same := func(other runtime.Image) bool {
		return other.ID == img.ID && other.Labels[runtime.LabelImage] == "true"
	}
	if !slices.ContainsFunc(all, same) {
		l.Errorf("Images does not list %s: %+v", img.ID, all)
	}
}

func testImport(l *lab) {
	const ref = "localhost/bridged-enginetest:import"
	var steps []string
	progress := func(step string, done, total int64) { steps = append(steps, fmt.Sprint(step, done, total)) }
	mark := "LABEL mark=" + l.label
	if err := l.e.Import(l.ctx, ref, archive("hello.txt", "hello"), []string{mark}, progress); err != nil {
		l.Fatalf("Import: %v", err)
	}
	l.checkMark(ref)
	if len(steps) == 0 {
		l.Errorf("Import reported no progress")
	}
}

func (l *lab) checkMark(ref string) {
	l.Helper()
	img, err := l.e.Image(l.ctx, ref)
	if err != nil {
		l.Fatalf("Image: %v", err)
	}
	if got := img.Labels["mark"]; got != l.label {
		l.Errorf("label = %q, want %q", got, l.label)
	}
}

func testBadImport(l *lab) {
	const ref = "localhost/bridged-enginetest:bad"
	if err := l.e.Import(l.ctx, ref, strings.NewReader(strings.Repeat("not a tar", 1000)), nil, nil); err == nil {
		l.Errorf("Import of garbage succeeded")
	}
}

func testBuild(l *lab) {
	const ref = "localhost/bridged-enginetest:build"
	recipe := fmt.Sprintf("FROM %s\nLABEL mark=%s\n", l.image, l.label)
	var steps int
	err := l.e.Build(l.ctx, ref, archive("Containerfile", recipe), func(string, int64, int64) { steps++ })
	if err != nil {
		l.Fatalf("Build: %v", err)
	}
	l.checkMark(ref)
	if steps == 0 {
		l.Errorf("Build reported no progress")
	}
}

func testBadBuild(l *lab) {
	const ref = "localhost/bridged-enginetest:bad"
	err := l.e.Build(l.ctx, ref, archive("README", "no recipe"), nil)
	if !isRefusal(err) {
		l.Errorf("Build without a Containerfile: %v, want a refusal", err)
	}
}

func testPull(l *lab) {
	// Nothing listens on port 1.
	err := l.e.Pull(l.ctx, "localhost:1/bridged/none:latest", "", nil)
	if !isRefusal(err) {
		l.Errorf("Pull from nowhere: %v, want a refusal", err)
	}
}

// archive is a tar of one file.
func archive(name, text string) io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	// Writing to memory does not fail.
	_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg})
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return &b
}
