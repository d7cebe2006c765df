package main

import (
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
)

// A serverSandbox is the container that servers' commands run in, in a
// [[server]] table.
type serverSandbox struct {
	Image   word     `toml:"image"`
	Network word     `toml:"network"`
	Mounts  wordList `toml:"mounts"`
	User    word     `toml:"user"`
}

// sandbox is it as the proxy takes it; nil for nil.
func (s *serverSandbox) sandbox() *proxy.Sandbox {
	if s == nil {
		return nil
	}
	return &proxy.Sandbox{Image: string(s.Image), Network: string(s.Network), Mounts: s.Mounts, User: string(s.User)}
}

// containers is how the proxy makes the containers of servers.
func (d *daemon) containers() proxy.Containers {
	return proxy.Containers{
		Engine: d.engines.get, Lost: d.engines.lost, Abandon: d.leftovers.add, Labels: d.labels(),
	}
}

// labels are on all containers of this run of the daemon.
func (d *daemon) labels() map[string]string {
	return map[string]string{
		runtime.LabelInstance: d.engines.instance, runtime.LabelVersion: version, labelProcess: d.engines.process,
	}
}
