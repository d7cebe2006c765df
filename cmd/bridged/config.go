package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"

	"github.com/bridged/bridged/pkg/audit"
	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/memory"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
)

// config is the daemon's configuration. Each field is a key of config.toml, a
// flag and an environment variable; keys lists them. The tables of clients,
// servers and rules are in the file alone.
type config struct {
	Engine struct {
		Runtime word `toml:"runtime"`
	} `toml:"engine"`
	Sandbox struct {
		Image     word     `toml:"image"`
		Memory    byteSize `toml:"memory"`
		Tmp       byteSize `toml:"tmp"`
		Workspace byteSize `toml:"workspace"`
		Pids      count    `toml:"pids"`
		CPUs      cores    `toml:"cpus"`
		User      word     `toml:"user"`
		Imports   wordList `toml:"imports"`
	} `toml:"sandbox"`
	Mounts mountList `toml:"mounts"`
	Files  struct {
		Output   word     `toml:"output"`
		MaxBytes byteSize `toml:"max_bytes"`
	} `toml:"files"`
	Pool struct {
		Warm   count    `toml:"warm"`
		Max    count    `toml:"max"`
		Memory share    `toml:"memory"`
		Wait   patience `toml:"wait"`
	} `toml:"pool"`
	Run struct {
		Timeout    duration `toml:"timeout"`
		MaxTimeout duration `toml:"max_timeout"`
		YieldAfter patience `toml:"yield_after"`

		SessionIdle patience `toml:"session_idle"`
		PauseAfter  patience `toml:"pause_after"`
		MaxSessions count    `toml:"max_sessions"`
		AdoptGrace  patience `toml:"adopt_grace"`
	} `toml:"run"`
	Memory struct {
		Folder   word     `toml:"folder"`
		MaxBytes byteSize `toml:"max_bytes"`
		MaxTotal byteSize `toml:"max_total"`
		MaxCount count    `toml:"max_count"`
		History  count    `toml:"history"`
	} `toml:"memory"`
	Tools struct {
		Enabled  toggle   `toml:"enabled"`
		MaxBytes byteSize `toml:"max_bytes"`
		MaxCount count    `toml:"max_count"`
		Versions count    `toml:"versions"`
	} `toml:"tools"`
	Output struct {
		Mode      outputMode `toml:"mode"`
		MaxTokens count      `toml:"max_tokens"`
	} `toml:"output"`
	Client  clientTables `toml:"client"`
	Servers struct {
		Idle        duration `toml:"idle"`
		CallTimeout duration `toml:"call_timeout"`
		CatalogAge  patience `toml:"catalog_age"`
	} `toml:"servers"`
	Discovery struct {
		Sources        wordList `toml:"sources"`
		Exclude        wordList `toml:"exclude"`
		ProjectConfigs word     `toml:"project_configs"`
		TrustAgents    toggle   `toml:"trust_agents"`
	} `toml:"discovery"`
	Server serverTables `toml:"server"`
	Policy policyTable  `toml:"policy"`
	Audit  struct {
		Enabled   toggle   `toml:"enabled"`
		Path      word     `toml:"path"`
		Arguments word     `toml:"arguments"`
		Code      word     `toml:"code"`
		MaxSize   byteSize `toml:"max_size"`
		MaxAge    patience `toml:"max_age"`
		MaxFiles  count    `toml:"max_files"`
		Sync      delay    `toml:"sync"`
		OnError   word     `toml:"on_error"`
	} `toml:"audit"`
	Trace struct {
		Endpoint word     `toml:"endpoint"`
		Headers  wordList `toml:"headers"`
		Sample   ratio    `toml:"sample"`
		Servers  toggle   `toml:"servers"`
	} `toml:"trace"`
	Ops struct {
		Listen    word   `toml:"listen"`
		TokenFile word   `toml:"token_file"`
		PProf     toggle `toml:"pprof"`
	} `toml:"ops"`
	Log struct {
		Level  word `toml:"level"`
		Format word `toml:"format"`
	} `toml:"log"`

	reaper []string // the command that ends what servers leave when the daemon is killed; nil for none
}

// A patience is a span of time or "never", which is its zero value.
type patience time.Duration

func (p patience) String() string {
	if p == 0 {
		return "never"
	}
	return duration(p).String()
}

// Set parses s; a bare number is seconds.
func (p *patience) Set(s string) error {
	if s == "never" || s == "0" {
		*p = 0
		return nil
	}
	if err := (*duration)(p).Set(s); err != nil {
		return fmt.Errorf("%w, or never", err)
	}
	return nil
}

