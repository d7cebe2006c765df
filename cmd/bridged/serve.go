package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/memory"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/policy"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// stopTimeout bounds the end of the upstream servers when the daemon stops.
const stopTimeout = 20 * time.Second

func serveCommand() *cobra.Command {
	replace := false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: "Serves agents. SIGTERM ends the daemon and leaves the sessions to the next one, which goes on with them if it is\n" +
			"started within run.adopt_grace; SIGINT and `bridged stop` end the sessions and remove their containers.\n" +
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
			// The signals that end this context are told apart in serve.
			return serve(context.WithoutCancel(cmd.Context()), c, p, replace, log)
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "take over from the daemon that runs, if one does, without refusing a connection")
	addFlags(cmd.Flags())
	return cmd
}

// serve listens, then runs a daemon until it is told to end, or ctx ends.
func serve(ctx context.Context, c *config, p paths, replace bool, log zerolog.Logger) error {
	signals, deaf := endSignals()
	defer deaf()
	if err := useFolders(c, p, log); err != nil {
		return err
	}
	ln, opsListener, err := sockets(ctx, p, replace)
	if errors.Is(err, bridge.ErrInUse) {
		log.Info().Str("socket", p.socket).Msg("another daemon listens already")
		return nil
	}
	if err != nil {
		return err
	}
	defer ln.Close()          //nolint:errcheck // Serve closes it first
	defer opsListener.Close() //nolint:errcheck // Serve closes it first
	files, err := openSessionFiles(sessionFolder(p.socket), predecessorPatience, log)
	if err != nil {
		return err
	}
	defer files.release()
	instance, err := p.instance()
	if err != nil {
		return err
	}
	audit, err := startAudit(c, p.audit, log)
	if err != nil {
		return err
	}
	pins, err := c.openPins(p, log)
	if err != nil {
		return err
	}
	traces, err := startTraces(c, os.Getenv, log)
	if err != nil {
		return err
	}
	d := newDaemon(c, p, instance, pins, traces, files, log)
	d.audit, d.sockets = audit, []net.Listener{ln, opsListener}
	alive, end := context.WithCancelCause(context.Background())
	defer func() { d.close(errors.Is(context.Cause(alive), bridge.ErrLeave)) }()
	log.Info().Str("socket", p.socket).Str("version", version).Msg("serve")
	d.wake()
	var running sync.WaitGroup
	defer running.Wait()
	defer end(errTold)
	running.Go(func() { d.obey(ctx, alive, signals, end) })
	running.Go(func() { d.legacy.run(alive) })
	running.Go(func() { d.leftovers.run(alive, d.engines.get) })
	running.Go(func() { d.engines.watch(alive, d.pool.Used) })
	running.Go(func() { d.engines.sweepLater(alive) })
	running.Go(func() {
		if err := ops.Serve(alive, opsListener, d.operations()); err != nil {
			log.Error().Err(err).Msg("serve operations")
		}
	})
	running.Go(func() { d.servePort(alive) })
	running.Go(func() { d.underSystemd(alive) })
	running.Go(func() { d.watch.approvals(alive, d.approvals) })
	return d.bridge.Serve(alive, ln)
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
	approvals *policy.Approvals
	pins      *policy.Pins // nil when they are switched off
	proxy     *proxy.Proxy
	bridge    *bridge.Server
	tools     *memory.Tools
	audit     *auditing
	watch     *watching
	traffic   *sandbox.Traffic
	port      port
	usage     *sampler
	traces    *traces
	watcher   *watcher
	memory    *discovery.Memory
	memories  *memory.Store
	legacy    *legacy
	stops     chan struct{} // has a token when the daemon is to end with all its sessions
	replaced  chan struct{} // has a token when another daemon has its sockets
	sockets   []net.Listener
	handing   sync.Mutex // held while the sockets are handed over, and from then on
}

