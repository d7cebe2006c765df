package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
)

// A policyTable is the [policy] table: what code may call. It is in the file
// alone, since an agent can choose the environment and the flags of a daemon
// that its shim starts. docs/policy.md is checked against it.
type policyTable struct {
	Default        verdict     `toml:"default"`
	ConfirmTimeout duration    `toml:"confirm_timeout"`
	Pin            pinMode     `toml:"pin"`
	BudgetCalls    amount      `toml:"budget_calls"`
	BudgetBytes    byteSize    `toml:"budget_bytes"`
	BudgetTime     duration    `toml:"budget_time"`
	Rule           policyRules `toml:"rule"`
	Flow           policyFlows `toml:"flow"`

	compiled *policy.Policy // by check
}

// A policyRule is one [[policy.rule]] table.
type policyRule struct {
	Server      globs     `toml:"server"`
	Tool        globs     `toml:"tool"`
	Project     globs     `toml:"project"`
	Client      globs     `toml:"client"`
	When        condition `toml:"when"`
	Arg         policyArg `toml:"arg"`
	Action      action    `toml:"action"`
	Rate        pace      `toml:"rate"`
	Concurrency amount    `toml:"concurrency"`
	Timeout     duration  `toml:"timeout"`
	MaxResult   byteSize  `toml:"max_result"`
	AutoApprove approval  `toml:"auto_approve"`
	Reason      word      `toml:"reason"`

	where string // what to call it in an error, such as "config.toml:12"
}

type policyArg struct {
	Path    word    `toml:"path"`
	Matches pattern `toml:"matches"`
}

// A policyFlow is one [[policy.flow]] table.
type policyFlow struct {
	From   globs  `toml:"from"`
	To     globs  `toml:"to"`
	Action action `toml:"action"`
	Reason word   `toml:"reason"`

	where string
}

type (
	policyRules []policyRule
	policyFlows []policyFlow
)

// place notes where in the configuration file each table stands.
func (t *policyTable) place(file string, data []byte) {
	for i, where := range tablePlaces(`policy[ \t]*\.[ \t]*rule`, file, data, len(t.Rule)) {
		t.Rule[i].where = where
	}
	for i, where := range tablePlaces(`policy[ \t]*\.[ \t]*flow`, file, data, len(t.Flow)) {
		t.Flow[i].where = where
	}
}

// check compiles the rules, and refuses those that say nothing or contradict
// themselves. home is what a leading ~ of a project means.
func (t *policyTable) check(home string) error {
	c := policy.Config{
		Default: policy.Action(t.Default), ConfirmTimeout: time.Duration(t.ConfirmTimeout),
		Budget: policy.Budget{Calls: int64(t.BudgetCalls), Bytes: int64(t.BudgetBytes), Time: time.Duration(t.BudgetTime)},
	}
	for _, r := range t.Rule {
		c.Rules = append(c.Rules, r.rule(home))
	}
	for _, f := range t.Flow {
		c.Flows = append(c.Flows, policy.Flow{Where: f.where, From: f.From, To: f.To, Action: policy.Action(f.Action), Reason: string(f.Reason)})
	}
	var err error
	t.compiled, err = policy.New(c)
	return err
}

func (r policyRule) rule(home string) policy.Rule {
	var projects []string
	for _, p := range r.Project {
		projects = append(projects, folder(p, home))
	}
	return policy.Rule{
		Where: r.where, Servers: r.Server, Tools: r.Tool, Projects: projects, Clients: r.Client,
		When: string(r.When), Arg: policy.Arg{Path: string(r.Arg.Path), Matches: string(r.Arg.Matches)},
		Action: policy.Action(r.Action), Rate: policy.Rate(r.Rate), Concurrency: int(r.Concurrency),
		Timeout: time.Duration(r.Timeout), MaxResult: int64(r.MaxResult),
		AutoApprove: r.AutoApprove == "honour", Reason: string(r.Reason),
	}
}

// folder is where a pattern of a project leads: a session's folder is matched
// where it really lies.
func folder(pattern, home string) string {
	if rest, ok := strings.CutPrefix(pattern, "~"); ok && (rest == "" || rest[0] == '/') {
		pattern = filepath.Join(home, rest)
	}
	if path, err := filepath.EvalSymlinks(pattern); err == nil {
		return path
	}
	return pattern // it has a * in it, or is not there yet
}

// policyKeys are the keys of [policy] and its tables, such as rule.server.
func policyKeys() []string { return tableKeys(reflect.TypeFor[policyTable](), "") }

// tableKeys lists the keys of a table and of the tables in it.
func tableKeys(table reflect.Type, prefix string) []string {
	var keys []string
	for field := range table.Fields() {
		key, t := field.Tag.Get("toml"), field.Type
		if key == "" {
			continue
		}
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct && t.NumField() > 1 && t.Field(0).Tag.Get("toml") != "" {
			keys = append(keys, tableKeys(t, prefix+key+".")...)
			continue
		}
		keys = append(keys, prefix+key)
	}
	return keys
}

