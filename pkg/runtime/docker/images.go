package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/bridged/bridged/pkg/runtime"
)

// Image implements [runtime.Engine].
func (e *Engine) Image(ctx context.Context, ref string) (runtime.Image, error) {
	img, err := e.client.ImageInspect(ctx, ref)
	if err != nil {
		return runtime.Image{}, engineError(ctx, "image", err)
	}
	// An engine that gives no time, as for an image built without one, gives
	// the zero time.
	created, _ := time.Parse(time.RFC3339Nano, img.Created)
	out := runtime.Image{ID: img.ID, Refs: img.RepoTags, Size: img.Size, Created: created}
	if img.Config != nil {
		out.Labels = img.Config.Labels
	}
	return out, nil
}

// Images implements [runtime.Engine].
func (e *Engine) Images(ctx context.Context) ([]runtime.Image, error) {
	f := filters.NewArgs(filters.Arg("label", runtime.LabelImage+"=true"))
	list, err := e.client.ImageList(ctx, image.ListOptions{Filters: f})
	if err != nil {
		return nil, engineError(ctx, "images", err)
	}
	images := make([]runtime.Image, 0, len(list))
	for _, img := range list {
		images = append(images, runtime.Image{
			ID: img.ID, Refs: img.RepoTags, Size: img.Size,
			Created: time.Unix(img.Created, 0), Labels: img.Labels,
		})
	}
	return images, nil
}

// Pull implements [runtime.Engine].
func (e *Engine) Pull(ctx context.Context, ref, platform string, progress runtime.Progress) error {
	body, err := e.client.ImagePull(ctx, ref, image.PullOptions{Platform: platform})
	if err != nil {
		return engineError(ctx, "pull", err)
	}
	return follow(ctx, "pull", body, progress)
}

// Build implements [runtime.Engine]. It uses the classic builder, which every
// engine has.
func (e *Engine) Build(ctx context.Context, ref string, contextTar io.Reader, progress runtime.Progress) error {
	r, err := e.client.ImageBuild(ctx, runtime.Upload(contextTar, progress), build.ImageBuildOptions{
		Tags:        []string{ref},
		Dockerfile:  "Containerfile",
		Version:     build.BuilderV1,
		Remove:      true,
		ForceRemove: true,
	})
	if err != nil {
		return engineError(ctx, "build", err)
	}
	return follow(ctx, "build", r.Body, progress)
}

// Import implements [runtime.Engine].
func (e *Engine) Import(ctx context.Context, ref string, rootfsTar io.Reader, changes []string, progress runtime.Progress) error {
	src := image.ImportSource{Source: runtime.Upload(rootfsTar, progress), SourceName: "-"}
	body, err := e.client.ImageImport(ctx, src, ref, image.ImportOptions{Changes: changes})
	if err != nil {
		return engineError(ctx, "import", err)
	}
	return follow(ctx, "import", body, progress)
}

// A report is one line of the engine's account of a long operation.
type report struct {
	Stream   string
	Status   string
	ID       string
	Error    string
	Progress struct {
		Current int64
		Total   int64
	} `json:"progressDetail"`
}

// follow reads the reports to their end and closes body. The operation has
// failed if one of them says so, whatever the HTTP status was.
func follow(ctx context.Context, op string, body io.ReadCloser, progress runtime.Progress) error {
	defer body.Close()
	for dec := json.NewDecoder(body); ; {
		var r report
		err := dec.Decode(&r)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return engineError(ctx, op, err)
		case r.Error != "":
			return &runtime.EngineError{Op: op, Msg: r.Error}
		}
		if step := r.step(); step != "" && progress != nil {
			progress(step, r.Progress.Current, r.Progress.Total)
		}
	}
}

func (r report) step() string {
	words := []string{r.Status, r.ID, r.Stream}
	return strings.TrimSpace(strings.Join(words, " "))
}
