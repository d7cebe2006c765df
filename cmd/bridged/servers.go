package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/ops"
)

// maxShown bounds the last error in a row of the table, in bytes.
const maxShown = 100

func serversCommand() *cobra.Command {
	var asJSON, verbose, sources bool
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Show the MCP servers: those of the daemon, and those that are configured here",
		Long: "Shows each MCP server that the daemon knows, and those that the configuration files for the\n" +
			"current folder name and that were never started. A name comes several times when sessions\n" +
			"have different servers of it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sources {
				return showSources(cmd.OutOrStdout(), asJSON)
			}
			list, err := listServers(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(list)
			}
			return printServers(cmd.OutOrStdout(), list.Servers, verbose)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&sources, "sources", false, "show each definition for the current folder: its file and line, and why it is not used")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "add the last lines of each server's stderr")
	cmd.AddCommand(tryServerCommand(), approveServerCommand(), revokeServerCommand(), approvedServersCommand())
	return cmd
}

// A serverReport is what `bridged servers --json` prints.
type serverReport struct {
	Servers  []serverRow `json:"servers"`            // by name
	Problems []string    `json:"problems,omitempty"` // definitions that can't be read
}

// A serverRow is one server of the daemon's, or one that is only configured.
type serverRow struct {
	ops.Server
	Source string `json:"source,omitempty"` // the definition's file, line and key, if it is one for this folder
}

// The states that only configured servers have.
const (
	stateConfigured = "configured" // it was never started
	stateDisabled   = "disabled"   // it is switched off
	stateHeld       = "held"       // it is the project's, and not approved
)

// listServers asks the daemon, if there is one, and reads the configuration
// for the current folder. What is in the way goes to warn.
func listServers(ctx context.Context, warn io.Writer) (serverReport, error) {
	c, p, err := configHere()
	if err != nil {
		return serverReport{}, err
	}
	status, err := ops.Get(ctx, p.ops)
	if err != nil {
		fmt.Fprintf(warn, "bridged: %v\n", noDaemon(err, p.ops))
	}
	found, err := discoverHere(c, p)
	if err != nil {
		return serverReport{}, err
	}
	for _, problem := range found.Problems {
		if !problem.Self { // an agent's entry of our shim is no server, and nothing to warn of
			fmt.Fprintf(warn, "bridged: skipped: %s\n", problem)
		}
	}
	cwd, err := os.Getwd()
	if err != nil {
		return serverReport{}, fmt.Errorf("finding the current folder: %w", err)
	}
	report := mergeServers(status.Servers, found)
	report.tellUnusable(examineServers(c, p, cwd, found.Servers))
	return report, nil
}

// tellUnusable adds why servers could not be used if they were asked for, by
// name. What the daemon says of those that it knows counts more.
func (r serverReport) tellUnusable(why map[string]error) {
	for i, s := range r.Servers {
		if err := why[s.Name]; err != nil && s.State == stateConfigured {
			r.Servers[i].Error = strings.TrimPrefix(err.Error(), "Server "+s.Name+" ")
		}
	}
}

// configHere is the configuration of a command without flags for it.
func configHere() (*config, paths, error) {
	c, err := loadConfig(&pflag.FlagSet{}, os.Getenv)
	if err != nil {
		return nil, paths{}, err
	}
	p, err := findPaths(os.Getenv)
	return c, p, err
}

// discoverHere reads the definitions for the current folder and environment.
func discoverHere(c *config, p paths) (discovery.Result, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return discovery.Result{}, fmt.Errorf("finding the current folder: %w", err)
	}
	return discovery.Load(c.discovery(p, os.Getenv("HOME"), cwd, os.LookupEnv)), nil
}

// mergeServers adds to the daemon's servers those that are only configured.
func mergeServers(running []ops.Server, found discovery.Result) serverReport {
	report := serverReport{Servers: []serverRow{}}
	known := map[string]bool{}
	sources := map[string]string{}
	for _, s := range found.Servers {
		sources[s.Name] = sourceOf(s)
	}
	for _, s := range running {
		known[s.Name] = true
		report.Servers = append(report.Servers, serverRow{Server: s, Source: sources[s.Name]})
	}
	add := func(s discovery.Server, state, why string) {
		if !known[s.Name] {
			report.Servers = append(report.Servers, serverRow{
				Server: ops.Server{Name: s.Name, State: state, Transport: string(s.Transport), Error: why}, Source: sourceOf(s),
			})
		}
	}
	for _, s := range found.Servers {
		add(s, stateConfigured, "")
	}
	for _, s := range found.Disabled {
		add(s, stateDisabled, s.DisabledBy)
	}
	for _, s := range found.Held {
		add(s, stateHeld, s.Held)
	}
	for _, p := range found.Problems {
		if !p.Self {
			report.Problems = append(report.Problems, p.String())
		}
	}
	slices.SortStableFunc(report.Servers, func(a, b serverRow) int { return cmp.Compare(a.Name, b.Name) })
	return report
}

func sourceOf(s discovery.Server) string {
	if len(s.Sources) == 0 {
		return ""
	}
	return s.Sources[0].String()
}

// printServers prints a table, and with each server the end of its stderr if
// verbose.
func printServers(w io.Writer, rows []serverRow, verbose bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTATE\tTRANSPORT\tRUNS AS\tUPTIME\tRESTARTS\tCALLS\tERRORS\tP50\tP95\tIN FLIGHT\tLAST ERROR")
	held := []string{}
	for _, r := range rows {
		if r.State == stateHeld {
			held, r.Error = append(held, r.Error), "the project's own file"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n",
			r.Name, r.State, r.Transport, runsAs(r.Server), uptime(r.Server), r.Restarts, r.Calls, r.Errors,
			took(r.P50), took(r.P95), inFlight(r.Server), shorten(firstLine(r.Error), maxShown))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(held) > 0 {
		if _, err := fmt.Fprintf(w, "\n%s", tellHeld(held)); err != nil {
			return err
		}
	}
	if !verbose {
		return nil
	}
	for _, r := range rows {
		if r.Warning != "" {
			fmt.Fprintf(w, "\n%s: %s\n", r.Name, r.Warning)
		}
		if r.Error != "" {
			fmt.Fprintf(w, "\n%s, last error:\n%s\n", r.Name, indent(r.Error))
		}
		if r.Stderr != "" {
			fmt.Fprintf(w, "\n%s, end of stderr:\n%s\n", r.Name, indent(r.Stderr))
		}
		if r.Log != "" {
			fmt.Fprintf(w, "\n%s, end of its log messages:\n%s\n", r.Name, indent(r.Log))
		}
	}
	return nil
}

// runsAs tells the process or the container of a server.
func runsAs(s ops.Server) string {
	switch {
	case s.Container != "":
		return "container " + s.Container
	case s.PID != 0:
		return "pid " + strconv.Itoa(s.PID)
	}
	return "-"
}

func uptime(s ops.Server) string {
	if s.Since.IsZero() {
		return "-"
	}
	return age(s.Since).String()
}

// took writes a time in milliseconds, "-" for none.
func took(ms float64) string {
	switch {
	case ms == 0:
		return "-"
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 1, 64) + "ms"
	}
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond).String()
}

func inFlight(s ops.Server) string {
	if s.Waiting > 0 {
		return fmt.Sprintf("%d (%d wait)", s.InFlight, s.Waiting)
	}
	return strconv.Itoa(s.InFlight)
}

func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}
