//go:build integration

package escape

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	labelHouse = "io.bridged.test.escape"

	// maxTimeout is what a run may ask for.
	maxTimeout = 2 * time.Minute
	// closeTime bounds the end of everything.
	closeTime = 60 * time.Second
)

// A house is a daemon without its sockets: a pool, a proxy with real servers,
// and sessions, on one engine.
type house struct {
	engine   *engines.Running
	dir      string // the person's home, which the servers may write to
	label    string
	pool     *sandbox.Pool
	proxy    *proxy.Proxy
	servers  []discovery.Server
	canaries map[string]string // by where they are
}

// newHouse starts everything. The caller must close it.
func newHouse(r *engines.Running) (*house, error) {
	dir, err := os.MkdirTemp("", "escape")
	if err != nil {
		return nil, err
	}
	h := &house{engine: r, dir: dir, label: rand.Text(), canaries: map[string]string{}}
	if err := h.discover(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := os.Setenv("BRIDGED_ESCAPE_CANARY", h.canary("the daemon's environment")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	spec := runtime.DefaultSpec(r.Image)
	spec.Labels = map[string]string{labelHouse: h.label}
	spec.Env = map[string]string{"HOUSE": h.label}
	o := sandbox.Options{Spec: spec, Boot: images.Boot(), Payload: images.Payload(), Relay: images.Relay(), Grace: sandbox.DefaultGrace}
	h.pool = sandbox.NewPool(func(ctx context.Context) (*sandbox.Sandbox, error) {
		return sandbox.Launch(ctx, r.Engine, o)
	}, sandbox.PoolOptions{Warm: 2})
	h.proxy = proxy.New(proxy.Options{Version: "escape"})
	return h, nil
}

// canary returns a text that is to be in one place outside and nowhere inside.
func (h *house) canary(place string) string {
	h.canaries[place] = "canary-" + rand.Text()
	return h.canaries[place]
}

// discover writes the config file of a person who has secrets in it, and reads
// it as the daemon does.
func (h *house) discover() error {
	files := map[string]any{"command": "mcp-server-filesystem", "args": []string{h.dir}}
	entries := map[string]any{
		"files":   files, // the witness loads it
		"victim":  map[string]any{"command": "mcp-server-filesystem", "args": []string{h.dir, h.dir}, "env": map[string]string{"TOKEN": h.canary("a server's environment")}},
		"headers": map[string]any{"url": "http://127.0.0.1:9/mcp", "headers": map[string]string{"Authorization": "Bearer " + h.canary("a header")}},
		"args":    map[string]any{"command": "mcp-server-everything", "args": []string{"--key", h.canary("a server's arguments")}},
	}
	data, err := json.Marshal(map[string]any{"mcpServers": entries, "note": h.canary("a config file")})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(h.dir, "MCPs"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(h.dir, "MCPs", "test.json"), data, 0o600); err != nil {
		return err
	}
	res := discovery.Load(discovery.Options{Home: h.dir})
	if len(res.Servers) != len(entries) {
		return fmt.Errorf("discovering servers: got %d of %d: %v", len(res.Servers), len(entries), res.Problems)
	}
	h.servers = res.Servers
	return nil
}

// A guest is a session of somebody's.
type guest struct {
	*sandbox.Session
	calls *proxy.Session
}

// guest opens a session with an agent's environment. The caller must leave.
func (h *house) guest() *guest {
	secret := h.canaries["the agent's environment"]
	if secret == "" {
		secret = h.canary("the agent's environment")
	}
	env := map[string]string{
		"HOME": h.dir, "AGENT_TOKEN": secret,
		"PATH": os.Getenv("BRIDGED_TEST_SERVERS") + ":" + os.Getenv("PATH"),
	}
	calls := h.proxy.NewSession(proxy.SessionOptions{
		Servers: func() []discovery.Server { return h.servers }, Home: h.dir, Cwd: h.dir,
		Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	return &guest{sandbox.NewSession(h.pool, sandbox.SessionOptions{RPC: calls, MaxTimeout: maxTimeout}), calls}
}

// load makes a server reachable and returns what a request has to say of it.
func (g *guest) load(name string) ([]sandbox.Server, error) {
	list, err := g.calls.Load([]string{name})
	var servers []sandbox.Server
	for _, l := range list {
		servers = append(servers, sandbox.Server{Name: l.Name, Alias: l.Alias})
	}
	return servers, err
}

func (g *guest) leave() {
	g.Close()
	g.calls.Close()
}

// containers lists the house's.
func (h *house) containers(ctx context.Context) (int, error) {
	list, err := h.engine.Engine.List(ctx, map[string]string{labelHouse: h.label})
	return len(list), err
}

// close ends everything. It is an error if a container is left.
func (h *house) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	var closing sync.WaitGroup
	closing.Go(h.pool.Close)
	var perr error
	closing.Go(func() { perr = h.proxy.Close(ctx) })
	closing.Wait()
	left, err := h.containers(ctx)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d containers were left behind", left)
	}
	return errors.Join(perr, err, os.Unsetenv("BRIDGED_ESCAPE_CANARY"), os.RemoveAll(h.dir))
}
