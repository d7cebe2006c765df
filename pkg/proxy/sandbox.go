package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/commandline"
)

// maxSandboxMounts bounds the mounts of one server.
const maxSandboxMounts = 32

// A Sandbox is a container in which the operator has a stdio server run: its
// command is started in there, with the variables of its definition and no
// other.
type Sandbox struct {
	Image   string
	Network string   // none, bridge, host or a network's name; empty means none
	Mounts  []string // SOURCE:TARGET or SOURCE:TARGET:ro; a source is a path or a volume
	User    string   // UID:GID; empty means what the image says
}

var (
	networkName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)
	userName    = regexp.MustCompile(`^([a-zA-Z0-9_][a-zA-Z0-9_.-]*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?)?$`)
)

// Check says what is wrong with it.
func (s *Sandbox) Check() error {
	_, err := s.spec()
	return err
}

// spec is the container without what the server's definition decides.
func (s *Sandbox) spec() (runtime.ServerSpec, error) {
	spec := runtime.ServerSpec{
		Image: s.Image, Network: cmp.Or(s.Network, runtime.NetworkNone), User: s.User, Workdir: "/",
	}
	switch {
	case s.Image == "":
		return spec, errors.New("sandbox has no image: name the one in which the server's command is")
	case !networkName.MatchString(spec.Network):
		return spec, fmt.Errorf("sandbox network %q: give none, bridge, host or the name of a network", s.Network)
	case !userName.MatchString(s.User):
		return spec, fmt.Errorf("sandbox user %q: give UID:GID, such as 1000:1000", s.User)
	case len(s.Mounts) > maxSandboxMounts:
		return spec, fmt.Errorf("sandbox mounts: there are %d; at most %d are taken", len(s.Mounts), maxSandboxMounts)
	}
	for _, text := range s.Mounts {
		m, err := commandline.Volume(text, "")
		if err == nil && !m.Volume && !filepath.IsAbs(m.Source) {
			err = fmt.Errorf("%q: give an absolute source, such as /srv/data:/data:ro", text)
		}
		if err != nil {
			return spec, fmt.Errorf("sandbox mount %w", err)
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	return spec, nil
}

// box decides whether a server runs in a container, and in which: nil means
// that it runs as a process. whole has been expanded, and holds the program and
// the variables of its definition.
func (s *Session) box(whole discovery.Server, sandbox *Sandbox) (*commandline.Run, error) {
	argv := append([]string{whole.Command}, whole.Args...)
	line := commandline.IsRun(argv)
	switch {
	case line && sandbox != nil:
		return nil, errors.New("its command runs a container already, and a [[server]] table of bridged's configuration " +
			"asks for a sandbox: leave its name out of that table, or give it a command that runs in the sandbox's image")
	case sandbox != nil:
		spec, err := sandbox.spec()
		spec.Entrypoint, spec.Env = argv, maps.Clone(whole.Env)
		return &commandline.Run{Spec: spec, Remote: spec.Image, Pull: "missing"}, err
	case !line:
		return nil, nil
	}
	if name := chosenEngine(whole.Env); name != "" {
		return nil, fmt.Errorf("its env sets %s, and bridged uses the engine that it has found: take it out, "+
			"or name that engine by engine.runtime in bridged's configuration", name)
	}
	run, err := commandline.Parse(argv, commandline.Origin{
		Dir: cmp.Or(whole.Dir(s.opts.Home), s.opts.Cwd, "/"), Lookup: s.lookup(whole),
	})
	return &run, err
}

// chosenEngine is the variable by which a definition chooses an engine itself.
func chosenEngine(env map[string]string) string {
	for _, name := range []string{"CONTAINER_CONNECTION", "CONTAINER_HOST", "DOCKER_CONTEXT", "DOCKER_HOST"} {
		if env[name] != "" {
			return name
		}
	}
	return ""
}

// lookup finds the variables that a command line passes on by name: those of
// the definition, then the agent's.
func (s *Session) lookup(whole discovery.Server) func(string) (string, bool) {
	unset := map[string]bool{}
	for _, name := range whole.Unset {
		unset[name] = true
	}
	return func(name string) (string, bool) {
		if value, ok := whole.Env[name]; ok {
			return value, true
		}
		if unset[name] {
			return "", false
		}
		return s.opts.Getenv(name)
	}
}
