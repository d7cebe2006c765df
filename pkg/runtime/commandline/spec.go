package commandline

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docker/cli/opts"
	"github.com/docker/go-units"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// maxStopGrace bounds --stop-timeout.
	maxStopGrace = time.Minute
	// maxItems bounds the values of one kind: variables, mounts, labels.
	maxItems = 1000
)

var (
	namePattern     = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)
	platformPattern = regexp.MustCompile(`^[a-z0-9_.-]+(/[A-Za-z0-9_.-]+){1,2}$`)
	signalPattern   = regexp.MustCompile(`^(SIG)?[A-Z]+[0-9]*$`)
)

// labelPrefix begins the names of labels by which our containers are found.
const labelPrefix = "io.bridged."

// spec is what the flags say of a container.
func (f *flags) spec(o Origin) (runtime.ServerSpec, error) {
	s := runtime.ServerSpec{
		Name: f.name, Platform: f.platform, User: f.user, Workdir: f.workdir, Hostname: f.hostname,
		ExtraHosts: f.hosts.GetSlice(), DNS: f.dns.GetSlice(), Init: f.init, ReadOnly: f.readOnly,
	}
	steps := []func(*runtime.ServerSpec, Origin) error{
		f.checkTexts, f.addEnv, f.addLabels, f.addNetwork, f.addPorts, f.addCapabilities, f.addMounts, f.addTmpfs, f.addLimits,
	}
	for _, step := range steps {
		if err := step(&s, o); err != nil {
			return runtime.ServerSpec{}, err
		}
	}
	return s, nil
}

func (f *flags) checkTexts(*runtime.ServerSpec, Origin) error {
	switch {
	case f.name != "" && !namePattern.MatchString(f.name):
		return fmt.Errorf("--name %q is no name of a container", f.name)
	case f.platform != "" && !platformPattern.MatchString(f.platform):
		return fmt.Errorf("--platform %q is not like linux/amd64", f.platform)
	case f.stopSignal != "" && !signalPattern.MatchString(f.stopSignal):
		return fmt.Errorf("--stop-signal %q is not like SIGINT", f.stopSignal)
	}
	for _, list := range [][]string{f.env, f.envFiles, f.volumes, f.mounts, f.tmpfs, f.publish, f.labels.GetSlice(), f.hosts.GetSlice()} {
		if len(list) > maxItems {
			return fmt.Errorf("it gives a flag %d times, and %d is the limit", len(list), maxItems)
		}
	}
	return nil
}

func (f *flags) addLabels(s *runtime.ServerSpec, _ Origin) error {
	s.Labels = opts.ConvertKVStringsToMap(f.labels.GetSlice())
	for name := range s.Labels {
		if strings.HasPrefix(name, labelPrefix) {
			return fmt.Errorf("--label %s: labels that begin with %s are bridged's own", name, labelPrefix)
		}
	}
	return nil
}

// addNetwork takes one network: none, host, bridge under any of its names, or
// one of the user's.
func (f *flags) addNetwork(s *runtime.ServerSpec, _ Origin) error {
	given := f.network.Value()
	if len(given) == 0 {
		s.Network = runtime.NetworkBridge
		return nil
	}
	n := given[0]
	plain := len(n.Aliases) == 0 && len(n.DriverOpts) == 0 && n.IPv4Address == "" && n.IPv6Address == "" &&
		n.MacAddress == "" && len(n.LinkLocalIPs) == 0 && n.GwPriority == 0
	switch {
	case len(given) > 1:
		return refuse([]string{"more than one --network"})
	case !plain:
		return refuse([]string{"--network with more than a name"})
	case slices.Contains([]string{"", "default", "bridge", "private", "slirp4netns", "pasta"}, n.Target):
		s.Network = runtime.NetworkBridge
	case !namePattern.MatchString(n.Target):
		return refuse([]string{"--network " + n.Target + " (give none, host, bridge or the name of a network)"})
	default:
		s.Network = n.Target
	}
	return nil
}

func (f *flags) addCapabilities(s *runtime.ServerSpec, _ Origin) error {
	for _, option := range f.securityOpt {
		name, value, _ := strings.Cut(strings.ReplaceAll(option, "=", ":"), ":")
		if name != "no-new-privileges" || value == "false" {
			return refuse([]string{"--security-opt " + option})
		}
	}
	s.CapAdd, s.CapDrop = separated(f.capAdd), separated(f.capDrop)
	for _, c := range s.CapAdd {
		if strings.EqualFold(c, "ALL") {
			return refuse([]string{"--cap-add ALL (name those that the server needs)"})
		}
	}
	for _, c := range slices.Concat(s.CapAdd, s.CapDrop) {
		if !namePattern.MatchString(c) {
			return fmt.Errorf("%q is no name of a capability", c)
		}
	}
	return nil
}

// separated splits values at commas, as Podman does.
func separated(values []string) []string {
	var list []string
	for _, v := range values {
		list = append(list, strings.Split(v, ",")...)
	}
	return list
}

func (f *flags) addLimits(s *runtime.ServerSpec, _ Origin) error {
	s.MemoryBytes, s.ShmBytes, s.CPUs, s.Pids = f.memory.Value(), f.shm.Value(), float64(f.cpus.Value())/1e9, f.pids
	switch {
	case s.MemoryBytes < 0 || s.ShmBytes < 0 || s.CPUs < 0:
		return errors.New("a limit of memory or CPUs is below 0")
	case s.Pids < -1:
		return fmt.Errorf("--pids-limit %d is no number of processes", s.Pids)
	}
	if f.set.Changed("memory") && s.MemoryBytes == 0 {
		s.MemoryBytes = -1 // none, as the tools take it
	}
	if f.set.Changed("pids-limit") && s.Pids == 0 {
		s.Pids = -1
	}
	return nil
}

func (f *flags) stopGrace() (time.Duration, error) {
	if f.stopTimeout < 0 {
		return 0, fmt.Errorf("--stop-timeout %d: bridged does not wait for ever", f.stopTimeout)
	}
	return min(time.Duration(f.stopTimeout)*time.Second, maxStopGrace), nil
}

// command sets what the container runs. An entrypoint is one program, or with
// Podman also a JSON array; an empty one takes the image's away.
func (f *flags) command(s *runtime.ServerSpec, args []string) error {
	if !f.set.Changed("entrypoint") {
		s.Args = args
		return nil
	}
	var argv []string
	switch {
	case f.entrypoint == "":
		s.Entrypoint = args
		return nil
	case strings.HasPrefix(f.entrypoint, "["):
		if err := json.Unmarshal([]byte(f.entrypoint), &argv); err != nil || len(argv) == 0 {
			return fmt.Errorf("--entrypoint %q is no array of texts", f.entrypoint)
		}
	default:
		argv = []string{f.entrypoint}
	}
	s.Entrypoint, s.Args = argv, args
	return nil
}

// bytesOf reads a size such as 64m.
func bytesOf(text string) (int64, error) {
	n, err := units.RAMInBytes(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no size such as 64m", text)
	}
	return n, nil
}
