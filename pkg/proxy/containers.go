package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/runtime"
)

// Containers is how a [Proxy] makes the containers of servers. Where Engine is
// nil there are none.
type Containers struct {
	// Engine returns the container engine to use, or says why there is none.
	Engine func(ctx context.Context) (runtime.Engine, error)
	// Lost is told of an engine that does not answer any more, and returns the
	// error for those who wanted to use it; may be nil.
	Lost func(engine runtime.Engine, err error) error
	// Abandon takes a container that could not be removed; may be nil.
	Abandon func(id runtime.ID)
	// Labels are on every container, beside [runtime.LabelManaged] and
	// [runtime.LabelServer].
	Labels map[string]string
}

// lost prefers what is said of an engine that is gone.
func (c Containers) lost(engine runtime.Engine, err error) error {
	if c.Lost == nil || !errors.Is(err, runtime.ErrUnreachable) {
		return err
	}
	return c.Lost(engine, err)
}

// enclose resolves a target that runs in a container. Two sessions share it
// when the containers would be the same: their own environments and folders
// count only as far as they are in it.
func (s *Session) enclose(t *target, whole discovery.Server) error {
	text, err := json.Marshal(t.box)
	if err != nil {
		return fmt.Errorf("encoding its container: %w", err)
	}
	env := maps.Clone(t.box.Spec.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, whole.Env)
	t.mask = masker(env)
	whole.Env, whole.Unset, whole.EnvFile, whole.Cwd = nil, nil, "", ""
	t.whole = whole
	meant := whole
	meant.Command, meant.Args = "", []string{string(text)}
	s.assign(t, meant)
	return nil
}

// connectContainer starts the container that the server runs in.
func (b *backend) connectContainer(ctx context.Context) (link, error) {
	for _, note := range b.box.Notes {
		b.log.Info().Msg(note)
	}
	engine, err := b.engine(ctx)
	if err != nil {
		return link{}, err
	}
	c, err := b.makeContainer(ctx, engine)
	if err != nil {
		return link{}, b.proxy.opts.Containers.lost(engine, err)
	}
	return stdioLink(b.name, b.mask, c, &b.proxy.opts), nil
}

func (b *backend) engine(ctx context.Context) (runtime.Engine, error) {
	find := b.proxy.opts.Containers.Engine
	if find == nil {
		return nil, errors.New("it runs in a container, and no container engine is configured")
	}
	engine, err := find(ctx)
	if err != nil {
		return nil, fmt.Errorf("it runs in a container, and there is no container engine to make it with: %w", err)
	}
	return engine, nil
}

// makeContainer makes and starts the container, with its image.
func (b *backend) makeContainer(ctx context.Context, engine runtime.Engine) (*container, error) {
	spec := b.box.Spec
	image, err := b.proxy.fetchImage(ctx, engine, b.box)
	if err != nil {
		return nil, err
	}
	spec.Image, spec.Name = image, containerName(spec.Name, b.name)
	spec.Labels = b.labels()
	id, err := createServer(ctx, engine, spec)
	if err != nil {
		return nil, fmt.Errorf("making its container of image %s: %w", image, err)
	}
	c := &container{
		engine: engine, id: id, name: spec.Name, memory: spec.WithDefaults().MemoryBytes, signal: b.box.StopSignal, grace: b.box.StopGrace,
		stderr: &tail{}, abandon: func(runtime.ID) {}, log: b.log, ended: make(chan struct{}), silent: make(chan struct{}),
	}
	if abandon := b.proxy.opts.Containers.Abandon; abandon != nil {
		c.abandon = abandon
	}
	if err := c.open(ctx); err != nil {
		c.stop(0, 0)
		return nil, fmt.Errorf("starting its container of image %s: %w", image, err)
	}
	return c, nil
}

// labels are those of the definition, and over them ours, by which the
// container is found.
func (b *backend) labels() map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, b.box.Spec.Labels)
	maps.Copy(labels, b.proxy.opts.Containers.Labels)
	labels[runtime.LabelManaged] = "true"
	labels[runtime.LabelServer] = clip(b.name, maxName)
	return labels
}

// createServer makes a container. What the engine made and nobody waits for any
// more is removed by the name, which is nobody else's.
func createServer(ctx context.Context, engine runtime.Engine, spec runtime.ServerSpec) (runtime.ID, error) {
	alone, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	id, err := engine.CreateServer(alone, spec)
	if err == nil {
		return id, nil
	}
	if _, refused := errors.AsType[*runtime.EngineError](err); !refused {
		again, cancel := context.WithTimeout(context.Background(), removeTimeout)
		defer cancel()
		_ = engine.Remove(again, runtime.ID(spec.Name)) // it may not be there, or the engine
	}
	return "", err
}

// containerName is the definition's own name or the server's, with an end that
// makes it nobody else's: the same definition may have several containers, one
// of which is being removed.
func containerName(given, server string) string {
	base := given
	if base == "" {
		base = "bridged-" + strings.Map(nameRune, server)
	}
	const end = 1 + 8
	return base[:min(len(base), runtime.MaxServerName-end)] + "-" + randomName()[:8]
}

// nameRune replaces what a container's name may not have.
func nameRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
		return r
	}
	return '-'
}
