package discovery

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxEnvFile bounds a file of variables.
const maxEnvFile = 1 << 20

// addEnvFile adds the variables of an expanded server's EnvFile to those that
// its entry sets itself.
func (s *Server) addEnvFile(home string) error {
	if s.EnvFile == "" {
		return nil
	}
	path := s.EnvFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir(home), path)
	}
	data, err := readBounded(path, maxEnvFile)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the envFile %s of server %s: %w", path, s.Name, cause(err))
	}
	text, _ := decodeText(data)
	env := parseEnvFile(string(text))
	for name, value := range s.Env {
		env[name] = value
	}
	s.Env = env
	return nil
}

// parseEnvFile reads lines of NAME=value, as .env files have them: export may
// come first, # starts a comment line, and a value may be quoted. Nothing is
// expanded. Other lines are left out.
func parseEnvFile(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name = strings.TrimSpace(name)
		if !ok || !variableName.MatchString(name) || strings.ContainsRune(value, 0) {
			continue
		}
		if len(env) < maxItems {
			env[name] = unquote(strings.TrimSpace(value))
		}
	}
	return env
}

// unquote takes the quotes off a value, and after an unquoted one its comment.
// Double quotes have escapes.
func unquote(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] {
		switch value[0] {
		case '\'':
			return value[1 : n-1]
		case '"':
			return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t").Replace(value[1 : n-1])
		}
	}
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		return value
	}
	value, _, _ = strings.Cut(value, " #")
	return strings.TrimSpace(value)
}