// Type names the kind of value in help texts.
func (*patience) Type() string { return "duration" }

// defaultImage is what `bridged image build` and `import` make.
const defaultImage = "localhost/bridged-sandbox:latest"

func defaultConfig() *config {
	c := &config{}
	c.Sandbox.Image = defaultImage
	c.Sandbox.Memory = 512 << 20
	c.Sandbox.Tmp = 64 << 20
	c.Sandbox.Workspace = 64 << 20
	c.Files.MaxBytes = 256 << 20
	c.Sandbox.Pids = 128
	c.Sandbox.CPUs = 1
	c.Sandbox.User = "65534:65534"
	c.Sandbox.Imports = wordList{"numpy", "pandas"}
	c.Pool.Warm = 2
	c.Pool.Max = 32
	c.Pool.Memory = share{percent: 75}
	c.Pool.Wait = patience(time.Minute)
	c.Run.Timeout = duration(30e9)
	c.Run.MaxTimeout = duration(120e9)
	c.Run.YieldAfter = patience(50e9)
	c.Run.SessionIdle = patience(30 * time.Minute)
	c.Run.PauseAfter = patience(time.Minute)
	c.Run.MaxSessions = 16
	c.Run.AdoptGrace = patience(5 * time.Minute)
	c.Output.Mode = outputMode(bridge.Compact)
	c.Output.MaxTokens = bridge.DefaultMaxTokens
	c.Servers.Idle = duration(600e9)
	c.Servers.CallTimeout = duration(proxy.DefaultCallTimeout)
	c.Servers.CatalogAge = patience(proxy.DefaultCatalogAge)
	c.Discovery.ProjectConfigs = projectAsk
	c.Audit.Enabled = true
	c.Audit.Arguments = word(audit.Digest)
	c.Audit.Code = word(audit.Full)
	c.Audit.MaxSize = audit.DefaultMaxSize
	c.Audit.MaxAge = patience(30 * 24 * time.Hour)
	c.Audit.MaxFiles = audit.DefaultMaxFiles
	c.Audit.Sync = delay(time.Second)
	c.Audit.OnError = onErrorContinue
	c.Memory.MaxBytes = memory.DefaultMaxBytes
	c.Memory.MaxTotal = memory.DefaultMaxTotal
	c.Memory.MaxCount = memory.DefaultMaxCount
	c.Memory.History = memory.DefaultHistory
	c.Tools.Enabled = true
	c.Tools.MaxBytes = memory.DefaultToolBytes
	c.Tools.MaxCount = memory.DefaultTools
	c.Tools.Versions = memory.DefaultToolVersions
	c.Trace.Servers = true
	c.Log.Level = "info"
	c.Log.Format = "auto"
	return c
}

// A key is one thing that can be configured.
type key struct {
	name  string // in config.toml, section first
	env   string
	usage string
	value pflag.Value
}

// flag is the key's name on the command line.
func (k key) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(k.name) }

