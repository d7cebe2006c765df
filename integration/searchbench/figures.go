//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// crowdTools is how many tools the searches that are timed go over.
const crowdTools = 10_000

// rounds is how often each query is timed, so that the 99th percentile is not
// made by a handful of samples.
const rounds = 5

// A figure is one row of out/bench-search.json, in the form of out/bench.json.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	N     int     `json:"n"`
}

// slow returns the 99th percentile of how long a search over 10,000 tools
// takes, in milliseconds. They are the captured ones, as often as it needs, each
// time as other servers'.
func (m *market) slow(queries []query) float64 {
	c := discovery.NewCatalog()
	var refs []discovery.Ref
	for n := 0; n < crowdTools; {
		for _, ref := range m.refs {
			tools, _ := m.catalog.Tools(ref)
			tools = tools[:min(len(tools), crowdTools-n)]
			if len(tools) == 0 {
				continue
			}
			name := fmt.Sprintf("%s-%d", ref.Server, n)
			c.Put(name, tools)
			refs = append(refs, discovery.Ref{Digest: name, Server: name})
			n += len(tools)
		}
	}
	var took []time.Duration
	for range rounds {
		for _, q := range queries {
			start := time.Now()
			c.Search(q.text, refs, 5)
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100].Seconds() * 1000
}

// recalls returns how often ours and the simpler searches find the right tool
// among the first five. The suffix says of which queries.
func recalls(all []ranker, queries []query, suffix string) []figure {
	names := map[string]string{
		"ours":       "search_recall_at_5",
		"substring":  "search_recall_at_5_substring",
		"plain BM25": "search_recall_at_5_bm25",
	}
	var figures []figure
	for _, r := range all {
		if name, ok := names[r.name]; ok {
			figures = append(figures, figure{name + suffix, r.score(queries).at5, "share", len(queries)})
		}
	}
	return figures
}

// writeFigures prints the figures by name and keeps them in
// out/bench-search.json.
func writeFigures(figures []figure, out io.Writer) error {
	fmt.Fprintln(out)
	for _, f := range figures {
		fmt.Fprintf(out, "%s %.3f\n", f.Name, f.Value)
	}
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("out", "bench-search.json"), append(text, '\n'), 0o644)
}
