package main

import (
	"context"
	"os"
	goruntime "runtime"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/docker"
	"github.com/bridged/bridged/pkg/runtime/podman"
)

// findEngine looks for the engine that the configuration and the environment
// name, or else for one at the usual places.
func findEngine(ctx context.Context, c *config, log zerolog.Logger) (runtime.Engine, error) {
	places, err := runtime.Candidates(os.Getenv, runtime.DetectOptions{
		Runtime: string(c.Engine.Runtime), UID: os.Getuid(), GOOS: goruntime.GOOS,
	})
	if err != nil {
		return nil, err
	}
	log.Debug().Int("places", len(places)).Msg("look for a container engine")
	return runtime.Detect(ctx, places, map[string]runtime.DialFunc{
		runtime.Podman: podman.Dial, runtime.Docker: docker.Dial,
	})
}
