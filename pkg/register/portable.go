package register

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fits are the fields that mean the same in ~/MCPs, which takes every agent's
// spelling of them.
var fits = []string{
	"command", "cmd", "args", "env", "environment", "envs", "cwd", "url", "serverUrl", "httpUrl", "uri",
	"headers", "type", "description", "includeTools", "excludeTools", "enabledTools", "enabled_tools",
	"disabledTools", "disabled_tools", "autoApprove", "alwaysAllow",
}

// idle are the fields that only the agent's own ways with a server need.
var idle = []string{"name", "enabled", "disabled", "source", "gallery", "version", "trust", "bundled", "display_name"}

// errOff is about a server that is switched off: it costs no context where it is.
var errOff = errors.New("it is switched off")

// dialectKey says in an entry of ~/MCPs in which agent's way it is written.
const dialectKey = "dialect"

// portable returns a server's entry as it is written in ~/MCPs: there nothing is
// a variable, unless the entry says that it is written as the agent's. An error
// says why it would not mean the same there.
func (c *client) portable(entry any) (map[string]any, error) {
	m, ok := entry.(map[string]any)
	if !ok {
		return nil, errors.New("it is no table of settings")
	}
	if m["enabled"] == false || m["disabled"] == true {
		return nil, errOff
	}
	own := false // it takes the agent's own way to say it
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v := m[key]
		if slices.Contains(idle, key) || empty(v) {
			continue
		}
		if err := c.movable(key, v); err != nil {
			return nil, err
		}
		out[key] = v
		own = own || slices.Contains(c.words, key) || c.hasVariable(v)
	}
	if _, typed := out["type"]; own {
		out[dialectKey] = c.name
	} else if !typed && c.untyped != "" && commandOf(m) == "" {
		out["type"] = c.untyped
	}
	return out, checkPlace(m)
}

// movable says why a field would mean something else for bridged than it does
// for the agent.
func (c *client) movable(key string, v any) error {
	if !slices.Contains(fits, key) && !slices.Contains(c.words, key) {
		return fmt.Errorf("%s has no equal in ~/MCPs", key)
	}
	for _, text := range texts(v, nil) {
		for _, p := range agentsOwn {
			if c.hasVariable(v) && p.in.MatchString(text) {
				return fmt.Errorf("%s %s", key, p.why)
			}
		}
	}
	return nil
}

// agentsOwn are the variables whose values the agent alone knows.
var agentsOwn = []struct {
	in  *regexp.Regexp
	why string
}{
	{regexp.MustCompile(`\$\{input:|\$\{\{\s*inputs\.`), "has an input, which the agent asks you for"},
	{regexp.MustCompile(`\$\{(workspace|cwd\}|file[A-Z}]|relativeFile|selected|lineNumber|command:|config:)|\$workspacePath`),
		"depends on what is open in the agent"},
	{regexp.MustCompile(`\{file:\s*[^/~\s]`), "takes a value from a file without an absolute path"},
}

// checkPlace refuses what depends on the folder in which the agent works.
func checkPlace(m map[string]any) error {
	if cwd, _ := m["cwd"].(string); cwd != "" && !filepath.IsAbs(cwd) {
		return errors.New("cwd is not absolute")
	}
	relative := func(word string) bool {
		return strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") || word == "." || word == ".."
	}
	command := commandOf(m)
	if relative(command) || strings.Contains(command, "/") && !filepath.IsAbs(command) && !strings.HasPrefix(command, "~/") {
		return errors.New("the command's path is not absolute")
	}
	for _, key := range []string{"args", "command"} {
		list, _ := m[key].([]any)
		for _, v := range list {
			if word, _ := v.(string); relative(word) {
				return errors.New("an argument depends on the folder that the agent works in")
			}
		}
	}
	return nil
}

// hasVariable reports whether any text below a value has one of the agent's
// variables.
func (c *client) hasVariable(v any) bool {
	return slices.ContainsFunc(texts(v, nil), func(text string) bool {
		return slices.ContainsFunc(c.variables, func(sign string) bool { return strings.Contains(text, sign) })
	})
}

// texts lists all texts and keys below a value.
func texts(v any, list []string) []string {
	switch v := v.(type) {
	case string:
		return append(list, v)
	case []any:
		for _, item := range v {
			list = texts(item, list)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = texts(v[key], append(list, key))
		}
	}
	return list
}

// ruled says which other settings of the agent hold for a server: they would do
// so no longer.
func (c *client) ruled(settings []string, server string) error {
	for _, key := range c.rules {
		if slices.Contains(settings, key) {
			return fmt.Errorf("the agent's setting %s holds for it", key)
		}
	}
	if names(settings, server) {
		return errors.New("other settings of the agent speak of it")
	}
	return nil
}

func names(settings []string, server string) bool {
	return slices.ContainsFunc(settings, func(text string) bool {
		return text == server || strings.HasPrefix(text, server+"_") || strings.HasPrefix(text, "mcp__"+server)
	})
}