// nearestPolicyKey suggests what an unknown key below [policy] was meant to be.
// The decoder leaves out which inline table a key stands in, so all keys of the
// outer table are thought of.
func nearestPolicyKey(path []string) string {
	table, last := "", path[len(path)-1]
	if len(path) > 1 {
		table = path[0] + "."
	}
	whole, names := map[string]string{}, []string{}
	for _, key := range policyKeys() {
		if rest, ok := strings.CutPrefix(key, table); ok {
			name := rest[strings.LastIndex(rest, ".")+1:]
			whole[name] = key
			names = append(names, name)
		}
	}
	if near := discovery.Nearest(last, names, 1); len(near) > 0 {
		return "; did you mean policy." + whole[near[0]] + "?"
	}
	return "; known keys are in docs/policy.md"
}

// chosen returns a text that has to be one of some.
func chosen(raw []byte, what string, choices ...string) (string, error) {
	text, _ := parseTOML(raw).(string)
	for _, c := range choices {
		if text == c {
			return text, nil
		}
	}
	return "", unstable.NewParserError(raw, "%s is no %s: use %s", raw, what, strings.Join(choices, ", "))
}

// A verdict is allow or deny; empty is not set.
type verdict string

// UnmarshalTOML takes one of its texts.
func (v *verdict) UnmarshalTOML(raw []byte) error {
	text, err := chosen(raw, "default", "allow", "deny")
	*v = verdict(text)
	return err
}

// A pinMode says what a changed definition of a tool means; empty is warn.
type pinMode string

// UnmarshalTOML takes one of its texts.
func (m *pinMode) UnmarshalTOML(raw []byte) error {
	text, err := chosen(raw, "pin", "off", "warn", "deny")
	*m = pinMode(text)
	return err
}

// An action is what a rule does with calls; empty is not set.
type action string

// UnmarshalTOML takes one of its texts.
func (a *action) UnmarshalTOML(raw []byte) error {
	text, err := chosen(raw, "action", "allow", "deny", "confirm", "read-only")
	*a = action(text)
	return err
}

// An approval says what an agent's own list of approved tools is worth; empty
// is not set.
type approval string

// UnmarshalTOML takes one of its texts.
func (a *approval) UnmarshalTOML(raw []byte) error {
	text, err := chosen(raw, "auto_approve", "honour", "ignore")
	*a = approval(text)
	return err
}

// A pace is a rate of calls.
type pace policy.Rate

// Type names the kind of value in error texts.
func (*pace) Type() string { return "rate" }

func (p *pace) String() string { return policy.Rate(*p).String() }

// Set parses text such as 10/m.
func (p *pace) Set(text string) error {
	r, err := policy.ParseRate(text)
	*p = pace(r)
	return err
}

// UnmarshalTOML takes text.
func (p *pace) UnmarshalTOML(raw []byte) error { return fromTOML(raw, p, tomlText) }

// A condition is a CEL expression.
type condition string

// Type names the kind of value in error texts.
func (*condition) Type() string { return "text" }

func (c *condition) String() string { return string(*c) }

// Set takes an expression that can be compiled.
func (c *condition) Set(text string) error {
	*c = condition(text)
	return policy.CheckWhen(text)
}

// UnmarshalTOML takes text.
func (c *condition) UnmarshalTOML(raw []byte) error { return fromTOML(raw, c, tomlText) }

// A pattern is a regular expression.
type pattern string

// Type names the kind of value in error texts.
func (*pattern) Type() string { return "text" }

func (p *pattern) String() string { return string(*p) }

// Set takes an expression that can be compiled.
func (p *pattern) Set(text string) error {
	*p = pattern(text)
	return policy.CheckPattern(text)
}

// UnmarshalTOML takes text.
func (p *pattern) UnmarshalTOML(raw []byte) error { return fromTOML(raw, p, tomlText) }

// A globs is one pattern of names, or a list of them.
type globs []string

// UnmarshalTOML takes a text or an array of texts.
func (g *globs) UnmarshalTOML(raw []byte) error {
	list, ok := parseTOML(raw).([]any)
	if !ok {
		list = []any{parseTOML(raw)}
	}
	*g = globs{}
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return unstable.NewParserError(raw, "%s is neither a text nor a list of texts", raw)
		}
		if err := policy.CheckGlob(text); err != nil {
			return unstable.NewParserError(raw, "%s", err)
		}
		*g = append(*g, text)
	}
	if len(*g) == 0 {
		return unstable.NewParserError(raw, "the list is empty and would match nothing: leave the key out to mean all")
	}
	return nil
}
