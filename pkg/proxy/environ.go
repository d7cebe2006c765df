package proxy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/bridged/bridged/pkg/discovery"
)

// The variables of ours in a server's environment.
const (
	// depthVar lets a shim that a server of ours starts see where it is, and
	// refuse: a bridged below itself would never end.
	depthVar = "BRIDGED_DEPTH"

	// markerVar is different in each process that is started, and inherited by
	// what it starts, so that all of it can be found when it has to end.
	markerVar = "BRIDGED_UPSTREAM"
)

// inherited are the variables that a server gets of the agent's environment,
// or of the daemon's when the agent's is not known: what programs need to be
// found and to work, and nothing that is likely to be a secret.
var inherited = strings.Fields(`
	PATH HOME USER LOGNAME SHELL TZ TMPDIR TMP TEMP
	LANG LANGUAGE LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME
	XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR
	DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS SSH_AUTH_SOCK
	HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
	SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO
	NVM_DIR NVM_BIN FNM_DIR VOLTA_HOME PNPM_HOME BUN_INSTALL DENO_DIR
	PYENV_ROOT ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR UV_CACHE_DIR PIPX_HOME PIPX_BIN_DIR
	CARGO_HOME RUSTUP_HOME GOPATH GOROOT JAVA_HOME DOTNET_ROOT HOMEBREW_PREFIX
	NPM_CONFIG_USERCONFIG NPM_CONFIG_CACHE NPM_CONFIG_PREFIX npm_config_cache npm_config_prefix
	DOCKER_HOST DOCKER_CONTEXT CONTAINER_HOST KUBECONFIG`)

// environment returns the environment of a server: what it inherits, the
// definition's own variables, and ours. getenv looks into the agent's.
func environment(s discovery.Server, getenv func(string) (string, bool)) map[string]string {
	env := map[string]string{}
	from := getenv
	if _, known := getenv("PATH"); !known {
		from = os.LookupEnv
	}
	for _, name := range inherited {
		if value, ok := from(name); ok {
			env[name] = value
		}
	}
	useUTF8(env)
	for _, name := range s.Unset {
		delete(env, name)
	}
	maps.Copy(env, s.Env)
	env[depthVar] = strconv.Itoa(depth(getenv) + 1)
	return env
}

// useUTF8 makes programs write UTF-8 where nothing says what they should
// write, as when the daemon was started by systemd.
func useUTF8(env map[string]string) {
	if env["LC_ALL"] == "" && env["LC_CTYPE"] == "" && env["LANG"] == "" {
		env["LANG"] = "C.UTF-8"
	}
	env["PYTHONUTF8"] = "1"
}

func depth(getenv func(string) (string, bool)) int {
	text, _ := getenv(depthVar)
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// A command is a process to start: everything about it is decided.
type command struct {
	name string // of the server, for messages
	path string // of the program, absolute
	args []string
	env  map[string]string
	dir  string
}

// minSecret is the length from which on a value is taken for a secret. Shorter
// ones are in every text.
const minSecret = 8

// environ returns the environment as the system wants it.
func (c command) environ() []string {
	list := make([]string, 0, len(c.env)+1)
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		list = append(list, name+"="+c.env[name])
	}
	return list
}

// resolveCommand checks a definition and finds its program. s must have been
// expanded, and hold its whole environment and its folder. Arguments are never
// given to a shell.
func resolveCommand(s discovery.Server) (command, error) {
	c := command{name: s.Name, args: s.Args, env: s.Env, dir: s.Cwd}
	if err := checkDir(s.Cwd); err != nil {
		return c, err
	}
	for _, text := range slices.Concat([]string{s.Command}, s.Args, c.environ()) {
		if strings.Contains(text, "\x00") {
			return c, errors.New("its definition contains a NUL character")
		}
	}
	path, err := lookPath(s.Command, s.Env["PATH"], s.Cwd)
	if err != nil {
		return c, explain(s, err)
	}
	c.path = path
	return c, nil
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("its working folder (cwd) %s does not exist: create it or correct cwd", dir)
	case err != nil:
		return fmt.Errorf("its working folder (cwd) cannot be used: %w", err)
	case !info.IsDir():
		return fmt.Errorf("its working folder (cwd) %s is not a folder", dir)
	}
	return nil
}

// lookPath finds a program the way a shell in dir would, in the server's PATH
// and not in the daemon's.
func lookPath(name, path, dir string) (string, error) {
	if name == "" {
		return "", errors.New("it has no command")
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	var denied error
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		file := filepath.Join(folder, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("command %q is %w in PATH (%s)", clip(name, 200), errNotFound, clip(path, 500))
}

// errNotFound is worded to stand in the middle of a sentence.
var errNotFound = errors.New("not found")

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("command %s is %w", clip(file, 300), errNotFound)
	case err != nil:
		return fmt.Errorf("command cannot be used: %w", err)
	case info.IsDir():
		return fmt.Errorf("command %s is a folder", file)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("command %s is not executable: %w", file, fs.ErrPermission)
	}
	return nil
}

// windowsOnly are commands that agents' configs for Windows begin with.
var windowsOnly = []string{"cmd", "cmd.exe", "powershell", "powershell.exe", "wsl", "wsl.exe"}

// explain adds to a command that was not found what is probably wrong with it.
func explain(s discovery.Server, err error) error {
	if !errors.Is(err, errNotFound) {
		return err
	}
	first, rest, several := strings.Cut(strings.TrimSpace(s.Command), " ")
	base := strings.ToLower(filepath.Base(s.Command))
	switch {
	case runtime.GOOS != "windows" && (slices.Contains(windowsOnly, base) || strings.HasSuffix(base, ".cmd") || strings.HasSuffix(base, ".bat")):
		return fmt.Errorf("%w: it looks like an entry for Windows only; write the program itself as command, without cmd /c", err)
	case several:
		return fmt.Errorf("%w: it looks like a whole command line; write \"command\": %q and put the rest (%s) into args", err, clip(first, 100), clip(rest, 200))
	}
	return fmt.Errorf("%w: install it, write its full path, or add its folder to the PATH that the agent runs with", err)
}