// keys lists all keys of c. docs/configuration.md is checked against it.
func (c *config) keys() []key {
	return []key{
		{"engine.runtime", "MCP_BRIDGE_RUNTIME", "podman, docker, or the address of an engine's socket; empty: look for one", &c.Engine.Runtime},
		{"sandbox.image", "MCP_BRIDGE_IMAGE", "image of the sandboxes, with Python 3.9 or later", &c.Sandbox.Image},
		{"sandbox.memory", "MCP_BRIDGE_MEMORY", "memory of one sandbox, swap included", &c.Sandbox.Memory},
		{"sandbox.tmp", "MCP_BRIDGE_TMP", "size of /tmp, which counts as the sandbox's memory", &c.Sandbox.Tmp},
		{"sandbox.workspace", "MCP_BRIDGE_WORKSPACE", "size of /workspace, which counts as the sandbox's memory", &c.Sandbox.Workspace},
		{"sandbox.pids", "MCP_BRIDGE_PIDS", "processes and threads in one sandbox", &c.Sandbox.Pids},
		{"sandbox.cpus", "MCP_BRIDGE_CPUS", "processor cores that one sandbox may use", &c.Sandbox.CPUs},
		{"sandbox.user", "MCP_BRIDGE_CONTAINER_USER", "uid:gid of the code, as numbers other than 0", &c.Sandbox.User},
		{"sandbox.imports", "MCP_BRIDGE_IMPORTS", "modules imported before a sandbox is used; missing ones are left out", &c.Sandbox.Imports},
		{"mounts", "MCP_BRIDGE_MOUNTS", "files and folders that code may read: SOURCE:TARGET, or tables in the file", &c.Mounts},
		{"files.output", "MCP_BRIDGE_OUTPUT_DIR", "folder in which published files are saved; empty: none", &c.Files.Output},
		{"files.max_bytes", "MCP_BRIDGE_OUTPUT_MAX_BYTES", "bytes that one session may save there", &c.Files.MaxBytes},
		{"pool.warm", "MCP_BRIDGE_POOL_WARM", "sandboxes kept ready", &c.Pool.Warm},
		{"pool.max", "MCP_BRIDGE_POOL_MAX", "sandboxes in all, those of sessions included", &c.Pool.Max},
		{"pool.memory", "MCP_BRIDGE_POOL_MEMORY", "what the sandboxes' memory limits may add up to: a size, a share of the engine's machine, or never", &c.Pool.Memory},
		{"pool.wait", "MCP_BRIDGE_POOL_WAIT", "how long a call waits for a sandbox when code runs in all that may be, or never: it is told so at once", &c.Pool.Wait},
		{"run.timeout", "MCP_BRIDGE_TIMEOUT", "time limit of a call that sets none", &c.Run.Timeout},
		{"run.max_timeout", "MCP_BRIDGE_MAX_TIMEOUT", "highest time limit that a call may set", &c.Run.MaxTimeout},
		{"run.yield_after", "MCP_BRIDGE_YIELD_AFTER", "when a call that takes no progress is answered though its code still runs, or never", &c.Run.YieldAfter},
		{"run.session_idle", "MCP_BRIDGE_SESSION_IDLE", "how long a session may be idle before its sandbox is ended, or never", &c.Run.SessionIdle},
		{"run.pause_after", "MCP_BRIDGE_PAUSE_AFTER", "how long a session may be idle before its sandbox is paused until the next call, or never", &c.Run.PauseAfter},
		{"run.max_sessions", "MCP_BRIDGE_MAX_SESSIONS", "named sessions that one agent may have at once, the default one included", &c.Run.MaxSessions},
		{"run.adopt_grace", "MCP_BRIDGE_ADOPT_GRACE", "how long sandboxes of a daemon that ended wait for the next one, and that for their shims, or never: they end with their daemon", &c.Run.AdoptGrace},
		{"memory.folder", "MCP_BRIDGE_STATE_DIR", "folder whose user_tools holds what outlives sessions; empty: ~/MCPs", &c.Memory.Folder},
		{"memory.max_bytes", "MCP_BRIDGE_MEMORY_MAX_BYTES", "size of one memory, its value and metadata as JSON", &c.Memory.MaxBytes},
		{"memory.max_total", "MCP_BRIDGE_MEMORY_MAX_TOTAL", "size of all global memories, and of those of each project; their history may have as much", &c.Memory.MaxTotal},
		{"memory.max_count", "MCP_BRIDGE_MEMORY_MAX_COUNT", "global memories, and memories of each project", &c.Memory.MaxCount},
		{"memory.history", "MCP_BRIDGE_MEMORY_HISTORY", "earlier versions of each memory that are kept", &c.Memory.History},
		{"tools.enabled", "MCP_BRIDGE_TOOLS", "whether code may save tools, and use those that were saved, see docs/tools.md", &c.Tools.Enabled},
		{"tools.max_bytes", "MCP_BRIDGE_TOOLS_MAX_BYTES", "size of one saved tool, with all that it needs", &c.Tools.MaxBytes},
		{"tools.max_count", "MCP_BRIDGE_TOOLS_MAX_COUNT", "saved tools in all", &c.Tools.MaxCount},
		{"tools.versions", "MCP_BRIDGE_TOOLS_VERSIONS", "versions of each saved tool that are kept", &c.Tools.Versions},
		{"output.mode", "MCP_BRIDGE_OUTPUT_MODE", "form of results for agents that ask for none: compact, toon or json, see docs/results.md", &c.Output.Mode},
		{"output.max_tokens", "MCP_BRIDGE_OUTPUT_TOKENS", "tokens that the text of a result may cost; the rest is cut, see docs/results.md", &c.Output.MaxTokens},
		{"servers.idle", "MCP_BRIDGE_SERVER_IDLE", "how long an MCP server may be idle before it is stopped", &c.Servers.Idle},
		{"servers.call_timeout", "MCP_BRIDGE_CALL_TIMEOUT", "time limit of one call of an MCP server's tool whose definition sets none", &c.Servers.CallTimeout},
		{"servers.catalog_age", "MCP_BRIDGE_CATALOG_AGE", "age past which a list of tools that is looked at is asked for anew in the background, or never", &c.Servers.CatalogAge},
		{"discovery.sources", "MCP_BRIDGE_SOURCES", "agents whose configuration files are read; empty: all", &c.Discovery.Sources},
		{"discovery.exclude", "MCP_BRIDGE_EXCLUDE", "what is not read of them: agents, servers as agent/name, files and folders", &c.Discovery.Exclude},
		{"discovery.project_configs", "MCP_BRIDGE_PROJECT_CONFIGS", "servers that a project's own files define: ask, allow or deny", &c.Discovery.ProjectConfigs},
		{"discovery.trust_agents", "MCP_BRIDGE_TRUST_AGENTS", "whether a project's server needs no approval that was allowed in Claude Code", &c.Discovery.TrustAgents},
		{"audit.enabled", "MCP_BRIDGE_AUDIT", "whether runs and calls are logged, see docs/audit.md", &c.Audit.Enabled},
		{"audit.path", "MCP_BRIDGE_AUDIT_PATH", "folder of the audit log, of one daemon alone; empty: in the state folder", &c.Audit.Path},
		{"audit.arguments", "MCP_BRIDGE_AUDIT_ARGUMENTS", "what is logged of a call's arguments: digest, masked or full", &c.Audit.Arguments},
		{"audit.code", "MCP_BRIDGE_AUDIT_CODE", "what is logged of a run's code: digest or full", &c.Audit.Code},
		{"audit.max_size", "MCP_BRIDGE_AUDIT_MAX_SIZE", "size at which a new file of the audit log is begun", &c.Audit.MaxSize},
		{"audit.max_age", "MCP_BRIDGE_AUDIT_MAX_AGE", "age at which a new file of the audit log is begun, or never", &c.Audit.MaxAge},
		{"audit.max_files", "MCP_BRIDGE_AUDIT_MAX_FILES", "files of the audit log that are kept", &c.Audit.MaxFiles},
		{"audit.sync", "MCP_BRIDGE_AUDIT_SYNC", "how long a line may wait until it is on the disk, or always: not at all", &c.Audit.Sync},
		{"audit.on_error", "MCP_BRIDGE_AUDIT_ON_ERROR", "when the audit log can't be written: continue, and note the gap, or refuse runs and calls", &c.Audit.OnError},
		{"trace.endpoint", "MCP_BRIDGE_TRACE_ENDPOINT", "OTLP/HTTP collector that calls' traces are sent to, see docs/tracing.md; empty: what OTEL_* variables say; off: none", &c.Trace.Endpoint},
		{"trace.headers", "MCP_BRIDGE_TRACE_HEADERS", "what is sent along to the collector: NAME=VALUE, or NAME=file:/path", &c.Trace.Headers},
		{"trace.sample", "MCP_BRIDGE_TRACE_SAMPLE", "share of the traces that no agent has begun which are made, 0 to 1; empty: what OTEL_TRACES_SAMPLER says, else all", &c.Trace.Sample},
		{"trace.servers", "MCP_BRIDGE_TRACE_SERVERS", "whether MCP servers are told of the trace that a call is part of, also of an agent's own", &c.Trace.Servers},
		{"ops.listen", "MCP_BRIDGE_OPS_LISTEN", "address of this machine for docs/operations.md, such as 127.0.0.1:7070, beside the socket; empty: none", &c.Ops.Listen},
		{"ops.token_file", "MCP_BRIDGE_OPS_TOKEN_FILE", "file of the token that this address asks for, made if it is not there; empty: in the state folder", &c.Ops.TokenFile},
		{"ops.pprof", "MCP_BRIDGE_OPS_PPROF", "whether profiles of the daemon can be had at /debug/pprof", &c.Ops.PProf},
		{"log.level", "MCP_BRIDGE_LOG_LEVEL", "debug, info, warn or error", &c.Log.Level},
		{"log.format", "MCP_BRIDGE_LOG_FORMAT", "text, json, or auto: text on a terminal, fields in the journal", &c.Log.Format},
	}
}

