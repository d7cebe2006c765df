package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/policy"
)

// watchEvery is how often `approvals --watch` asks.
const watchEvery = 500 * time.Millisecond

func approvalsCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Show the calls of tools that wait for you, and answer them",
		Long:  "Shows the calls that a rule with action = \"confirm\" has you asked about. Each waits inside the code that\nmakes it, and is denied when nobody answers in time. See docs/policy.md.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
			}
			if watch {
				return watchApprovals(cmd.Context(), cmd.OutOrStdout(), p.ops)
			}
			list, err := ops.Approvals(cmd.Context(), p.ops)
			if err != nil {
				return noDaemon(err, p.ops)
			}
			return printApprovals(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print calls as they come, until you end it")
	cmd.AddCommand(answerCommand("allow", true), answerCommand("deny", false))
	return cmd
}

// answerCommand is `approvals allow` or `approvals deny`.
func answerCommand(name string, allow bool) *cobra.Command {
	a := ops.Answer{Allow: allow}
	cmd := &cobra.Command{
		Use:   name + " ID...",
		Short: "Let calls " + map[bool]string{true: "go on", false: "fail"}[allow],
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range ids {
				if err := ops.Approve(cmd.Context(), p.ops, id, a); err != nil {
					errs = append(errs, noDaemon(err, p.ops))
				}
			}
			return errors.Join(errs...)
		},
	}
	usage := "answer all calls of the tool in this session that wait alike, too"
	if allow {
		usage = "allow the tool for the rest of its session"
	}
	cmd.Flags().BoolVar(&a.Always, "always", false, usage)
	return cmd
}

func printApprovals(w io.Writer, list []ops.Approval) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no call waits")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSESSION\tCLIENT\tSERVER\tTOOL\tWAITS\tDENIED IN\tARGUMENTS")
	for _, a := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, a.Session, or(a.Client, "unknown"), a.Server, a.Tool,
			age(a.Since), time.Until(a.Expires).Truncate(time.Second), a.Arguments)
	}
	return t.Flush()
}

// watchApprovals prints each call that comes to wait, until ctx ends.
func watchApprovals(ctx context.Context, w io.Writer, socket string) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := map[string]bool{}
	for {
		list, err := ops.Approvals(ctx, socket)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return noDaemon(err, socket)
		}
		waiting := map[string]bool{}
		for _, a := range list {
			waiting[a.ID] = true
			if !seen[a.ID] {
				printApproval(w, a)
			}
		}
		for id := range seen {
			if !waiting[id] {
				fmt.Fprintf(w, "%s  %s is answered, or waits no more\n", time.Now().Format(time.TimeOnly), id)
			}
		}
		seen = waiting
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func printApproval(w io.Writer, a ops.Approval) {
	fmt.Fprintf(w, "%s  %s  %s on %s, asked by %s in %s (session %s)\n    %s\n    %s\n    bridged approvals allow %s, or deny; denied at %s\n",
		a.Since.Format(time.TimeOnly), a.ID, a.Tool, a.Server, or(a.Client, "an unknown client"), a.Project, a.Session,
		a.Why, a.Arguments, a.ID, a.Expires.Format(time.TimeOnly))
}

// pending lists the calls that wait, for ops.
func (d *daemon) pending() []ops.Approval {
	list := []ops.Approval{}
	for _, p := range d.approvals.List() {
		list = append(list, ops.Approval{
			ID: p.ID, Session: p.Session, Client: p.Client, Project: p.Project, Server: p.Server, Tool: p.Tool,
			Arguments: p.Arguments, Rule: p.Rule, Why: p.Why, Since: p.Since, Expires: p.Expires,
		})
	}
	return list
}

// answer answers one of them.
func (d *daemon) answer(id string, a ops.Answer) error {
	err := d.approvals.Answer(id, policy.Answer{Allow: a.Allow, Always: a.Always})
	if errors.Is(err, policy.ErrNoQuestion) {
		return ops.None(err.Error())
	}
	return err
}
