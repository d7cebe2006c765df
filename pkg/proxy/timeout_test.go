package proxy

import (
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

func TestStartTimeoutDependsOnTheCommand(t *testing.T) {
	p := newProxy(t, Options{StartTimeout: time.Second, FirstStartTimeout: time.Minute})
	rows := []struct {
		name   string
		server discovery.Server
		want   time.Duration
	}{
		{"a program", discovery.Server{Command: "/usr/bin/server"}, time.Second},
		{"one that downloads", discovery.Server{Command: "npx"}, time.Minute},
		{"one that downloads, by its path", discovery.Server{Command: "/opt/bin/uvx"}, time.Minute},
		{"a container", discovery.Server{Command: "docker"}, time.Minute},
		{"a limit of its own", discovery.Server{Command: "npx", StartTimeout: 5 * time.Second}, 5 * time.Second},
		{"a limit for calls alone", discovery.Server{Command: "server", CallTimeout: time.Hour}, time.Second},
	}
	for _, row := range rows {
		if got := p.startTimeout(&target{whole: row.server}); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}
