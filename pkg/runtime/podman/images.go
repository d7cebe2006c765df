package podman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/images"

	"github.com/bridged/bridged/pkg/runtime"
)

// Image implements [runtime.Engine].
func (e *Engine) Image(ctx context.Context, ref string) (runtime.Image, error) {
	img, err := images.GetImage(e.with(ctx), ref, nil)
	if err != nil {
		return runtime.Image{}, engineError(ctx, "image", err)
	}
	out := runtime.Image{ID: digest(img.ID), Refs: img.RepoTags, Size: img.Size, Labels: img.Labels}
	if img.Created != nil {
		out.Created = *img.Created
	}
	return out, nil
}

// Images implements [runtime.Engine].
func (e *Engine) Images(ctx context.Context) ([]runtime.Image, error) {
	f := map[string][]string{"label": {runtime.LabelImage + "=true"}}
	list, err := images.List(e.with(ctx), new(images.ListOptions).WithFilters(f))
	if err != nil {
		return nil, engineError(ctx, "images", err)
	}
	out := make([]runtime.Image, 0, len(list))
	for _, img := range list {
		out = append(out, runtime.Image{
			ID: digest(img.ID), Refs: img.RepoTags, Size: img.Size,
			Created: time.Unix(img.Created, 0), Labels: img.Labels,
		})
	}
	return out, nil
}

// digest adds the algorithm, which Podman leaves out.
func digest(id string) string {
	if strings.Contains(id, ":") {
		return id
	}
	return "sha256:" + id
}

// Pull implements [runtime.Engine].
func (e *Engine) Pull(ctx context.Context, ref, platform string, progress runtime.Progress) error {
	opts := new(images.PullOptions).WithProgressWriter(&steps{progress: progress})
	if system, arch, variant := (runtime.ServerSpec{Platform: platform}).PlatformParts(); platform != "" {
		opts = opts.WithOS(system).WithArch(arch).WithVariant(variant)
	}
	_, err := images.Pull(e.with(ctx), ref, opts)
	return engineError(ctx, "pull", err)
}

// Build implements [runtime.Engine]. The bindings' own call wants the context
// on this machine's disk; the service takes it as a tar.
func (e *Engine) Build(ctx context.Context, ref string, contextTar io.Reader, progress runtime.Progress) error {
	query := url.Values{"t": {ref}, "dockerfile": {"Containerfile"}, "rm": {"true"}, "forcerm": {"true"}}
	headers := http.Header{"Content-Type": {"application/x-tar"}}
	resp, err := e.client.DoRequest(e.with(ctx), runtime.Upload(contextTar, progress), http.MethodPost, "/build", query, headers)
	if err != nil {
		return engineError(ctx, "build", err)
	}
	defer resp.Body.Close()
	if !resp.IsSuccess() {
		return engineError(ctx, "build", resp.Process(nil))
	}
	return followBuild(ctx, resp, progress)
}

// followBuild reads the build's reports to their end. The build has failed if
// one of them says so, whatever the HTTP status was.
func followBuild(ctx context.Context, resp *bindings.APIResponse, progress runtime.Progress) error {
	out := &steps{progress: progress}
	for dec := json.NewDecoder(resp.Body); ; {
		var r struct{ Stream, Error string }
		err := dec.Decode(&r)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return engineError(ctx, "build", err)
		case r.Error != "":
			return &runtime.EngineError{Op: "build", Msg: r.Error}
		}
		_, _ = io.WriteString(out, r.Stream) // it can't fail
	}
}

// Import implements [runtime.Engine].
func (e *Engine) Import(ctx context.Context, ref string, rootfsTar io.Reader, changes []string, progress runtime.Progress) error {
	opts := new(images.ImportOptions).WithReference(ref).WithChanges(changes)
	_, err := images.Import(e.with(ctx), runtime.Upload(rootfsTar, progress), opts)
	return engineError(ctx, "import", err)
}

// maxStep bounds a line of progress.
const maxStep = 4 << 10

// steps is a writer that makes a step of progress of each line.
type steps struct {
	progress runtime.Progress
	line     []byte
}

func (s *steps) Write(b []byte) (int, error) {
	s.line = append(s.line, b...)
	for {
		line, rest, ok := bytes.Cut(s.line, []byte("\n"))
		if !ok && len(line) < maxStep {
			return len(b), nil
		}
		if step := strings.TrimSpace(string(line)); step != "" && s.progress != nil {
			s.progress(step, 0, 0)
		}
		s.line = append(s.line[:0], rest...)
	}
}
