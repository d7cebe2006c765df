package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/commandline"
)

// pullTimeout bounds the fetching of an image. It goes on when the start that
// wanted it has given up, so that a later one finds it.
const pullTimeout = 30 * time.Minute

// Pulls are the images that are being fetched. Several servers of one image
// wait for one of them. The zero value is ready.
type pulls struct {
	mu    sync.Mutex // guards under
	under map[string]*pull
}

// A pull is one image on its way.
type pull struct {
	done chan struct{} // closed when it is over
	err  error         // set before done is closed

	mu   sync.Mutex // guards step
	step string
}

func (p *pull) report(step string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = clip(plainText(step), 100)
	if total > 0 {
		p.step += fmt.Sprintf(" (%d of %d MB)", done/1e6, total/1e6)
	}
}

func (p *pull) progress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.step
}

// fetchImage sees to it that the engine has the image of a container, and
// returns the name under which it has it.
func (p *Proxy) fetchImage(ctx context.Context, engine runtime.Engine, box *commandline.Run) (string, error) {
	ref, local := box.Spec.Image, strings.HasPrefix(box.Spec.Image, "localhost/")
	if box.Pull != "always" || local {
		found, err := findImage(ctx, engine, ref, box.Remote)
		if found != "" || err != nil {
			return found, err
		}
	}
	switch {
	case box.Pull == "never":
		return "", fmt.Errorf("the engine does not have its image %s, and --pull says that it is not to be fetched: make it, or load it into the engine", ref)
	case local:
		return "", fmt.Errorf("the engine does not have its image %s, which no registry has either: make it, or load it into the engine", ref)
	}
	return box.Remote, p.pullImage(ctx, engine, box.Remote, box.Spec.Platform)
}

// findImage returns the first of an image's names under which the engine has it,
// and none when it does not.
func findImage(ctx context.Context, engine runtime.Engine, names ...string) (string, error) {
	for _, ref := range names {
		_, err := engine.Image(ctx, ref)
		if err == nil {
			return ref, nil
		}
		if !errors.Is(err, runtime.ErrNoImage) {
			return "", fmt.Errorf("looking for its image %s: %w", ref, err)
		}
	}
	return "", nil
}

// pullImage fetches an image, or waits for who does.
func (p *Proxy) pullImage(ctx context.Context, engine runtime.Engine, ref, platform string) error {
	one := p.pulls.join(p, engine, ref, platform)
	if one == nil {
		return ErrClosed
	}
	select {
	case <-one.done:
		if one.err != nil {
			return fmt.Errorf("the engine does not have its image %s and cannot fetch it: %w; "+
				"correct the name, see that its registry can be reached, or load the image into the engine", ref, one.err)
		}
		return nil
	case <-ctx.Done():
		if cause := context.Cause(ctx); errors.Is(cause, ErrClosed) {
			return cause
		}
		return fmt.Errorf("its image %s is still being fetched (%s); that goes on, try again in a while", ref, one.progress())
	}
}

// join returns the pull that is under way, or begins one; nil after Close.
func (s *pulls) join(p *Proxy, engine runtime.Engine, ref, platform string) *pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := ref + " " + platform // a name has no space
	if one, ok := s.under[key]; ok {
		return one
	}
	one := &pull{done: make(chan struct{}), step: "beginning"}
	run := func() { // ends with the pull, or with the proxy
		one.err = p.pullNow(engine, ref, platform, one.report)
		s.mu.Lock()
		delete(s.under, key)
		s.mu.Unlock()
		close(one.done)
	}
	if !p.run(run) {
		return nil
	}
	if s.under == nil {
		s.under = map[string]*pull{}
	}
	s.under[key] = one
	return one
}

// progress says how far the fetching of an image is, and is empty when nobody
// fetches it.
func (s *pulls) progress(ref, platform string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.under[ref+" "+platform]; ok {
		return one.progress()
	}
	return ""
}

func (p *Proxy) pullNow(engine runtime.Engine, ref, platform string, progress runtime.Progress) error {
	ctx, cancel := context.WithTimeoutCause(p.ctx, pullTimeout, fmt.Errorf("it took longer than %s", pullTimeout))
	defer cancel()
	p.opts.Logger.Info().Str("image", ref).Msg("pull image of server")
	began := time.Now()
	err := engine.Pull(ctx, ref, platform, progress)
	if err != nil {
		p.opts.Logger.Warn().Str("image", ref).Err(err).Msg("pull image of server")
		return err
	}
	p.opts.Logger.Info().Str("image", ref).Dur("took", time.Since(began)).Msg("pulled image of server")
	return nil
}
