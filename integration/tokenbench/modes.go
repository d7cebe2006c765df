//go:build integration

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/bridged/bridged/integration/rig"
	"github.com/bridged/bridged/pkg/bridge"
)

// modes are the forms of results that are compared.
var modes = []string{"compact", "toon", "json"}

// results are typical ones, by the code that makes them.
var results = []struct{ name, code string }{
	{"a number", "sum(range(1000))"},
	{"a table of 40 rows", `[{"id": i, "name": f"customer {i}", "city": ["Oslo", "Bern", "Lima"][i % 3], "orders": i * 7 % 11, "total": round(i * 37.5 % 900, 2)} for i in range(40)]`},
	{"nested data", `{"total": 12, "issues": [{"number": 100 + i, "title": f"Crash when the file is empty ({i})", "user": {"login": "octo", "id": 7},
  "labels": [{"name": "bug", "color": "d73a4a"}], "assignees": [], "milestone": None, "comments": i % 4} for i in range(12)]}`},
	{"a log of 80 lines", `
for i in range(80):
    print(f"2026-11-30T02:{i % 60:02}:07Z {'WARN' if i % 9 == 0 else 'INFO'} worker-{i % 4} request id={i * 7919 % 100000} took {i * 13 % 250}ms")`},
	{"a traceback", `
def parse(line):
    return {k: int(v) for k, v in (part.split("=") for part in line.split())}

[parse(line) for line in ("a=1 b=2", "a=1 b=two")]`},
	{"prints and a value", `print("read 3 files"); print("skipped 1: not UTF-8"); {"rows": 1204, "columns": ["id", "name", "total"]}`},
}

// A comparison is what results cost in each mode, in tokens.
type comparison struct {
	modes []string
	rows  [][]int // by the result, then the mode
}

// compare runs the results' code as agents of every mode, and counts what each
// reads.
func (t *table) compare(ctx context.Context, d *rig.Daemon) (err error) {
	c := comparison{rows: make([][]int, len(results))}
	for _, mode := range modes {
		if _, err := bridge.ParseMode(mode); err != nil {
			return fmt.Errorf("comparing modes: %w", err)
		}
		counts, err := t.inMode(ctx, d, mode)
		if err != nil {
			return fmt.Errorf("results in the mode %s: %w", mode, err)
		}
		c.modes = append(c.modes, mode)
		for i, n := range counts {
			c.rows[i] = append(c.rows[i], n)
		}
	}
	t.compared = c
	return nil
}

func (t *table) inMode(ctx context.Context, d *rig.Daemon, mode string) (counts []int, err error) {
	a, err := join(ctx, d, "MCP_BRIDGE_OUTPUT_MODE="+mode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	for _, r := range results {
		out, _, err := a.ask(ctx, map[string]any{"code": r.code})
		if err != nil {
			return nil, err
		}
		n, err := t.codec.Count(out)
		if err != nil {
			return nil, err
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// write prints the comparison.
func (c comparison) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nresult\t")
	for _, mode := range c.modes {
		fmt.Fprintf(w, "%s\t", mode)
	}
	fmt.Fprintln(w)
	for i, counts := range c.rows {
		fmt.Fprintf(w, "%s\t", results[i].name)
		for _, n := range counts {
			fmt.Fprintf(w, "%d\t", n)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// figures are what all results cost in each mode.
func (c comparison) figures() (figures []figure) {
	for m, mode := range c.modes {
		sum := 0
		for _, counts := range c.rows {
			sum += counts[m]
		}
		figures = append(figures, figure{"tokens_results_" + mode, float64(sum), "tokens", len(c.rows)})
	}
	return figures
}
