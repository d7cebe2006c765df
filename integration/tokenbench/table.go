//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/tiktoken-go/tokenizer"
)

// A row is what a number of servers costs, in tokens of o200k_base.
type row struct {
	servers, tools int
	direct         int   // the lists of all tools
	each           []int // of each server
	entry          int   // our one tool
	live           int   // its line with names of servers
	session        spent
	unstarted      []string // servers that the daemon could not start
}

// A table has a row for each crowd of servers.
type table struct {
	codec   tokenizer.Codec
	servers []server
	rows    []row

	compared comparison
}

// newTable counts what the lists of tools cost, in as many rows as there are
// servers for.
func newTable(servers []server) (*table, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("no server could be started")
	}
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return nil, err
	}
	t := &table{codec: codec, servers: servers}
	for _, n := range crowds {
		r, err := t.direct(min(n, len(servers)))
		if err != nil {
			return nil, err
		}
		t.rows = append(t.rows, r)
		if n >= len(servers) {
			break
		}
	}
	return t, nil
}

// direct counts the tools of the first n servers as an MCP client hands them to
// its model: name, description and inputSchema of each, as JSON.
func (t *table) direct(n int) (row, error) {
	r := row{servers: n}
	for _, s := range t.servers[:n] {
		before := r.direct
		for _, tool := range s.Tools {
			tokens, err := t.entry(tool)
			if err != nil {
				return row{}, fmt.Errorf("a tool of %s: %w", s.Server, err)
			}
			r.tools++
			r.direct += tokens
		}
		r.each = append(r.each, r.direct-before)
	}
	return r, nil
}

// An entry is what a model is told of a tool.
type entry struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func (t *table) entry(tool json.RawMessage) (int, error) {
	var e entry
	if err := json.Unmarshal(tool, &e); err != nil {
		return 0, err
	}
	return t.countJSON(e)
}

func (t *table) countJSON(v any) (int, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	return t.codec.Count(string(text))
}

// A figure is one row of out/bench-tokens.json, in the form of out/bench.json.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	N     int     `json:"n"` // servers
}

// write prints the table for people and the list for machines.
func (t *table) write(out io.Writer, path string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "servers\ttools\tlisted directly\tour tool\tits live line\ta session: search\tdocs and call\t")
	var figures []figure
	for _, r := range t.rows {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", r.servers, r.tools, r.direct, r.entry, r.live, r.session.find, r.session.use)
		figures = append(figures, r.figures()...)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	last := t.rows[len(t.rows)-1]
	fmt.Fprintf(out, "Half of the %d servers cost at most %d tokens each.", last.servers, t.median())
	if len(last.unstarted) > 0 {
		fmt.Fprintf(out, " The daemon could not start %v.", last.unstarted)
	}
	fmt.Fprintln(out)
	if err := t.compared.write(out); err != nil {
		return err
	}
	return keep(append(figures, t.compared.figures()...), path)
}

// figures are the row's, by name.
func (r row) figures() []figure {
	name := func(what string) string { return fmt.Sprintf("tokens_%s_%d_servers", what, r.servers) }
	f := func(what string, n int) figure { return figure{name(what), float64(n), "tokens", r.servers} }
	return []figure{
		f("direct", r.direct), f("ours", r.entry+r.live), f("ours_entry", r.entry), f("session", r.session.find+r.session.use),
		f("search", r.session.search), f("search_full", r.session.searchFull),
	}
}

// median is what the lists of a server's tools cost that is neither dear nor cheap.
func (t *table) median() int {
	each := slices.Sorted(slices.Values(t.rows[len(t.rows)-1].each))
	return each[(len(each)-1)/2]
}

func keep(figures []figure, path string) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
