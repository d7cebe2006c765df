//go:build integration

package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	slimImage = "localhost/bridged-test:slim"
	fullImage = "localhost/bridged-test:full"

	// labelTar says which tar an image was made from.
	labelTar = "io.bridged.test.tar"
)

func (r *Running) importImage(ctx context.Context) error {
	r.Image = slimImage
	return r.ensure(ctx, slimImage, filepath.Join(Cache(), "slim.tar"))
}

// FullImage gives the engine the image that agents get, with numpy, pandas and
// the like, and returns its name. The first time takes half a minute.
func (r *Running) FullImage(ctx context.Context) (string, error) {
	err := r.ensure(ctx, fullImage, filepath.Join(Cache(), "full.tar"))
	return fullImage, err
}

// ensure imports the tar unless the engine has it already.
func (r *Running) ensure(ctx context.Context, ref, tar string) error {
	f, err := os.Open(tar)
	if err != nil {
		return fmt.Errorf("%w: run integration/setup.sh first", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano())
	img, err := r.Engine.Image(ctx, ref)
	if err == nil && img.Labels[labelTar] == mark {
		return nil
	}
	if err != nil && !errors.Is(err, runtime.ErrNoImage) {
		return err
	}
	changes := []string{"LABEL " + labelTar + "=" + mark, "LABEL " + runtime.LabelImage + "=true"}
	if err := r.Engine.Import(ctx, ref, f, changes, nil); err != nil {
		return fmt.Errorf("importing %s: %w", tar, err)
	}
	return nil
}
