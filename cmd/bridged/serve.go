package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// stopTimeout bounds the end of the upstream servers when the daemon stops.
const stopTimeout = 20 * time.Second

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: "Serves agents until SIGTERM or SIGINT, then ends their sessions and removes its containers.\n" +
			"If a daemon listens on the socket already, this one says so and ends with exit code 0.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, p, err := loadFor(cmd)
			if err != nil {
				return err
			}
			log, err := newLogger(c)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, p, log)
		},
	}
	addFlags(cmd.Flags())
	return cmd
}

// serve listens, then runs a daemon until ctx ends.
func serve(ctx context.Context, c *config, p paths, log zerolog.Logger) error {
	if err := useFolders(c, p, log); err != nil {
		return err
	}
	ln, err := bridge.Listen(p.socket)
	if errors.Is(err, bridge.ErrInUse) {
		log.Info().Str("socket", p.socket).Msg("another daemon listens already")
		return nil
	}
	if err != nil {
		return err
	}
	defer ln.Close() //nolint:errcheck // Serve closes it first
	opsListener, err := bridge.Listen(p.ops)
	if err != nil {
		return err
	}
	defer opsListener.Close() //nolint:errcheck // Serve closes it first
	instance, err := p.instance()
	if err != nil {
		return err
	}
	d := newDaemon(c, p, instance, log)
	defer d.close()
	log.Info().Str("socket", p.socket).Str("version", version).Msg("serve")
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { d.leftovers.run(ctx, d.engines.get) })
	running.Go(func() {
		if err := ops.Serve(ctx, opsListener, ops.Handler(d.status)); err != nil {
			log.Error().Err(err).Msg("serve operations")
		}
	})
	return d.bridge.Serve(ctx, ln)
}

// useFolders looks at the folders of the user's that the configuration names,
// and says which of them code can't read.
func useFolders(c *config, p paths, log zerolog.Logger) error {
	if err := tryOutput(p.output); err != nil {
		return err
	}
	warnings, err := c.Mounts.resolve(string(c.Sandbox.User), privatePaths(c, p, os.Getenv))
	for _, w := range warnings {
		log.Warn().Msg(w)
	}
	return err
}

// A daemon holds what one run of `bridged serve` is made of.
type daemon struct {
	conf      *config
	paths     paths
	log       zerolog.Logger
	started   time.Time
	engines   *engines
	leftovers *leftovers
	pool      *sandbox.Pool
	catalog   *discovery.Catalog
	proxy     *proxy.Proxy
	bridge    *bridge.Server
}

func newDaemon(c *config, p paths, instance string, log zerolog.Logger) *daemon {
	d := &daemon{conf: c, paths: p, log: log, started: time.Now(), leftovers: &leftovers{log: log}}
	d.engines = &engines{
		find:     func(ctx context.Context) (runtime.Engine, error) { return findEngine(ctx, c, log) },
		instance: instance, process: randomName(), log: log,
	}
	d.pool = sandbox.NewPool(d.launch, sandbox.PoolOptions{
		Warm: int(c.Pool.Warm), Max: int(c.Pool.Max), Memory: d.poolMemory, Each: int64(c.Sandbox.Memory),
		SessionIdle: time.Duration(c.Run.SessionIdle), PauseAfter: time.Duration(c.Run.PauseAfter), Logger: log,
	})
	d.catalog = discovery.NewCatalog()
	d.proxy = proxy.New(proxy.Options{Catalog: d.catalog, IdleTimeout: time.Duration(c.Servers.Idle), CallTimeout: time.Duration(c.Servers.CallTimeout), Version: version, Logger: log})
	d.bridge = bridge.NewServer(d.open, bridge.Options{
		Version: version, MaxCode: sandbox.MaxCode, YieldAfter: time.Duration(c.Run.YieldAfter),
		MaxPythons: int(c.Run.MaxSessions), Data: c.Mounts.targets(), Logger: log,
	})
	return d
}

// close ends everything; the bridge's sessions have ended before.
func (d *daemon) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var closing sync.WaitGroup
	closing.Go(d.pool.Close)
	closing.Go(func() {
		if err := d.proxy.Close(ctx); err != nil {
			d.log.Warn().Err(err).Msg("stop servers")
		}
	})
	closing.Wait()
}

// poolMemory is what the limits of all sandboxes may add up to, in bytes; 0 is
// no bound. The engine's machine may be another than ours.
func (d *daemon) poolMemory() int64 {
	info, err := d.engines.status()
	if err != nil {
		return d.conf.Pool.Memory.of(0)
	}
	return d.conf.Pool.Memory.of(info.MemoryBytes)
}

// launch makes one sandbox for the pool.
func (d *daemon) launch(ctx context.Context) (*sandbox.Sandbox, error) {
	engine, err := d.engines.get(ctx)
	if err != nil {
		return nil, err
	}
	s, err := sandbox.Launch(ctx, engine, d.sandboxOptions())
	if errors.Is(err, runtime.ErrUnreachable) {
		return nil, d.engines.lost(engine, err)
	}
	if err != nil {
		return nil, imageError(err, string(d.conf.Sandbox.Image))
	}
	return s, nil
}