// addFlags adds a flag for every key. What they are set to is read by
// loadConfig, after the file and the environment.
func addFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration file (env BRIDGED_CONFIG)")
	for _, k := range defaultConfig().keys() {
		flags.Var(k.value, k.flag(), fmt.Sprintf("%s (env %s)", k.usage, k.env))
	}
}

// loadConfig merges, later ones over earlier ones: defaults, the file, the
// environment, flags.
func loadConfig(flags *pflag.FlagSet, getenv func(string) string) (*config, error) {
	c := defaultConfig()
	if err := c.readFile(flags, getenv); err != nil {
		return nil, err
	}
	for _, k := range c.keys() {
		if v := getenv(k.env); v != "" {
			if err := k.value.Set(v); err != nil {
				return nil, fmt.Errorf("environment variable %s: %w", k.env, err)
			}
		}
		if f := flags.Lookup(k.flag()); f != nil && f.Changed {
			if err := k.value.Set(f.Value.String()); err != nil {
				return nil, fmt.Errorf("flag --%s: %w", k.flag(), err)
			}
		}
	}
	return c, c.check()
}

// readFile reads the configuration file. One that was not asked for by name
// may be missing.
func (c *config) readFile(flags *pflag.FlagSet, getenv func(string) string) error {
	path, asked := configPath(flags, getenv)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !asked {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading configuration: %w", err)
	}
	return c.parse(path, data)
}

