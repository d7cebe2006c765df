package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/discovery"
)

// maxClientTables bounds the [[client]] tables, which are gone through in every
// call.
const maxClientTables = 256

// A clientTable is what the user says about the agents whose clients' names
// match. A key that is left out says nothing. docs/configuration.md is checked
// against it.
type clientTable struct {
	Name       word       `toml:"name"` // a glob; empty means all
	OutputMode outputMode `toml:"output_mode"`
	MaxTokens  count      `toml:"max_tokens"` // of a result; 0 says nothing

	where string // what to call it in an error, such as "config.toml:12"
}

// A clientTables is a list of tables in TOML, and nowhere else.
type clientTables []clientTable

// place notes where in the configuration file each table stands.
func (l clientTables) place(file string, data []byte) {
	for i, where := range tablePlaces("client", file, data, len(l)) {
		l[i].where = where
	}
}

// check refuses patterns that match nothing whatever comes.
func (l clientTables) check() error {
	if len(l) > maxClientTables {
		return fmt.Errorf("client: there are %d tables; at most %d are taken", len(l), maxClientTables)
	}
	for _, t := range l {
		if err := checkGlob(string(t.Name)); err != nil {
			return fmt.Errorf("%s: client: name %w", t.where, err)
		}
		if t.MaxTokens != 0 && !fitsResults(t.MaxTokens) {
			return fmt.Errorf("%s: client: max_tokens is %d: %w", t.where, t.MaxTokens, errMaxTokens)
		}
	}
	return nil
}

// mode returns the form of results for a client: what the last table says that
// matches its name and says any, or else otherwise.
func (l clientTables) mode(client string, otherwise outputMode) bridge.Mode {
	mode := otherwise
	for _, t := range l {
		if t.OutputMode != "" && t.matches(client) {
			mode = t.OutputMode
		}
	}
	return bridge.Mode(mode)
}

// maxTokens returns how many tokens a result may cost a client, likewise.
func (l clientTables) maxTokens(client string, otherwise count) int {
	most := otherwise
	for _, t := range l {
		if t.MaxTokens != 0 && t.matches(client) {
			most = t.MaxTokens
		}
	}
	return int(most)
}

// matches reports whether the table is about the client. check has found the
// pattern good.
func (t clientTable) matches(client string) bool {
	fits, _ := path.Match(string(t.Name), client)
	return fits || t.Name == ""
}

// leastTokens and mostTokens bound what a result may cost: less would show
// nothing but marks, and more than a megabyte of text is never kept.
const (
	leastTokens = 200
	mostTokens  = 200_000
)

var errMaxTokens = fmt.Errorf("a result may cost %d to %d tokens", leastTokens, mostTokens)

func fitsResults(tokens count) bool { return leastTokens <= tokens && tokens <= mostTokens }

// nearestClientKey suggests what an unknown key of a [[client]] table was meant
// to be.
func nearestClientKey(key string) string {
	keys := tomlKeys[clientTable]()
	if near := discovery.Nearest(key, keys, 1); len(near) > 0 {
		return "; did you mean " + near[0] + "?"
	}
	return "; known keys are " + strings.Join(keys, ", ")
}

// An outputMode is a form of results: compact, toon or json.
type outputMode bridge.Mode

func (m outputMode) String() string { return string(m) }

// Set takes one of the modes' names.
func (m *outputMode) Set(s string) error {
	mode, err := bridge.ParseMode(s)
	if err != nil {
		return err
	}
	*m = outputMode(mode)
	return nil
}

// Type names the kind of value in help texts.
func (*outputMode) Type() string { return "mode" }

// UnmarshalTOML takes text.
func (m *outputMode) UnmarshalTOML(raw []byte) error { return fromTOML(raw, m, tomlText) }