func newDaemon(c *config, p paths, instance string, pins *policy.Pins, traces *traces, files *sessionFiles, log zerolog.Logger) *daemon {
	d := &daemon{
		conf: c, paths: p, log: log, traces: traces, started: time.Now(), leftovers: &leftovers{log: log}, traffic: &sandbox.Traffic{},
		stops: make(chan struct{}, 1), replaced: make(chan struct{}, 1),
	}
	d.watch = newWatching(d.fullStatus, d.totals)
	d.legacy = newLegacy(files, time.Duration(c.Run.AdoptGrace), d.adoptSandbox, d.removeSandbox, log)
	d.engines = &engines{
		find:     func(ctx context.Context) (runtime.Engine, error) { return findEngine(ctx, c, log) },
		instance: instance, process: randomName(), claimed: d.claimed, log: log, tells: d.watch,
	}
	d.pool = sandbox.NewPool(d.launch, sandbox.PoolOptions{
		Warm: int(c.Pool.Warm), Max: int(c.Pool.Max), Memory: d.poolMemory, Each: int64(c.Sandbox.Memory), Wait: time.Duration(c.Pool.Wait),
		Rejoin:      d.rejoin,
		SessionIdle: time.Duration(c.Run.SessionIdle), PauseAfter: time.Duration(c.Run.PauseAfter), Logger: log,
		Watch: d.watch.sandbox,
	})
	d.usage = &sampler{live: func() []subject { return subjects(d.pool) }}
	d.watcher, d.memory = newWatcher(log), &discovery.Memory{}
	d.catalog, d.approvals, d.pins = discovery.NewCatalog(), &policy.Approvals{}, pins
	o := proxyOptions(c, p)
	o.Catalog, o.Approvals, o.Pins = d.catalog, d.approvals, pins
	o.Containers, o.Logger, o.Watch = d.containers(), log, d.watch.server
	if folder := p.catalog(); folder != "" {
		o.Archive = discovery.NewArchive(folder)
	}
	d.proxy = proxy.New(o)
	d.memories = openMemories(c, p)
	d.tools = savedTools(c, p, os.Getenv)
	d.bridge = bridge.NewServer(d.open, bridge.Options{
		Version: version, MaxCode: sandbox.MaxCode, YieldAfter: time.Duration(c.Run.YieldAfter),
		MaxPythons: int(c.Run.MaxSessions), Data: c.Mounts.targets(), Logger: log, Tracer: traces.tracer(), Registry: d.legacy,
		Connected: d.watch.connected, Gone: d.watch.gone, Saved: d.watch.saved,
		Mode:      func(client string) bridge.Mode { return c.Client.mode(client, c.Output.Mode) },
		MaxTokens: func(client string) int { return c.Client.maxTokens(client, c.Output.MaxTokens) },
	})
	return d
}

// proxyOptions are what the configuration says of the MCP servers.
func proxyOptions(c *config, p paths) proxy.Options {
	return proxy.Options{
		CatalogAge:  cmp.Or(time.Duration(c.Servers.CatalogAge), proxy.Never),
		IdleTimeout: time.Duration(c.Servers.Idle), CallTimeout: time.Duration(c.Servers.CallTimeout),
		Settings: c.Server.settings(), Policy: c.Policy.compiled, TokenDir: p.tokens(), Reaper: c.reaper, Version: version, HideTrace: !bool(c.Trace.Servers),
	}
}

// wake starts the user's eager servers before any agent is there. They get the
// daemon's environment, which is that of the first agent when its shim has
// started the daemon; an agent with another one has its own.
func (d *daemon) wake() {
	home := os.Getenv("HOME")
	list := d.serverList(home, home, os.LookupEnv)
	users := func() []discovery.Server {
		return slices.DeleteFunc(slices.Clone(list.get()), func(s discovery.Server) bool { return s.Root != "" || s.Held != "" })
	}
	d.proxy.Wake(proxy.SessionOptions{Servers: users, Getenv: os.LookupEnv, Home: home, Cwd: home})
}