func configPath(flags *pflag.FlagSet, getenv func(string) string) (path string, asked bool) {
	if f := flags.Lookup("config"); f != nil && f.Changed {
		return f.Value.String(), true
	}
	if p := getenv("BRIDGED_CONFIG"); p != "" {
		return p, true
	}
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(getenv("HOME"), ".config")
	}
	return filepath.Join(dir, "bridged", "config.toml"), false
}

// parse decodes TOML. Every error names the file and the line.
func (c *config) parse(path string, data []byte) error {
	d := toml.NewDecoder(strings.NewReader(string(data)))
	err := d.DisallowUnknownFields().EnableUnmarshalerInterface().Decode(c)
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		var lines []error
		for _, e := range missing.Errors {
			row, _ := e.Position()
			lines = append(lines, fmt.Errorf("%s:%d: unknown key %s%s", path, row, strings.Join(e.Key(), "."), c.nearest(e.Key())))
		}
		return errors.Join(lines...)
	}
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := e.Position()
		return fmt.Errorf("%s:%d:%d: %s", path, row, column, strings.TrimPrefix(e.Error(), "toml: "))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.Mounts.place(path, data)
	c.Client.place(path, data)
	c.Server.place(path, data)
	c.Policy.place(path, data)
	return nil
}

// nearest suggests what an unknown key was meant to be.
func (c *config) nearest(path []string) string {
	if path[0] == "server" && len(path) > 1 {
		return nearestServerKey(path[len(path)-1])
	}
	if path[0] == "client" && len(path) > 1 {
		return nearestClientKey(path[len(path)-1])
	}
	if path[0] == "policy" && len(path) > 1 {
		return nearestPolicyKey(path[1:])
	}
	var names []string
	for _, k := range c.keys() {
		names = append(names, k.name)
	}
	if near := discovery.Nearest(strings.Join(path, "."), names, 1); len(near) > 0 {
		return "; did you mean " + near[0] + "?"
	}
	return "; known keys are in docs/configuration.md"
}

