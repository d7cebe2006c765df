package runtime

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// The networks that every engine has. Any other is the name of one that the
// user has made there.
const (
	NetworkNone   = "none"   // nothing but a loopback of its own
	NetworkBridge = "bridge" // the engine's usual one: out, and not in
	NetworkHost   = "host"   // the machine's own
)

// A ServerSpec says how the container of an MCP server is made. It grants what
// a server's definition asks for, and nothing else: on every engine a container
// made from a ServerSpec has no-new-privileges, [ServerCapabilities] with what
// CapAdd and CapDrop change of them, the engine's default seccomp profile,
// private ipc, pid, uts and cgroup namespaces, the engine's masked paths, no
// device, no variable of the host's environment, no core dump, no log, and a
// stdin without a terminal that ends with the first [Stream].
//
// Empty fields mean what the image says, or the engine where it says nothing;
// zero limits those of [ServerSpec.WithDefaults].
type ServerSpec struct {
	Name     string // of the container; the engine refuses one that is taken
	Image    string
	Platform string // such as linux/amd64

	Entrypoint []string // replaces the image's, and its command with it
	Args       []string // replaces the image's command
	Env        map[string]string
	Labels     map[string]string
	User       string
	Workdir    string
	Hostname   string

	Network    string   // one of the constants, or a network's name; empty means NetworkBridge
	ExtraHosts []string // NAME:ADDRESS
	DNS        []string // addresses of name servers
	Ports      []Port   // that are reached from outside, where there is a network

	Init     bool // the engine's own first process, which reaps and passes on signals
	ReadOnly bool // the root file system
	CapAdd   []string
	CapDrop  []string // "ALL" drops all that CapAdd does not name

	Mounts []ServerMount
	Tmpfs  []Tmpfs

	// Limits. A negative one means none.
	MemoryBytes int64 // memory and swap together
	Pids        int64
	CPUs        float64 // cores
	ShmBytes    int64   // of /dev/shm
}

// A ServerMount is a folder or file of the engine's machine, or a volume of the
// engine's, in a server's container.
type ServerMount struct {
	Volume   bool   // Source names a volume, which is made if need be
	Source   string // else absolute, and there; empty means a volume without a name
	Target   string // absolute
	ReadOnly bool
	Relabel  string // "z" or "Z": give it an SELinux label for containers, or for this one
}

// A Port of a container that is reached from outside of it.
type Port struct {
	Address   string // of this machine's on which it listens
	Host      uint16 // 0 is any that is free
	Container uint16
	Protocol  string // tcp, udp or sctp
}

// Loopback is the address at which this machine alone reaches a port.
const Loopback = "127.0.0.1"

// Compare orders ports.
func (p Port) Compare(q Port) int {
	return cmp.Or(cmp.Compare(p.Container, q.Container), cmp.Compare(p.Protocol, q.Protocol),
		cmp.Compare(p.Address, q.Address), cmp.Compare(p.Host, q.Host))
}

// ServerCapabilities are what a container of a server has. Images start as root
// more often than not, and then change owners and users; and a folder of the
// user's is another user's for them. Raw packets, devices, chroot and changes
// of capabilities are not among them.
var ServerCapabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}

// Limits of a server's container where its definition sets none.
const (
	ServerMemory = 2 << 30 // bytes: some servers drive a browser
	ServerPids   = 512
	serverShm    = 64 << 20
	serverNofile = 4096
)

// MaxServerName bounds a container's name.
const MaxServerName = 128

// WithDefaults fills in what the caller left out, and copies the maps.
func (s ServerSpec) WithDefaults() ServerSpec {
	s.Network = cmp.Or(s.Network, NetworkBridge)
	s.MemoryBytes = cmp.Or(s.MemoryBytes, ServerMemory)
	s.Pids = cmp.Or(s.Pids, ServerPids)
	s.ShmBytes = cmp.Or(s.ShmBytes, serverShm)
	s.Env = maps.Clone(s.Env)
	s.Labels = maps.Clone(s.Labels)
	return s
}

// Nofile is the rlimit on open files, which no definition changes: engines'
// own defaults may be above what the host allows, and then nothing starts.
func (s ServerSpec) Nofile() uint64 { return serverNofile }

// Capabilities returns the names of the capabilities that the container has,
// sorted, and in the spelling of the kernel.
func (s ServerSpec) Capabilities() []string {
	caps := map[string]bool{}
	for _, c := range ServerCapabilities {
		caps[c] = true
	}
	for _, c := range s.CapDrop {
		if strings.EqualFold(c, "ALL") {
			clear(caps)
		}
		delete(caps, capability(c))
	}
	for _, c := range s.CapAdd {
		caps[capability(c)] = true
	}
	return slices.Sorted(maps.Keys(caps))
}

func capability(name string) string {
	name = strings.ToUpper(name)
	if strings.HasPrefix(name, "CAP_") {
		return name
	}
	return "CAP_" + name
}

// PlatformParts splits Platform into operating system, architecture and
// variant, which are empty when it does not say.
func (s ServerSpec) PlatformParts() (system, arch, variant string) {
	parts := append(strings.SplitN(s.Platform, "/", 3), "", "")
	return parts[0], parts[1], parts[2]
}

// Published returns the ports, and none where the network has no outside of its
// own.
func (s ServerSpec) Published() []Port {
	if s.Network == NetworkNone || s.Network == NetworkHost {
		return nil
	}
	return s.Ports
}

// CPUQuota is as in [Spec], and 0 when there is no limit.
func (s ServerSpec) CPUQuota() int64 {
	if s.CPUs <= 0 {
		return 0
	}
	return int64(s.CPUs * float64(CPUPeriod.Microseconds()))
}

// ServerStopGrace is how long an engine waits for a server's first process when
// somebody else than us stops it.
const ServerStopGrace = 5 * time.Second
