package runtime

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Names of the engines, as [Info] and [Candidate] have them.
const (
	Podman = "podman"
	Docker = "docker"
)

// dialTime bounds one try of [Detect]: a socket whose service is being
// started answers within a second or two.
const dialTime = 10 * time.Second

// ErrNoEngine means that no container engine was found. The error that wraps
// it names every place that was tried.
var ErrNoEngine = errors.New("no container engine found")

// A Candidate is a place where an engine may listen.
type Candidate struct {
	Engine   string // "podman" or "docker"; "" for whichever answers
	Endpoint string // a unix://, tcp:// or ssh:// URL
	Why      string // what named it, such as "DOCKER_HOST"

	// Explicit says that the user chose it. Where it fails, nothing that the
	// user did not choose is tried.
	Explicit bool
}

// A DetectOptions says where to look. The zero value looks at the environment
// and the usual sockets of a Linux user 0.
type DetectOptions struct {
	Runtime string // the configuration's choice, in the form of MCP_BRIDGE_RUNTIME
	UID     int    // of the user whose sockets are looked for
	GOOS    string // the operating system; "" means linux
}

// A DialFunc connects to an engine.
type DialFunc func(ctx context.Context, endpoint string) (Engine, error)

// Candidates lists the places to look for an engine, the first choice first:
// the configuration, MCP_BRIDGE_RUNTIME, CONTAINER_HOST, DOCKER_HOST, and the
// usual sockets, a user's own before the system's. A choice is "podman" or
// "docker", which keeps to that engine's places, or the URL or path of a
// socket, optionally with an engine and "=" before it.
//
// It looks at nothing but env, which is [os.Getenv] or a map's.
func Candidates(env func(string) string, opts DetectOptions) ([]Candidate, error) {
	usual := usualPlaces(env, opts)
	configured := "the configuration"
	if opts.Runtime == env("MCP_BRIDGE_RUNTIME") {
		configured = "MCP_BRIDGE_RUNTIME" // of which the configuration has it
	}
	for _, choice := range []struct{ value, why string }{
		{opts.Runtime, configured},
		{env("MCP_BRIDGE_RUNTIME"), "MCP_BRIDGE_RUNTIME"},
	} {
		value := strings.TrimSpace(choice.value)
		switch value {
		case "", "auto":
			continue
		case Podman, Docker:
			return only(value, choice.why, append(hosts(env), usual...)), nil
		}
		c, err := parseChoice(value, choice.why)
		if err != nil {
			return nil, err
		}
		return []Candidate{c}, nil
	}
	if h := hosts(env); len(h) > 0 {
		return h, nil
	}
	return usual, nil
}

// hosts are what the engines' own tools would use.
func hosts(env func(string) string) []Candidate {
	var list []Candidate
	if v := env("CONTAINER_HOST"); v != "" {
		list = append(list, Candidate{Engine: Podman, Endpoint: v, Why: "CONTAINER_HOST", Explicit: true})
	}
	if v := env("DOCKER_HOST"); v != "" {
		// People point Docker's tools to Podman with it.
		list = append(list, Candidate{Endpoint: v, Why: "DOCKER_HOST", Explicit: true})
	}
	return list
}

// only keeps what can be the named engine, and makes it explicit.
func only(engine, why string, places []Candidate) []Candidate {
	var list []Candidate
	for _, c := range places {
		if c.Engine != "" && c.Engine != engine {
			continue
		}
		c.Engine = engine
		c.Explicit = true
		c.Why = why + ", " + c.Why
		list = append(list, c)
	}
	return list
}

// parseChoice reads a socket's URL or path, with or without an engine.
func parseChoice(value, why string) (Candidate, error) {
	c := Candidate{Endpoint: value, Why: why, Explicit: true}
	for _, engine := range []string{Podman, Docker} {
		if rest, ok := strings.CutPrefix(value, engine+"="); ok {
			c.Engine, c.Endpoint = engine, rest
		}
	}
	if filepath.IsAbs(c.Endpoint) {
		c.Endpoint = "unix://" + c.Endpoint
	}
	scheme, rest, ok := strings.Cut(c.Endpoint, "://")
	switch {
	case !ok || rest == "":
	case scheme == "unix" || scheme == "tcp" || scheme == "http" || scheme == "https":
		return c, nil
	case scheme == "ssh":
		c.Engine = Podman // Docker's client library has no ssh
		return c, nil
	}
	return c, fmt.Errorf("choosing a container engine: %s is %q: use podman, docker, or a socket as a path or a unix://, tcp:// or ssh:// URL", why, value)
}

