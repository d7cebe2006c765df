package discovery

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unmistakable are names of ours and of the bridge whose config we read. They
// mean us anywhere in a command line: an aggregator that starts itself, or a
// second one over the same files, starts copies without end.
var unmistakable = map[string]bool{
	"bridge-shim":                       true,
	"mcp-server-code-execution-mode":    true,
	"mcp_server_code_execution_mode":    true,
	"mcp_server_code_execution_mode.py": true,
}

// daemon is our own program's name. It is also an ordinary word (as in docker
// run --network bridged), so it counts only where a program is named.
const daemon = "bridged"

// socketTail ends the path of the daemon's socket wherever it lies.
const socketTail = "/bridged/mcp.sock"

// launchers are programs that run the program named in their arguments.
var launchers = map[string]bool{
	"env": true, "sh": true, "bash": true, "dash": true, "zsh": true, "fish": true, "ksh": true,
	"exec": true, "nohup": true, "nice": true, "ionice": true, "timeout": true, "sudo": true, "doas": true,
	"setsid": true, "stdbuf": true, "xargs": true, "flatpak-spawn": true, "systemd-run": true,
	"npx": true, "npm": true, "bunx": true, "pnpm": true, "pnpx": true, "yarn": true, "uvx": true, "uv": true,
	"pipx": true, "go": true, "docker": true, "podman": true, "nerdctl": true, "cmd": true,
	"powershell": true, "pwsh": true, "wsl": true, "ssh": true, "nix": true,
}

// bareFlags are options of launchers that take no value, so that a program may
// follow them.
var bareFlags = map[string]bool{
	"-c": true, "-lc": true, "-ic": true, "-i": true, "-t": true, "-it": true, "-ti": true, "-y": true,
	"-q": true, "-E": true, "-S": true, "--": true, "--yes": true, "--rm": true, "--init": true,
	"--interactive": true, "--tty": true, "/c": true, "/C": true,
}

// selfReference says what in a server's definition leads back to us, or
// nothing. It looks through whatever wraps the command, and follows symbolic
// links; it runs nothing.
func (l *loader) selfReference(s Server) string {
	if s.URL != "" && l.isOwnSocket(s.URL) {
		return "its URL is our own socket"
	}
	if s.Transport != Stdio {
		return ""
	}
	if l.isOwnFile(s) || baseOf(s.Command) == daemon {
		return "its command is " + baseOf(s.Command)
	}
	for _, token := range append([]string{s.Command}, s.Args...) {
		for _, word := range shellWords(token) {
			if l.isOurs(word) {
				return "it leads back to " + baseOf(word)
			}
		}
	}
	if launchers[baseOf(s.Command)] && namesDaemon(s.Args) {
		return "it leads back to " + daemon
	}
	return ""
}

// isOurs reports whether a word of a command line names a program or socket of
// ours. A folder that is called like us is only the checkout of our source.
func (l *loader) isOurs(word string) bool {
	if l.isOwnSocket(word) || slices.Contains(l.opts.Self, word) {
		return true
	}
	if !unmistakable[baseOf(word)] {
		return false
	}
	info, err := os.Stat(word)
	return err != nil || !info.IsDir() || !filepath.IsAbs(word)
}

// namesDaemon reports whether a launcher's arguments name our program, rather
// than give its name as the value of an option.
func namesDaemon(args []string) bool {
	value := false
	for _, arg := range args {
		words := shellWords(arg)
		if !value && slices.ContainsFunc(words, func(w string) bool { return baseOf(w) == daemon }) {
			return true
		}
		option := strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "/c")
		value = option && !bareFlags[arg] && !strings.Contains(arg, "=")
	}
	return false
}

// shellWords splits a text at everything that ends a word in a shell.
func shellWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune(" \t\n\"'`;&|()<>=,", r)
	})
}

// baseOf strips folder, version, tag and program extension from a word:
// /usr/bin/x, x.exe, x@1.2, ghcr.io/me/x:2 and x==3 are all x.
func baseOf(word string) string {
	word = word[strings.LastIndexAny(word, `/\`)+1:]
	if at := strings.IndexAny(word, "@:=["); at > 0 {
		word = word[:at]
	}
	lower := strings.ToLower(word)
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		if cut, ok := strings.CutSuffix(lower, ext); ok {
			return cut
		}
	}
	return lower
}

// isOwnFile reports whether a server's command is one of our files under
// another name.
func (l *loader) isOwnFile(s Server) bool {
	path, err := filepath.EvalSymlinks(l.lookPath(s))
	if err != nil {
		return false // not there, so it is not us either
	}
	return unmistakable[baseOf(path)] || baseOf(path) == daemon ||
		slices.Contains(l.opts.Self, path)
}

// lookPath finds a command in the PATH of the agent's environment, without the
// rules for what is executable: a link to us is us.
func (l *loader) lookPath(s Server) string {
	if filepath.IsAbs(s.Command) {
		return s.Command
	}
	if strings.ContainsAny(s.Command, `/\`) {
		return filepath.Join(s.Dir(l.opts.Home), s.Command)
	}
	path, _ := l.opts.Getenv("PATH")
	for _, dir := range filepath.SplitList(path) {
		if full := filepath.Join(dir, s.Command); filepath.IsAbs(dir) && exists(full) {
			return full
		}
	}
	return s.Command
}

func (l *loader) isOwnSocket(text string) bool {
	if strings.Contains(text, socketTail) {
		return true
	}
	own, _ := l.opts.Getenv("BRIDGED_SOCKET")
	return own != "" && strings.Contains(text, own)
}
