package main

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy"
)

// maxServerTables bounds the [[server]] tables, which are gone through for
// every server of every session.
const maxServerTables = 256

// A serverTable is what the user says about the MCP servers whose name matches.
// A key that is left out says nothing. docs/servers.md is checked against it.
type serverTable struct {
	Name         word     `toml:"name"` // a glob; empty means all
	Eager        truth    `toml:"eager"`
	Stateful     truth    `toml:"stateful"`
	Validate     truth    `toml:"validate"`
	Max          amount   `toml:"max"`
	Concurrency  amount   `toml:"concurrency"`
	StartTimeout duration `toml:"start_timeout"`
	CallTimeout  duration `toml:"call_timeout"`
	Idle         span     `toml:"idle"`
	KeepAlive    span     `toml:"keep_alive"`
	RetryReads   wordList `toml:"retry_reads"`

	Env     map[string]secretValue `toml:"env"`
	Headers map[string]secretValue `toml:"headers"`

	Sandbox *serverSandbox `toml:"sandbox"`

	where string // what to call it in an error, such as "config.toml:12"
}

// A serverTables is a list of tables in TOML, and nowhere else.
type serverTables []serverTable

// place notes where in the configuration file each table stands.
func (l serverTables) place(file string, data []byte) {
	for i, where := range tablePlaces("server", file, data, len(l)) {
		l[i].where = where
	}
}

// tablePlaces says where in a configuration file each of the n tables of a name
// begins: file:line, or the file alone when that can't be told.
func tablePlaces(name, file string, data []byte, n int) []string {
	table := regexp.MustCompile(`(?m)^[ \t]*\[\[?[ \t]*` + name + `[ \t]*\]`)
	found := table.FindAllIndex(data, -1)
	places := make([]string, n)
	for i := range places {
		places[i] = file
		if len(found) == n {
			places[i] += ":" + strconv.Itoa(1+strings.Count(string(data[:found[i][0]]), "\n"))
		}
	}
	return places
}

// check refuses patterns that match nothing whatever comes.
func (l serverTables) check() error {
	if len(l) > maxServerTables {
		return fmt.Errorf("server: there are %d tables; at most %d are taken", len(l), maxServerTables)
	}
	for _, t := range l {
		if err := t.check(); err != nil {
			return fmt.Errorf("%s: server: %w", t.where, err)
		}
	}
	return nil
}

func (t serverTable) check() error {
	if err := checkGlob(string(t.Name)); err != nil {
		return fmt.Errorf("name %w", err)
	}
	for _, tool := range t.RetryReads {
		if err := checkGlob(tool); err != nil {
			return fmt.Errorf("retry_reads %w", err)
		}
	}
	if t.Sandbox != nil {
		return t.Sandbox.sandbox().Check()
	}
	return nil
}

func checkGlob(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is no pattern: * stands for any characters but /, ? for one, [a-z] for one of some", pattern)
	}
	return nil
}

// settings are the tables as the proxy takes them.
func (l serverTables) settings() []proxy.Setting {
	var list []proxy.Setting
	for _, t := range l {
		list = append(list, proxy.Setting{
			Name: string(t.Name), Eager: t.Eager.pointer(), Stateful: t.Stateful.pointer(), Validate: t.Validate.pointer(),
			Max: int(t.Max), Concurrency: int(t.Concurrency),
			StartTimeout: time.Duration(t.StartTimeout), CallTimeout: time.Duration(t.CallTimeout),
			Idle: time.Duration(t.Idle), KeepAlive: time.Duration(t.KeepAlive), RetryReads: t.RetryReads,
			Env: secretsOf(t.Env), Headers: secretsOf(t.Headers), Sandbox: t.Sandbox.sandbox(),
		})
	}
	return list
}

// serverKeys are the keys of a [[server]] table.
func serverKeys() []string { return tomlKeys[serverTable]() }

// tomlKeys are the keys that a table of the configuration file may have.
func tomlKeys[T any]() []string {
	var keys []string
	for field := range reflect.TypeFor[T]().Fields() {
		if key := field.Tag.Get("toml"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// nearestServerKey suggests what an unknown key of a [[server]] table was meant
// to be, or one of its sandbox.
func nearestServerKey(key string) string {
	keys := append(serverKeys(), tomlKeys[serverSandbox]()...)
	if near := discovery.Nearest(key, keys, 1); len(near) > 0 {
		return "; did you mean " + near[0] + "?"
	}
	return "; known keys are " + strings.Join(serverKeys(), ", ")
}

// A truth is true, false, or not set, which is its zero value.
type truth struct{ set, on bool }

// pointer returns nil for what is not set.
func (t truth) pointer() *bool {
	if !t.set {
		return nil
	}
	return &t.on
}

// UnmarshalTOML takes true or false.
func (t *truth) UnmarshalTOML(raw []byte) error {
	on, ok := parseTOML(raw).(bool)
	if !ok {
		return unstable.NewParserError(raw, "%s is neither true nor false", raw)
	}
	*t = truth{set: true, on: on}
	return nil
}

// An amount is a whole number of at least one; 0 is not set.
type amount int64

func (a amount) String() string { return strconv.FormatInt(int64(a), 10) }

// Set parses s.
func (a *amount) Set(s string) error {
	var n count
	if err := n.Set(s); err != nil || n == 0 {
		return fmt.Errorf("%q is no number from 1 to 1000000", s)
	}
	*a = amount(n)
	return nil
}

// Type names the kind of value in error texts.
func (*amount) Type() string { return "number" }

// UnmarshalTOML takes a whole number.
func (a *amount) UnmarshalTOML(raw []byte) error { return fromTOML(raw, a, tomlWhole) }

// A span is a span of time, or "never", which is below 0; 0 is not set.
type span time.Duration

func (s span) String() string {
	if s < 0 {
		return "never"
	}
	return duration(s).String()
}

// Set parses text; a bare number is seconds.
func (s *span) Set(text string) error {
	var p patience
	if err := p.Set(text); err != nil {
		return err
	}
	if p == 0 {
		*s = -1
		return nil
	}
	*s = span(p)
	return nil
}

// Type names the kind of value in error texts.
func (*span) Type() string { return "duration" }

// UnmarshalTOML takes text or a number of seconds.
func (s *span) UnmarshalTOML(raw []byte) error {
	return fromTOML(raw, s, tomlText|tomlWhole|tomlFraction)
}
