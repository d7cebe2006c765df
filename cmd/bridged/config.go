package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
)

// config is the daemon's configuration. Each field is a key of config.toml, a
// flag and an environment variable; keys lists them.
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
		Warm   count `toml:"warm"`
		Max    count `toml:"max"`
		Memory share `toml:"memory"`
	} `toml:"pool"`
	Run struct {
		Timeout    duration `toml:"timeout"`
		MaxTimeout duration `toml:"max_timeout"`
		YieldAfter patience `toml:"yield_after"`

		SessionIdle patience `toml:"session_idle"`
		PauseAfter  patience `toml:"pause_after"`
		MaxSessions count    `toml:"max_sessions"`
	} `toml:"run"`
	Servers struct {
		Idle        duration `toml:"idle"`
		CallTimeout duration `toml:"call_timeout"`
	} `toml:"servers"`
	Log struct {
		Level  word `toml:"level"`
		Format word `toml:"format"`
	} `toml:"log"`
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
	c.Run.Timeout = duration(30e9)
	c.Run.MaxTimeout = duration(120e9)
	c.Run.YieldAfter = patience(50e9)
	c.Run.SessionIdle = patience(30 * time.Minute)
	c.Run.PauseAfter = patience(time.Minute)
	c.Run.MaxSessions = 16
	c.Servers.Idle = duration(600e9)
	c.Servers.CallTimeout = duration(proxy.DefaultCallTimeout)
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
		{"run.timeout", "MCP_BRIDGE_TIMEOUT", "time limit of a call that sets none", &c.Run.Timeout},
		{"run.max_timeout", "MCP_BRIDGE_MAX_TIMEOUT", "highest time limit that a call may set", &c.Run.MaxTimeout},
		{"run.yield_after", "MCP_BRIDGE_YIELD_AFTER", "when a call that takes no progress is answered though its code still runs, or never", &c.Run.YieldAfter},
		{"run.session_idle", "MCP_BRIDGE_SESSION_IDLE", "how long a session may be idle before its sandbox is ended, or never", &c.Run.SessionIdle},
		{"run.pause_after", "MCP_BRIDGE_PAUSE_AFTER", "how long a session may be idle before its sandbox is paused until the next call, or never", &c.Run.PauseAfter},
		{"run.max_sessions", "MCP_BRIDGE_MAX_SESSIONS", "named sessions that one agent may have at once, the default one included", &c.Run.MaxSessions},
		{"servers.idle", "MCP_BRIDGE_SERVER_IDLE", "how long an MCP server may be idle before it is stopped", &c.Servers.Idle},
		{"servers.call_timeout", "MCP_BRIDGE_CALL_TIMEOUT", "time limit of one call of an MCP server's tool whose definition sets none", &c.Servers.CallTimeout},
		{"log.level", "MCP_BRIDGE_LOG_LEVEL", "debug, info, warn or error", &c.Log.Level},
		{"log.format", "MCP_BRIDGE_LOG_FORMAT", "text, json, or auto: text on a terminal", &c.Log.Format},
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
	return nil
}

// nearest suggests what an unknown key was meant to be.
func (c *config) nearest(path []string) string {
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
	case c.Run.MaxSessions < 1:
		return errors.New("run.max_sessions 0: no session could start; give at least 1")
	case c.Run.Timeout > c.Run.MaxTimeout:
		return fmt.Errorf("run.timeout %s is more than run.max_timeout %s", c.Run.Timeout, c.Run.MaxTimeout)
	}
	if err := cmp.Or(c.checkFolders(), c.Mounts.check()); err != nil {
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