// close ends everything; the bridge's sessions have ended before. If the daemon
// leaves, what sessions need lives on.
func (d *daemon) close(leaves bool) {
	limit := stopTimeout
	if leaves {
		limit = leaveTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var closing sync.WaitGroup
	closing.Go(d.pool.Close)
	closing.Go(func() { d.legacy.close(ctx, leaves) })
	closing.Go(func() {
		if err := d.proxy.Close(ctx); err != nil {
			d.log.Warn().Err(err).Msg("stop servers")
		}
	})
	closing.Wait()
	if !leaves {
		d.engines.sweep(ctx)
	}
	d.watcher.close()
	if err := d.audit.close(); err != nil {
		d.log.Error().Err(err).Msg("close audit log")
	}
	d.traces.close()
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
	if err != nil {
		return nil, d.launchError(ctx, engine, err)
	}
	return s, nil
}

func (d *daemon) sandboxOptions() sandbox.Options {
	spec := d.conf.spec()
	spec.Labels = d.labels()
	return sandbox.Options{
		Spec: spec, Boot: images.Boot(), Payload: images.Payload(), Imports: d.conf.Sandbox.Imports,
		Grace: time.Duration(d.conf.Run.AdoptGrace), Relay: images.Relay(),
		Logger: d.log, Abandon: d.leftovers.add, Traffic: d.traffic, Others: int(d.conf.Pool.Max) - 1,
	}
}

// status describes the daemon for ops.
func (d *daemon) status() ops.Status {
	s := ops.Status{
		Schema: ops.SchemaVersion, Version: version, Versions: versions(), PID: os.Getpid(), Started: d.started,
		Sandboxes: []ops.Sandbox{}, Sessions: []ops.Session{}, Servers: []ops.Server{},
	}
	s.Audit, s.Traces, s.Ops = d.audit.status(), d.traces.status(), d.describePort()
	d.describeEngine(&s)
	for _, v := range d.bridge.Sessions() {
		s.Sessions = append(s.Sessions, ops.Session{
			ID: sessionID(v.ID), Client: nameAndVersion(v.ClientName, v.ClientVersion), PID: v.PID, Cwd: v.CWD, Since: v.Since, Calls: v.Calls, Running: v.Running,
			Pythons: describePythons(v.Pythons),
		})
	}
	for _, v := range d.proxy.Status() {
		s.Servers = append(s.Servers, describeServer(v))
	}
	s.Approvals = len(d.approvals.List())
	s.ServerRoom.Count, s.ServerRoom.Max = d.proxy.Room()
	s.Queues = queues(s)
	s.Queues.Leases, s.Queues.Shims = d.pool.Status().Waiting, d.legacy.waiting()
	return s
}

// maxStderr bounds what the status has of each server's stderr, and of its log
// messages, in bytes.
const maxStderr = 2 << 10

func describeServer(v proxy.ServerStatus) ops.Server {
	return ops.Server{
		Name: v.Name, State: string(v.State), Transport: v.Transport, Private: v.Private,
		PID: v.PID, Container: cmp.Or(v.ContainerName, v.Container), Since: v.Since, Restarts: v.Restarts,
		Calls: v.Calls, Errors: v.Errors, InFlight: v.InFlight, Waiting: v.Waiting, P50: milliseconds(v.P50), P95: milliseconds(v.P95),
		Error: v.LastError, Warning: v.Warning, Changed: v.Changed, Stderr: lastBytes(v.Stderr, maxStderr), Log: lastBytes(v.Log, maxStderr),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// lastBytes returns the end of text, from a line's start where that fits.
func lastBytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, lines, ok := strings.Cut(text, "\n"); ok {
		return lines
	}
	return strings.ToValidUTF8(text, "")
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

// clientName returns what says how an agent calls itself.
func clientName(agent *bridge.Agent) func() string {
	return func() string {
		name, _ := agent.Client()
		return name
	}
}

// sessionLabel is what status and logs call a Python session of an agent.
func sessionLabel(agent *bridge.Agent) string {
	if python := agent.Python(); python != "" {
		return agent.Connection() + "/" + python
	}
	return agent.Connection()
}

// open makes a session's workspace.
func (d *daemon) open(ctx context.Context, hello bridge.Hello, agent *bridge.Agent) (bridge.Workspace, error) {
	log := d.audit.session(agent)
	watch := d.watch.session(agent, log)
	servers, err := d.session(hello.CWD, hello.Env, proxy.SessionOptions{
		Agent: agent, Audit: watch, Client: clientName(agent), Label: sessionLabel(agent), Waits: agent.Wait,
		Saved: d.savedDocs,
	})
	if err != nil {
		return nil, err
	}
	left, err := d.legacy.take(ctx, agent.Session(), agent.Python())
	if err != nil {
		servers.Close()
		return nil, err
	}
	var adopted *sandbox.Sandbox
	lost := ""
	if left != nil {
		adopted, lost = left.sandbox, left.lost
		if err := servers.Load(ctx, left.servers); err != nil { // code that calls them is told
			d.log.Warn().Str("session", agent.Connection()).Err(err).Msg("load servers of an earlier daemon's session")
		}
	}
	servers.note = func(names []string) { d.legacy.load(agent.Session(), agent.Python(), names) }
	memories := d.memories.Session(hello.CWD)
	tools := d.tools.Session()
	runs := sandbox.NewSession(d.pool, sandbox.SessionOptions{
		Owner:   agent.Connection(),
		RPC:     bridge.Methods{"": servers.calls, "memory": memories, "saved": d.tools},
		Tell:    bridge.News{"memory": memories.Tell, "saved": tools.Tell}.Tell,
		Timeout: time.Duration(d.conf.Run.Timeout), MaxTimeout: time.Duration(d.conf.Run.MaxTimeout),
		Adopted: adopted, Lost: lost, Holds: func(t sandbox.Ticket) { d.legacy.hold(agent.Session(), agent.Python(), t) },
	})
	return watch.workspace(log.workspace(bridge.NewWorkspace(runs, servers, d.keeper()))), nil
}

// session opens the servers of a folder, for somebody with an environment. The
// caller must close them.
func (d *daemon) session(cwd string, env map[string]string, o proxy.SessionOptions) (*upstreams, error) {
	o.Getenv = func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
	home, ok := env["HOME"]
	if !ok {
		return nil, errors.New("the environment has no HOME: start the agent, or the command, with one")
	}
	list := d.serverList(home, cwd, o.Getenv)
	o.Servers, o.Home, o.Cwd = list.get, home, cwd
	return &upstreams{calls: d.proxy.NewSession(o), list: list}, nil
}

// serverList is what a session in a folder may load. The caller must close it,
// or the daemon.
func (d *daemon) serverList(home, cwd string, getenv func(string) (string, bool)) *serverList {
	o := d.conf.discovery(d.paths, home, cwd, getenv)
	o.Memory = d.memory
	return &serverList{opts: o, log: d.log, files: d.watcher.open(), extra: []string{d.paths.trustPath()}}
}

// keeper saves what one session publishes; nil if nothing is to be saved.
func (d *daemon) keeper() bridge.Keeper {
	if d.paths.output == "" {
		return nil
	}
	return newOutbox(d.paths.output, int64(d.conf.Files.MaxBytes))
}
