package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/ops"
)

func statusCommand() *cobra.Command {
	var asJSON, watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the engine, the pool, the sessions and the servers of the daemon",
		Long: "Shows how the daemon is. The exit code is 0 if it is ready, 3 if it runs and is not ready, and 1 if it does not run.\n" +
			"With --watch it shows that again and again, also while no daemon runs, until q or Ctrl-C.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
			}
			if watch {
				return newWatch(p.ops, interval, asJSON).run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			}
			if cmd.Flags().Changed("interval") {
				return errors.New("--interval says how often --watch looks: add --watch")
			}
			s, err := ops.Get(cmd.Context(), p.ops)
			if err != nil {
				return noDaemon(err, p.ops)
			}
			if err := printStatus(cmd.OutOrStdout(), s, asJSON); err != nil {
				return err
			}
			if !s.Ready {
				return exitCode(3)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it until q or Ctrl-C, as it changes")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "how often --watch looks, at least every 100ms")
	return cmd
}

// noDaemon turns a failed dial into advice.
func noDaemon(err error, socket string) error {
	if dial, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("no daemon answers at %s: start one with `bridged serve` (%w)", socket, dial.Err)
	}
	return err
}

func printStatus(w io.Writer, s ops.Status, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// What agents and servers call themselves must not steer a terminal.
	row := func(label, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", label, printable(fmt.Sprintf(format, args...)))
	}
	rows := func(label, text string) {
		for line := range strings.SplitSeq(text, "\n") {
			row(label, "%s", line)
			label = ""
		}
	}
	row("bridged", "%s, pid %d, up %s", s.Version, s.PID, age(s.Started))
	rows("ready", readiness(s))
	rows("engine", describeEngine(s.Engine))
	row("image", "%s", s.Engine.Image)
	for _, d := range s.Engine.Degraded {
		row("degraded", "%s", d)
	}
	row("pool", "%d of %d warm, %d in use, %d being made; %s",
		s.Pool.Warm, s.Pool.Target, s.Pool.Leased, s.Pool.Creating, s.Pool.Limit)
	if s.Approvals > 0 {
		row("approvals", "%d calls wait for you: bridged approvals", s.Approvals)
	}
	for _, v := range s.Sandboxes {
		row("sandbox", "%s  %s  %s old  %s", v.ID[:min(8, len(v.ID))], v.State, age(v.Since), describeHold(v))
	}
	for _, v := range s.Sessions {
		row("session", "%s  %s  pid %d  %s  %d calls, %d running, %s old",
			v.ID, or(v.Client, "unknown client"), v.PID, v.Cwd, v.Calls, v.Running, age(v.Since))
		for _, p := range v.Pythons {
			row("", "%s  %s  %d calls, %d running, %s old%s",
				pythonName(p.Name), whereIn(p), p.Calls, p.Running, age(p.Since), idleFor(p))
		}
	}
	if s.Queues.Shims > 0 {
		row("sessions", "%d of an earlier daemon wait for their agents' shims", s.Queues.Shims)
	}
	row("servers", "%d of at most %d run; `bridged servers` tells more", s.ServerRoom.Count, s.ServerRoom.Max)
	for _, v := range s.Servers {
		row("server", "%s  %s  %s  %d calls, %d errors, %d restarts  %s",
			v.Name, v.State, runsAs(v), v.Calls, v.Errors, v.Restarts, firstLine(v.Error))
	}
	if s.Ops.Socket != "" { // it was once without
		fmt.Fprintf(t, "ops\t%s\n", describeAccess(s.Ops))
	}
	if a := s.Audit; a != nil {
		row("audit", "%s  %s", a.Path, describeAudit(*a))
	}
	if tr := s.Traces; tr != nil {
		fmt.Fprintf(t, "traces\t%s  %d spans sent, %d failed, %d dropped  %s\n", tr.Endpoint, tr.Exported, tr.Failed, tr.Dropped, firstLine(tr.Error))
	}
	return t.Flush()
}

// describeAccess says where the daemon answers people and machines.
func describeAccess(a ops.Access) string {
	switch {
	case a.Error != "":
		return fmt.Sprintf("%s, and the port of ops.listen cannot be used: %s", a.Socket, a.Error)
	case a.URL != "":
		return fmt.Sprintf("%s, token in %s", a.URL, a.TokenFile)
	}
	return a.Socket
}

func describeAudit(a ops.Audit) string {
	if a.Error == "" {
		return ""
	}
	return fmt.Sprintf("cannot be written: %s (%d lines wait, %d are lost)", a.Error, a.Waiting, a.Dropped)
}

func pythonName(name string) string {
	if name == "" {
		return "default"
	}
	return strconv.Quote(name)
}

// whereIn tells the state and the sandbox, if there is one.
func whereIn(p ops.Python) string {
	if p.Sandbox == "" {
		return p.State
	}
	return fmt.Sprintf("%s in sandbox %s", p.State, p.Sandbox[:min(8, len(p.Sandbox))])
}

func idleFor(p ops.Python) string {
	if p.Running > 0 || p.Used.IsZero() {
		return ""
	}
	return fmt.Sprintf(", idle for %s", age(p.Used))
}

// describeHold is what holds a sandbox, in a few words; the whole is in JSON.
func describeHold(v ops.Sandbox) string {
	p := v.Posture
	text := fmt.Sprintf("uid %s, capabilities %s, seccomp %s x%d", p.UID, p.Capabilities, p.Seccomp, p.SeccompFilters)
	if p.MemoryBytes != nil {
		text += fmt.Sprintf(", %d MiB", *p.MemoryBytes>>20)
	}
	if p.PIDs != nil {
		text += fmt.Sprintf(", %d pids", *p.PIDs)
	}
	if len(v.Degraded) > 0 {
		text += ", degraded"
	}
	return text
}

func readiness(s ops.Status) string {
	if s.Ready {
		return "yes"
	}
	if s.Reason == s.Engine.Error {
		return "no: " + firstLine(s.Reason) // the line below has the rest
	}
	return "no: " + s.Reason
}

func describeEngine(e ops.Engine) string {
	if e.Name == "" {
		return "none: " + e.Error
	}
	mode := "rootful"
	if e.Rootless {
		mode = "rootless"
	}
	return fmt.Sprintf("%s %s, %s, API %s, cgroups v%s, %s", e.Name, e.Version, mode, e.APIVersion, e.CgroupVersion, e.Endpoint)
}

func age(t time.Time) time.Duration { return time.Since(t).Truncate(time.Second) }

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