// usualPlaces are the sockets that engines listen on when nobody says otherwise.
func usualPlaces(env func(string) string, opts DetectOptions) []Candidate {
	var p places
	home := env("HOME")
	run := env("XDG_RUNTIME_DIR")
	if opts.GOOS == "darwin" {
		p.podmanMachine(home, strings.TrimSuffix(env("TMPDIR"), "/"))
	} else {
		p.add(Podman, run, "podman/podman.sock", "Podman's user socket")
		p.add(Podman, fmt.Sprintf("/run/user/%d", opts.UID), "podman/podman.sock", "Podman's user socket")
		p.add(Podman, "/run", "podman/podman.sock", "Podman's system socket")
	}
	p.add(Docker, run, "docker.sock", "rootless Docker")
	p.add(Docker, fmt.Sprintf("/run/user/%d", opts.UID), "docker.sock", "rootless Docker")
	p.add(Docker, home, ".docker/run/docker.sock", "Docker Desktop")
	p.add(Docker, home, ".docker/desktop/docker.sock", "Docker Desktop")
	p.add(Docker, home, ".colima/default/docker.sock", "Colima")
	p.add(Docker, home, ".orbstack/run/docker.sock", "OrbStack")
	// Podman's docker package puts its own socket there.
	p.add("", "/var/run", "docker.sock", "Docker's system socket")
	return p.list
}

type places struct{ list []Candidate }

// add adds a socket, unless its folder is unknown or it is there already.
func (p *places) add(engine, dir, name, why string) {
	if dir == "" {
		return
	}
	endpoint := "unix://" + filepath.Join(dir, name)
	for _, c := range p.list {
		if c.Endpoint == endpoint && c.Engine == engine {
			return
		}
	}
	p.list = append(p.list, Candidate{Engine: engine, Endpoint: endpoint, Why: why})
}

// podmanMachine adds the sockets through which a Podman machine is reached: by
// age of the Podman that made it.
func (p *places) podmanMachine(home, tmp string) {
	p.add(Podman, tmp, "podman/podman-machine-default-api.sock", "Podman machine")
	p.add(Podman, home, ".local/share/containers/podman/machine/podman.sock", "Podman machine")
	p.add(Podman, home, ".local/share/containers/podman/machine/podman-machine-default/podman.sock", "Podman machine")
	p.add(Podman, home, ".local/share/containers/podman/machine/qemu/podman.sock", "Podman machine")
}

// Detect returns the first candidate that answers as an engine. Dial has a
// function for each engine's name. Where none answers, the error wraps
// [ErrNoEngine] and says for each candidate why, and what command may help.
// The caller must Close the engine.
func Detect(ctx context.Context, candidates []Candidate, dial map[string]DialFunc) (Engine, error) {
	var tried failures
	for _, c := range candidates {
		for _, name := range c.engines() {
			e, err := try(ctx, dial[name], c.Endpoint)
			if err == nil {
				return again(ctx, c, name, e, dial), nil
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("looking for a container engine: %w", context.Cause(ctx))
			}
			tried = append(tried, failure{c, name, err})
		}
	}
	return nil, tried
}

// again returns e, which was reached as the engine called name, unless one that
// comes first for the candidate answers by now. A Podman that was just starting
// when it was asked would be taken for a Docker, for good.
func again(ctx context.Context, c Candidate, name string, e Engine, dial map[string]DialFunc) Engine {
	for _, first := range c.engines() {
		if first == name {
			break
		}
		better, err := try(ctx, dial[first], c.Endpoint)
		if err == nil {
			_ = e.Close() // it only has idle connections
			return better
		}
	}
	return e
}

// engines are those to try at the candidate. Podman is first, since it also
// answers as a Docker, and less well.
func (c Candidate) engines() []string {
	if c.Engine != "" {
		return []string{c.Engine}
	}
	return []string{Podman, Docker}
}

func try(ctx context.Context, dial DialFunc, endpoint string) (Engine, error) {
	if dial == nil {
		return nil, errors.New("this build has no driver for it")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return dial(ctx, endpoint)
}
