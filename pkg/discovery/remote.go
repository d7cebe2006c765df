package discovery

import (
	"slices"
	"strings"
)

// direct returns what a definition that reaches a URL through npx mcp-remote
// means without that program, if the other one reaches its URL itself. Agents
// that have no remote servers are given them so, and it is the same server.
func (s Server) direct(other Server) Server {
	if s.Transport != Stdio || other.Transport == Stdio {
		return s
	}
	words := append([]string{baseOf(s.Command)}, s.Args...)
	at := slices.IndexFunc(words, func(w string) bool { return baseOf(w) == "mcp-remote" })
	if at < 0 || at > 0 && !slices.Contains(packageRunners, words[0]) || slices.ContainsFunc(words[1:max(at, 1)], isPlainWord) {
		return s
	}
	d := Server{Name: s.Name, Transport: Auto}
	for words = words[at+1:]; len(words) > 0; words = words[1:] {
		switch word := words[0]; {
		case word == "--header" && len(words) > 1:
			words = words[1:]
			name, value, ok := strings.Cut(words[0], ":")
			if !ok {
				return s
			}
			d.Headers = with(d.Headers, strings.TrimSpace(name), s.ownVariables(strings.TrimSpace(value)))
		case word == "--transport" && len(words) > 1, word == "--host" && len(words) > 1:
			words = words[1:]
		case d.URL == "" && strings.Contains(word, "://"):
			d.URL = word
		}
	}
	if d.URL == "" {
		return s
	}
	return d
}

// packageRunners are programs that run the package in their arguments.
var packageRunners = []string{"npx", "npm", "bunx", "bun", "pnpm", "pnpx", "yarn", "cmd", "deno"}

// isPlainWord reports whether a word before a package's name is neither an
// option nor what such programs are told to do.
func isPlainWord(word string) bool {
	return !strings.HasPrefix(word, "-") && !strings.EqualFold(word, "/c") &&
		!slices.Contains([]string{"npx", "exec", "x", "dlx", "run"}, baseOf(word))
}

// ownVariables puts the entry's own variables into a text, as mcp-remote does
// with ${VAR} in headers.
func (s Server) ownVariables(text string) string {
	return braces.ReplaceAllStringFunc(text, func(whole string) string {
		if value, ok := s.Env[strings.Trim(whole, "${}")]; ok {
			return value
		}
		return whole
	})
}
