//go:build integration

package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bridged/bridged/integration/realservers"
	"github.com/bridged/bridged/pkg/discovery"
)

// depth is how far down a ranking the right tool still counts for the MRR.
const depth = 50

// The weights were chosen with queries.tsv in view, heldout.tsv is kept apart.
//
//go:embed queries.tsv heldout.tsv
var queryFiles embed.FS

// A query is what somebody wants done, and the tools that do it.
type query struct {
	text  string
	right []string // "server tool"
}

// readQueries parses a file of queries: the query, a tab, and the tools that are
// right, each as server/tool, with blanks between them. A line that starts with #
// is a comment.
func readQueries(name string) ([]query, error) {
	text, err := queryFiles.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []query
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		q, tools, ok := strings.Cut(line, "\t")
		if !ok || strings.TrimSpace(tools) == "" {
			return nil, fmt.Errorf("%s:%d: want a query, a tab and server/tool", name, i+1)
		}
		var right []string
		for _, t := range strings.Fields(tools) {
			server, tool, _ := strings.Cut(t, "/")
			right = append(right, server+" "+tool)
		}
		out = append(out, query{q, right})
	}
	return out, nil
}

// answerable returns the queries that have a right tool among those captured,
// and how many have none because their servers did not start.
func answerable(all []query, m *market) (kept []query, lost int) {
	for _, q := range all {
		if slices.ContainsFunc(q.right, func(name string) bool { return m.has[name] }) {
			kept = append(kept, q)
			continue
		}
		lost++
	}
	return kept, lost
}

// A ranker returns the names ("server tool") of the tools that fit best.
type ranker struct {
	name string
	rank func(query string) []string
}

// A score says how good a ranker is over some queries, each 0 to 1.
type score struct {
	at1, at5, mrr float64
}

func (r ranker) score(queries []query) score {
	var s score
	for _, q := range queries {
		at := place(r.rank(q.text), q.right)
		if at == 0 {
			continue
		}
		s.mrr += 1 / float64(at)
		if at == 1 {
			s.at1++
		}
		if at <= 5 {
			s.at5++
		}
	}
	n := float64(len(queries))
	return score{s.at1 / n, s.at5 / n, s.mrr / n}
}

// place returns where in a ranking the first right tool is, from 1; 0 means
// nowhere.
func place(ranking, right []string) int {
	return 1 + slices.IndexFunc(ranking, func(name string) bool { return slices.Contains(right, name) })
}

// halves splits the queries into every other one and the rest. The weights were
// chosen with both in view, so the halves show the noise and no more.
func halves(queries []query) (even, odd []query) {
	for i, q := range queries {
		if i%2 == 0 {
			even = append(even, q)
		} else {
			odd = append(odd, q)
		}
	}
	return even, odd
}

func measure(servers []realservers.Captured, wanted int, misses bool, out io.Writer) error {
	m := newMarket(servers)
	queries, lost, err := m.queries("queries.tsv")
	if err != nil {
		return err
	}
	kept, _, err := m.queries("heldout.tsv")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d servers, %d tools, %d queries (%d more are for servers that did not start)\n\n",
		len(servers), wanted, len(m.has), len(queries), lost)
	even, odd := halves(queries)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "search\trecall@1\trecall@5\tMRR\trecall@5, one half\trecall@5, other half")
	ours := m.rankers()
	for _, r := range ours {
		s := r.score(queries)
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\n", r.name, s.at1, s.at5, s.mrr, r.score(even).at5, r.score(odd).at5)
	}
	for _, r := range ours[:3] {
		s := r.score(kept)
		fmt.Fprintf(w, "%s, held-out\t%.3f\t%.3f\t%.3f\t\t\n", r.name, s.at1, s.at5, s.mrr)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if misses {
		printMisses(ours[0], queries, out)
	}
	figures := append(recalls(ours, queries, ""), recalls(ours, kept, "_heldout")...)
	figures = append(figures, figure{"search_p99_ms_10k_tools", m.slow(queries), "ms", rounds * len(queries)})
	return writeFigures(figures, out)
}

// printMisses prints what the search misses of queries.tsv. Those of heldout.tsv
// are not for anybody to see who works on the search.
func printMisses(r ranker, queries []query, out io.Writer) {
	fmt.Fprintln(out)
	for _, q := range queries {
		found := r.rank(q.text)
		if at := place(found, q.right); at == 0 || at > 5 {
			fmt.Fprintf(out, "%s\n  want %s (at %d)\n  got  %s\n", q.text, strings.Join(q.right, ", "), at, strings.Join(found[:min(5, len(found))], ", "))
		}
	}
}

// A market is the tools of all captured servers.
type market struct {
	catalog *discovery.Catalog
	refs    []discovery.Ref
	tools   []discovery.Tool
	has     map[string]bool
}

func newMarket(servers []realservers.Captured) *market {
	m := &market{catalog: discovery.NewCatalog(), has: map[string]bool{}}
	for _, s := range servers {
		tools, _ := discovery.ParseTools(s.Tools)
		for i := range tools {
			tools[i].Server = s.Server
			m.has[s.Server+" "+tools[i].Name] = true
		}
		m.tools = append(m.tools, tools...)
		m.catalog.Put(s.Server, slices.Clone(tools))
		m.refs = append(m.refs, discovery.Ref{Digest: s.Server, Server: s.Server})
	}
	return m
}

// queries reads a file of queries and returns those that can be answered, and
// how many can't.
func (m *market) queries(name string) (kept []query, lost int, err error) {
	all, err := readQueries(name)
	if err != nil {
		return nil, 0, err
	}
	if err := m.check(name, all); err != nil {
		return nil, 0, err
	}
	kept, lost = answerable(all, m)
	if len(kept) == 0 {
		return nil, 0, fmt.Errorf("%s: no server that it asks for started, so there is nothing to search", name)
	}
	return kept, lost, nil
}

// check reports a tool of a query that its server does not have, which would
// count as never found.
func (m *market) check(file string, queries []query) error {
	for _, q := range queries {
		for _, name := range q.right {
			server, tool, _ := strings.Cut(name, " ")
			if _, captured := m.catalog.Count(discovery.Ref{Digest: server}); captured && !m.has[name] {
				return fmt.Errorf("%s: %q wants %s of %s, which has no such tool", file, q.text, tool, server)
			}
		}
	}
	return nil
}

func (m *market) rankers() []ranker {
	return []ranker{
		{"ours", m.ours(discovery.Ranking{})},
		{"substring", m.substring()},
		{"plain BM25", m.bm25()},
		{"words alone", m.ours(discovery.Ranking{NoSynonyms: true, NoSpelling: true, NoMeaning: true})},
		{"meaning alone", m.ours(discovery.Ranking{NoWords: true})},
		{"without meaning", m.ours(discovery.Ranking{NoMeaning: true})},
		{"without synonyms", m.ours(discovery.Ranking{NoSynonyms: true})},
		{"without spelling", m.ours(discovery.Ranking{NoSpelling: true})},
		{"without deeds", m.ours(discovery.Ranking{NoDeeds: true})},
	}
}

func (m *market) ours(r discovery.Ranking) func(string) []string {
	return func(query string) []string {
		var names []string
		for _, match := range m.catalog.SearchBy(r, query, m.refs, depth) {
			names = append(names, match.Tool.Server+" "+match.Tool.Name)
		}
		return names
	}
}
