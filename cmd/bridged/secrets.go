package main

import (
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/bridged/bridged/pkg/proxy"
)

// A secretValue is a value of a server's environment or headers, or where it
// comes from: text, "file:/path", or {command = ["program", "argument"]}.
type secretValue proxy.Secret

// UnmarshalTOML takes a text or a table with a command.
func (s *secretValue) UnmarshalTOML(raw []byte) error {
	switch v := parseTOML(raw).(type) {
	case string:
		file, is := strings.CutPrefix(v, "file:")
		if !is {
			*s = secretValue{Text: v}
			return nil
		}
		if !filepath.IsAbs(file) {
			return unstable.NewParserError(raw, "%s: give the file's absolute path, such as file:/run/secrets/key", raw)
		}
		*s = secretValue{File: file}
		return nil
	case map[string]any:
		list, ok := v["command"].([]any)
		if ok && len(v) == 1 {
			return s.setCommand(raw, list)
		}
	}
	return unstable.NewParserError(raw, "%s is no value: write a text, file:/path, or {command = [\"/path/of/program\", \"argument\"]}", raw)
}

func (s *secretValue) setCommand(raw []byte, list []any) error {
	*s = secretValue{}
	for _, v := range list {
		word, ok := v.(string)
		if !ok || strings.Contains(word, "\x00") {
			return unstable.NewParserError(raw, "%s: a command is a list of texts", raw)
		}
		s.Command = append(s.Command, word)
	}
	if len(list) == 0 || !filepath.IsAbs(s.Command[0]) {
		return unstable.NewParserError(raw, "%s: give the program's absolute path; it is run without a shell", raw)
	}
	return nil
}

// secretsOf are values as the proxy takes them.
func secretsOf(values map[string]secretValue) map[string]proxy.Secret {
	if len(values) == 0 {
		return nil
	}
	all := make(map[string]proxy.Secret, len(values))
	for name, v := range values {
		all[name] = proxy.Secret(v)
	}
	return all
}
