package podman

import (
	"context"
	"net"
	"slices"
	"strings"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/specgen"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	nettypes "go.podman.io/common/libnetwork/types"

	"github.com/bridged/bridged/pkg/runtime"
)

// CreateServer implements [runtime.Engine].
func (e *Engine) CreateServer(ctx context.Context, spec runtime.ServerSpec) (runtime.ID, error) {
	c, err := containers.CreateWithSpec(e.with(ctx), serverGenerator(spec.WithDefaults()), nil)
	if err != nil {
		return "", engineError(ctx, "create", err)
	}
	return runtime.ID(c.ID), nil
}

// serverGenerator is the spec in Podman's words.
func serverGenerator(spec runtime.ServerSpec) *specgen.SpecGenerator {
	g := hardened(spec.Image, runtime.ServerStopGrace)
	g.Name = spec.Name
	g.ImageOS, g.ImageArch, g.ImageVariant = spec.PlatformParts()
	g.Entrypoint = spec.Entrypoint
	g.Command = spec.Args
	g.Env = spec.Env
	g.Labels = spec.Labels
	g.WorkDir = spec.Workdir
	g.User = spec.User
	g.CapAdd, g.CapDrop = capabilities(spec)
	g.Hostname = spec.Hostname
	if spec.Init {
		g.Init = new(true)
	}
	serverNetwork(g, spec)
	serverStorage(g, spec)
	g.ResourceLimits = limits(spec.MemoryBytes, spec.Pids, spec.CPUQuota())
	g.Rlimits = rlimits(spec.Nofile())
	return g
}

// capabilities says what to add to Podman's default and what to take away. What
// is added to it an ordinary user in the container gets too, so that only what
// the definition asks for is.
func capabilities(spec runtime.ServerSpec) (add, drop []string) {
	have := spec.Capabilities()
	kept := runtime.ServerSpec{CapDrop: spec.CapDrop}.Capabilities()
	for _, c := range have {
		if !slices.Contains(kept, c) {
			add = append(add, c)
		}
	}
	for _, c := range allCapabilities {
		if !slices.Contains(have, "CAP_"+c) {
			drop = append(drop, "CAP_"+c)
		}
	}
	return add, drop
}

// allCapabilities are those that a configuration of Podman's may give by
// default: an older kernel refuses to drop what it does not know, so that the
// newest three, which nobody gives, are not among them.
var allCapabilities = strings.Fields(`
	AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID
	IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE
	NET_BROADCAST NET_RAW SETFCAP SETGID SETPCAP SETUID SYS_ADMIN SYS_BOOT SYS_CHROOT SYSLOG SYS_MODULE
	SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM`)

func serverNetwork(g *specgen.SpecGenerator, spec runtime.ServerSpec) {
	g.HostAdd = spec.ExtraHosts
	for _, address := range spec.DNS {
		if ip := net.ParseIP(address); ip != nil {
			g.DNSServers = append(g.DNSServers, ip)
		}
	}
	for _, p := range spec.Published() {
		g.PortMappings = append(g.PortMappings, nettypes.PortMapping{
			HostIP: p.Address, HostPort: p.Host, ContainerPort: p.Container, Protocol: p.Protocol, Range: 1,
		})
	}
	switch spec.Network {
	case runtime.NetworkNone:
		g.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
		g.UseImageResolvConf = new(true)
	case runtime.NetworkHost:
		g.NetNS = specgen.Namespace{NSMode: specgen.Host}
	case runtime.NetworkBridge:
		// What an ordinary user's containers get is no bridge.
		g.NetNS = specgen.Namespace{NSMode: specgen.Default}
	default:
		g.NetNS = specgen.Namespace{NSMode: specgen.Bridge}
		g.Networks = map[string]nettypes.PerNetworkOptions{spec.Network: {}}
	}
}

func serverStorage(g *specgen.SpecGenerator, spec runtime.ServerSpec) {
	g.ReadOnlyFilesystem = &spec.ReadOnly
	g.ImageVolumeMode = "anonymous"
	g.Mounts = folders(spec.Tmpfs, spec.ShmBytes)
	for _, m := range spec.Mounts {
		if m.Volume {
			g.Volumes = append(g.Volumes, &specgen.NamedVolume{Name: m.Source, Dest: m.Target, Options: mountOptions(m)})
			continue
		}
		g.Mounts = append(g.Mounts, oci.Mount{
			Type: "bind", Source: m.Source, Destination: m.Target, Options: append(mountOptions(m), "rbind", "nosuid", "nodev"),
		})
	}
}

func mountOptions(m runtime.ServerMount) []string {
	options := []string{"rw"}
	if m.ReadOnly {
		options = []string{"ro"}
	}
	if m.Relabel != "" {
		options = append(options, m.Relabel)
	}
	return options
}
