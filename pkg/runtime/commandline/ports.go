package commandline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker/go-connections/nat"

	"github.com/bridged/bridged/pkg/runtime"
)

// addPorts takes the ports that are to be reached from outside. Where no
// address is given it is this machine alone, and not all the world.
func (f *flags) addPorts(s *runtime.ServerSpec, _ Origin) error {
	if slices.ContainsFunc(f.publish, func(text string) bool { return strings.Contains(text, "-") }) {
		return refuse([]string{"-p/--publish with a range of ports"})
	}
	_, bindings, err := nat.ParsePortSpecs(f.publish)
	if err != nil {
		return fmt.Errorf("-p/--publish: %w", err)
	}
	for port, list := range bindings {
		for _, b := range list {
			p := runtime.Port{Container: uint16(port.Int()), Protocol: port.Proto(), Address: b.HostIP}
			if b.HostPort != "" {
				host, err := nat.ParsePort(b.HostPort)
				if err != nil {
					return fmt.Errorf("-p/--publish: %w", err)
				}
				p.Host = uint16(host)
			}
			if p.Address == "" {
				p.Address = runtime.Loopback
			}
			s.Ports = append(s.Ports, p)
		}
	}
	if len(s.Ports) > maxItems {
		return fmt.Errorf("-p/--publish: it names %d ports, and %d is the limit", len(s.Ports), maxItems)
	}
	slices.SortFunc(s.Ports, runtime.Port.Compare)
	return nil
}
