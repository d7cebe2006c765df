package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/ops"
)

// maxToolsTold bounds the names of tools in one line of `catalog refresh`.
const maxToolsTold = 12

func catalogCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "Show whose tools the daemon knows without starting a server, and ask for them anew",
		Long: "Shows each server of the current folder, in the environment of this shell, with what the catalogue\n" +
			"has of it; and the lists that are kept of others: of other folders' definitions, of earlier ones, or\n" +
			"of the same in another environment.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, p, err := placeHere()
			if err != nil {
				return err
			}
			list, err := ops.ListCatalog(cmd.Context(), p.ops, at)
			if err != nil {
				return noDaemon(err, p.ops)
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(list)
			}
			return printCatalog(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(refreshCommand(), clearCommand())
	return cmd
}

// placeHere is where the command is called, and the daemon to ask.
func placeHere() (ops.Place, paths, error) {
	p, err := findPaths(os.Getenv)
	if err != nil {
		return ops.Place{}, paths{}, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return ops.Place{}, paths{}, fmt.Errorf("finding the current folder: %w", err)
	}
	at := ops.Place{Cwd: cwd, Env: map[string]string{}}
	for _, kv := range os.Environ() {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			at.Env[name] = value
		}
	}
	return at, p, nil
}

func refreshCommand() *cobra.Command {
	var what ops.Refresh
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "refresh [SERVER...]",
		Short: "Ask servers for their tools anew, and say what has changed",
		Long: "Starts the servers that do not run, as the daemon would for an agent in the current folder, and\n" +
			"lists their tools. Without names these are the ones whose tools are known already. A server that\n" +
			"can't be started keeps what is known of it. The exit code is 1 if any could not be asked.",
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if what.All && len(names) > 0 {
				return fmt.Errorf("name the servers, or give --all")
			}
			at, p, err := placeHere()
			if err != nil {
				return err
			}
			what.Place, what.Servers = at, names
			r := refreshing{out: cmd.OutOrStdout(), asJSON: asJSON}
			if err := ops.RefreshCatalog(cmd.Context(), p.ops, what, r.print); err != nil {
				return noDaemon(err, p.ops)
			}
			return r.end(what)
		},
	}
	cmd.Flags().BoolVar(&what.All, "all", false, "all servers of the current folder, those too that were never started")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each server")
	return cmd
}

// A refreshing prints what becomes of lists, as it comes.
type refreshing struct {
	out       io.Writer
	asJSON    bool
	n, failed int
}

func (r *refreshing) print(one ops.Refreshed) error {
	r.n++
	if one.Error != "" {
		r.failed++
	}
	if r.asJSON {
		return json.NewEncoder(r.out).Encode(one)
	}
	if one.Error != "" {
		_, err := fmt.Fprintf(r.out, "\u2717 %s  %s\n", one.Server, one.Error)
		return err
	}
	_, err := fmt.Fprintf(r.out, "\u2713 %s  %s, %s, after %s\n", one.Server, counted(one.Tools, "tool"), changes(one), took(one.Took))
	return err
}

// end says what there was besides.
func (r *refreshing) end(what ops.Refresh) error {
	if r.failed > 0 {
		return exitCode(1)
	}
	if r.n > 0 || r.asJSON {
		return nil
	}
	text := "no server here has tools that are known; --all asks all servers"
	if what.All {
		text = "there is no server here"
	}
	_, err := fmt.Fprintln(r.out, text)
	return err
}

// changes says how a list differs from the one before.
func changes(one ops.Refreshed) string {
	if one.First {
		return "not known before"
	}
	var parts []string
	add := func(sign string, names []string) {
		for _, name := range names {
			parts = append(parts, sign+name)
		}
	}
	add("+", one.Added)
	add("-", one.Removed)
	add("~", one.Changed)
	if more := len(parts) - maxToolsTold; more > 0 {
		parts = append(parts[:maxToolsTold], fmt.Sprintf("and %d more", more))
	}
	if one.Was != one.Version {
		parts = append(parts, fmt.Sprintf("version %s (was %s)", or(one.Version, "unknown"), or(one.Was, "unknown")))
	}
	return or(strings.Join(parts, " "), "unchanged")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func clearCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clear [SERVER...]",
		Short: "Forget servers' tools; without names all, and what was learnt of results",
		Long: "Drops lists of tools from memory and from disk: those of the servers, or all. The next one who looks\n" +
			"at a server's tools has it started.",
		RunE: func(cmd *cobra.Command, names []string) error {
			at, p, err := placeHere()
			if err != nil {
				return err
			}
			n, err := ops.ClearCatalog(cmd.Context(), p.ops, ops.Clear{Place: at, Servers: names})
			if err != nil {
				return noDaemon(err, p.ops)
			}
			for _, name := range n.Unknown {
				fmt.Fprintf(cmd.ErrOrStderr(), "bridged: no list of a server %s is kept\n", plainWord(name))
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s dropped\n", counted(n.Lists, "list")); err != nil {
				return err
			}
			if len(n.Unknown) > 0 {
				return exitCode(1)
			}
			return nil
		},
	}
}

// printCatalog prints the servers of the place, then the other lists, and in
// full what there is to say of some.
func printCatalog(w io.Writer, list []ops.Listing) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tSTATE\tTOOLS\tLISTED\tVERSION\tREMARKS")
	others := false
	for _, l := range list {
		if !l.Here && !others {
			others = true
			fmt.Fprintln(t, "\nkept of others:")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Server, l.State, toolCount(l), listed(l), or(l.Version, "-"), remark(l))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range list {
		for _, text := range []string{l.Stale, l.Problem, l.Warning} {
			if text == "" || text == l.Problem && l.Stale != "" {
				continue // what is stale says why
			}
			if _, err := fmt.Fprintf(w, "\n%s: %s\n", l.Server, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func toolCount(l ops.Listing) string {
	if l.Tools == nil {
		return "-"
	}
	return strconv.Itoa(*l.Tools)
}

// listed tells how old a list is.
func listed(l ops.Listing) string {
	if l.Listed.IsZero() {
		return "-"
	}
	d := time.Since(l.Listed)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm ago", int(d.Hours()), int(d.Minutes())%60)
	}
	return d.Truncate(time.Second).String() + " ago"
}

// remark says in short what is told in full below the table.
func remark(l ops.Listing) string {
	switch {
	case l.Stale != "":
		return "stale"
	case l.Problem != "":
		return "can't be used"
	case l.Warning != "":
		return "odd"
	case l.Alike:
		return "of another environment"
	}
	return ""
}