func (d *daemon) sandboxOptions() sandbox.Options {
	spec := d.conf.spec()
	spec.Labels = map[string]string{
		runtime.LabelInstance: d.engines.instance, runtime.LabelVersion: version, labelProcess: d.engines.process,
	}
	return sandbox.Options{
		Spec: spec, Boot: images.Boot(), Payload: images.Payload(), Imports: d.conf.Sandbox.Imports,
		Logger: d.log, Abandon: d.leftovers.add, Others: int(d.conf.Pool.Max) - 1,
	}
}

// status describes the daemon for ops.
func (d *daemon) status() ops.Status {
	s := ops.Status{
		Schema: ops.SchemaVersion, Version: version, PID: os.Getpid(), Started: d.started,
		Sandboxes: []ops.Sandbox{}, Sessions: []ops.Session{}, Servers: []ops.Server{},
	}
	d.describeEngine(&s)
	for _, v := range d.bridge.Sessions() {
		client := v.ClientName
		if v.ClientVersion != "" {
			client += " " + v.ClientVersion
		}
		s.Sessions = append(s.Sessions, ops.Session{
			ID: v.ID[:min(8, len(v.ID))], Client: client, PID: v.PID, Cwd: v.CWD, Since: v.Since, Calls: v.Calls, Running: v.Running,
			Pythons: describePythons(v.Pythons),
		})
	}
	for _, v := range d.proxy.Status() {
		s.Servers = append(s.Servers, ops.Server{
			Name: v.Name, State: string(v.State), PID: v.PID, Since: v.Since, Restarts: v.Restarts,
			Calls: v.Calls, Errors: v.Errors, Error: v.LastError,
		})
	}
	return s
}

func describePythons(infos []bridge.PythonInfo) []ops.Python {
	list := make([]ops.Python, 0, len(infos))
	for _, v := range infos {
		list = append(list, ops.Python{
			Name: v.Name, State: string(v.Sandbox.State), Sandbox: v.Sandbox.Sandbox, Since: v.Since, Used: v.Used,
			SandboxSince: v.Sandbox.Since, Calls: v.Calls, Running: v.Running, Lost: v.Sandbox.Lost,
		})
	}
	return list
}

// describeEngine fills what the engine and the pool decide.
func (d *daemon) describeEngine(s *ops.Status) {
	info, err := d.engines.status()
	p := d.pool.Status()
	s.Engine = ops.Engine{
		Name: info.Name, Version: info.Version, APIVersion: info.APIVersion, Rootless: info.Rootless,
		CgroupVersion: info.CgroupVersion, Endpoint: info.Endpoint, Image: string(d.conf.Sandbox.Image), Degraded: p.Degraded,
	}
	s.Pool = ops.Pool{
		Target: p.Target, Max: p.Max, Limit: p.Limit, Warm: p.Warm, Leased: p.Leased, Creating: p.Creating, Failures: p.Failures, Error: p.LastError,
	}
	for _, v := range p.Sandboxes {
		s.Sandboxes = append(s.Sandboxes, describeSandbox(v))
	}
	switch {
	case err != nil:
		s.Engine.Error, s.Reason = err.Error(), err.Error()
	case p.Failures > 0 || (p.Warm == 0 && p.LastError != ""):
		s.Reason = p.LastError
	case p.Warm == 0 && p.Target > 0 && p.Leased < p.Max:
		s.Reason = "sandboxes are being made"
	default:
		s.Ready = true
	}
}

func randomName() string {
	b := make([]byte, 8)
	rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}

// clientEnv is the environment that a shim sent.
func clientEnv(hello bridge.Hello) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := hello.Env[name]
		return v, ok
	}
}

// open makes a session's workspace.
func (d *daemon) open(_ context.Context, hello bridge.Hello) (bridge.Workspace, error) {
	getenv := clientEnv(hello)
	home, ok := getenv("HOME")
	if !ok {
		return nil, fmt.Errorf("the agent's environment has no HOME: start the shim with one")
	}
	servers := &serverList{opts: discovery.Options{
		Home: home, Cwd: hello.CWD, Getenv: getenv, Self: []string{d.paths.socket},
	}, log: d.log}
	calls := d.proxy.NewSession(proxy.SessionOptions{Servers: servers.get, Getenv: getenv, Home: home, Cwd: hello.CWD})
	runs := sandbox.NewSession(d.pool, sandbox.SessionOptions{
		RPC: calls, Timeout: time.Duration(d.conf.Run.Timeout), MaxTimeout: time.Duration(d.conf.Run.MaxTimeout),
	})
	return bridge.NewWorkspace(runs, &upstreams{calls, servers}, d.keeper()), nil
}

// keeper saves what one session publishes; nil if nothing is to be saved.
func (d *daemon) keeper() bridge.Keeper {
	if d.paths.output == "" {
		return nil
	}
	return newOutbox(d.paths.output, int64(d.conf.Files.MaxBytes))
}