var userPattern = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`)

// check refuses values that can't work together or at all.
func (c *config) check() error {
	switch {
	case c.Sandbox.Image == "":
		return errors.New("sandbox.image is empty: name an image, such as " + defaultImage)
	case !userPattern.MatchString(string(c.Sandbox.User)):
		return fmt.Errorf("sandbox.user %q: give uid:gid as numbers other than 0, such as 65534:65534", c.Sandbox.User)
	case c.Sandbox.Memory < 64<<20:
		return fmt.Errorf("sandbox.memory %s: Python and its warm imports need at least 64m", c.Sandbox.Memory)
	case c.Sandbox.Pids < 16:
		return fmt.Errorf("sandbox.pids %d: a sandbox needs at least 16", c.Sandbox.Pids)
	case c.Pool.Max < 1:
		return errors.New("pool.max 0: no session could start; give at least 1")
	case c.Pool.Warm > c.Pool.Max:
		return fmt.Errorf("pool.warm %d is more than pool.max %d", c.Pool.Warm, c.Pool.Max)
	case !fitsResults(c.Output.MaxTokens):
		return fmt.Errorf("output.max_tokens is %d: %w", c.Output.MaxTokens, errMaxTokens)
	case c.Run.MaxSessions < 1:
		return errors.New("run.max_sessions 0: no session could start; give at least 1")
	case c.Run.Timeout > c.Run.MaxTimeout:
		return fmt.Errorf("run.timeout %s is more than run.max_timeout %s", c.Run.Timeout, c.Run.MaxTimeout)
	}
	if err := cmp.Or(c.checkFolders(), c.Mounts.check(), c.Client.check(), c.Server.check(), c.Policy.check(os.Getenv("HOME")), c.checkAudit(), c.checkTrace(), c.checkOps(), c.checkDiscovery(), c.checkMemory()); err != nil {
		return err
	}
	if _, err := logLevel(string(c.Log.Level)); err != nil {
		return err
	}
	switch c.Log.Format {
	case "auto", "text", "json":
		return nil
	}
	return fmt.Errorf("log.format %q: use text, json or auto", c.Log.Format)
}

func (c *config) checkDiscovery() error {
	switch c.Discovery.ProjectConfigs {
	case projectAsk, projectAllow, projectDeny:
	default:
		return fmt.Errorf("discovery.project_configs %q: use ask, allow or deny", c.Discovery.ProjectConfigs)
	}
	for _, agent := range c.Discovery.Sources {
		if !slices.Contains(discovery.Agents(), agent) {
			return fmt.Errorf("discovery.sources: there is no agent %q; there are: %s", agent, strings.Join(discovery.Agents(), ", "))
		}
	}
	for _, what := range c.Discovery.Exclude {
		if err := checkExclude(what); err != nil {
			return err
		}
	}
	return nil
}

func (c *config) checkMemory() error {
	m := c.Memory
	switch {
	case m.MaxBytes < 1 || m.MaxBytes > memory.MaxMaxBytes:
		return fmt.Errorf("memory.max_bytes %s: give 1 to %s", m.MaxBytes, byteSize(memory.MaxMaxBytes))
	case m.MaxTotal < m.MaxBytes:
		return fmt.Errorf("memory.max_total %s is less than memory.max_bytes %s", m.MaxTotal, m.MaxBytes)
	case m.MaxCount < 1:
		return errors.New("memory.max_count 0: nothing could be saved; give at least 1")
	}
	return nil
}

// checkExclude refuses what would leave nothing out.
func checkExclude(what string) error {
	if strings.HasPrefix(what, "~/") || filepath.IsAbs(what) {
		if _, err := filepath.Match(what, ""); err != nil {
			return fmt.Errorf("discovery.exclude %q: %w", what, err)
		}
		return nil
	}
	if agent, _, _ := strings.Cut(what, "/"); slices.Contains(discovery.Agents(), agent) {
		return nil
	}
	return fmt.Errorf("discovery.exclude %q: give an agent, a server as agent/name, or a path that begins with / or ~/; agents are: %s",
		what, strings.Join(discovery.Agents(), ", "))
}

// checkFolders keeps the writable folders, which lie in memory, below the
// memory limit: code that fills one gets an error then, where it would else be
// killed.
func (c *config) checkFolders() error {
	total := byteSize(runtime.ShmBytes)
	for _, t := range c.spec().Tmpfs {
		total += byteSize(t.SizeBytes)
	}
	if total < c.Sandbox.Memory {
		return nil
	}
	return fmt.Errorf("sandbox.tmp %s, sandbox.workspace %s and the other folders in memory come to %s, which is not below sandbox.memory %s: make the folders smaller or the memory larger",
		c.Sandbox.Tmp, c.Sandbox.Workspace, total, c.Sandbox.Memory)
}

// spec is what the configuration says of a sandbox.
func (c *config) spec() runtime.Spec {
	s := runtime.DefaultSpec(string(c.Sandbox.Image))
	s.MemoryBytes, s.Pids, s.CPUs = int64(c.Sandbox.Memory), int64(c.Sandbox.Pids), float64(c.Sandbox.CPUs)
	s.User, s.Mounts = string(c.Sandbox.User), c.Mounts.mounts()
	sizes := map[string]byteSize{"/tmp": c.Sandbox.Tmp, "/workspace": c.Sandbox.Workspace}
	for i, t := range s.Tmpfs {
		if size, ok := sizes[t.Target]; ok {
			s.Tmpfs[i].SizeBytes = int64(size)
		}
	}
	return s
}
