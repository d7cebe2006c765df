package enginetest

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// AddImage gives the engine an image.
func (m *Memory) AddImage(ref string, labels map[string]string) {
	m.addImage(ref, labels, 1<<20)
}

// RemoveImage takes an image away; containers made from it live on.
func (m *Memory) RemoveImage(ref string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.images, ref)
}

// Image implements [runtime.Engine].
func (m *Memory) Image(ctx context.Context, ref string) (runtime.Image, error) {
	if err := m.enter(ctx, "image"); err != nil {
		return runtime.Image{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	img, ok := m.images[ref]
	if !ok {
		return runtime.Image{}, noImage("image", ref)
	}
	return img, nil
}

// Images implements [runtime.Engine].
func (m *Memory) Images(ctx context.Context) ([]runtime.Image, error) {
	if err := m.enter(ctx, "images"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []runtime.Image
	for _, img := range m.images {
		if img.Labels[runtime.LabelImage] == "true" {
			list = append(list, img)
		}
	}
	return list, nil
}

// Pull implements [runtime.Engine]. This engine has no registry, so it
// succeeds for images that are there and fails for all others.
func (m *Memory) Pull(ctx context.Context, ref, _ string, progress runtime.Progress) error {
	if err := m.enter(ctx, "pull"); err != nil {
		return err
	}
	report(progress, "pulling "+ref, 0, 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.images[ref]; !ok {
		return refusal("pull", 404, "manifest unknown: %s", ref)
	}
	return nil
}

// Build implements [runtime.Engine]. Of the Containerfile only LABEL counts.
func (m *Memory) Build(ctx context.Context, ref string, contextTar io.Reader, progress runtime.Progress) error {
	if err := m.enter(ctx, "build"); err != nil {
		return err
	}
	var recipe []byte
	size, err := readTar(contextTar, func(name string, r io.Reader) error {
		if name != "Containerfile" && name != "Dockerfile" {
			return nil
		}
		var err error
		recipe, err = io.ReadAll(io.LimitReader(r, 1<<20))
		return err
	})
	if err != nil {
		return refusal("build", 400, "reading the context: %v", err)
	}
	if recipe == nil {
		return refusal("build", 400, "no Containerfile in the context")
	}
	report(progress, "building "+ref, size, size)
	m.addImage(ref, labelsOf(strings.Split(string(recipe), "\n")), size)
	return nil
}

// Import implements [runtime.Engine]. It reads the tar and keeps its size.
func (m *Memory) Import(ctx context.Context, ref string, rootfsTar io.Reader, changes []string, progress runtime.Progress) error {
	if err := m.enter(ctx, "import"); err != nil {
		return err
	}
	size, err := readTar(rootfsTar, func(string, io.Reader) error { return nil })
	if err != nil {
		return refusal("import", 400, "reading the root file system: %v", err)
	}
	report(progress, "importing "+ref, size, size)
	m.addImage(ref, labelsOf(changes), size)
	return nil
}

func (m *Memory) addImage(ref string, labels map[string]string, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images[ref] = runtime.Image{
		ID: "sha256:" + string(newID()), Refs: []string{ref}, Labels: labels,
		Size: size, Created: time.Now(),
	}
}

// readTar calls visit for each file and returns the sum of their sizes.
func readTar(r io.Reader, visit func(name string, r io.Reader) error) (int64, error) {
	var size int64
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		size += h.Size
		if err := visit(path.Clean(h.Name), tr); err != nil {
			return 0, err
		}
	}
}

// labelsOf collects the labels of "LABEL name=value" lines.
func labelsOf(lines []string) map[string]string {
	labels := make(map[string]string)
	for _, line := range lines {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.EqualFold(word, "LABEL") {
			continue
		}
		if k, v, ok := strings.Cut(strings.TrimSpace(rest), "="); ok {
			labels[k] = strings.Trim(v, `"`)
		}
	}
	return labels
}

func report(progress runtime.Progress, step string, done, total int64) {
	if progress != nil {
		progress(step, done, total)
	}
}
