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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the engine, the pool, the sessions and the servers of the daemon",
		Long:  "Shows how the daemon is. The exit code is 0 if it is ready, 3 if it runs and is not ready, and 1 if it does not run.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
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
	return cmd
}

// noDaemon turns a failed dial into advice.
func noDaemon(err error, socket string) error {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("no daemon answers at %s: start one with `bridged serve` (%w)", socket, err)
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
	fmt.Fprintf(t, "bridged\t%s, pid %d, up %s\n", s.Version, s.PID, age(s.Started))
	fmt.Fprintf(t, "ready\t%s\n", readiness(s))
	fmt.Fprintf(t, "engine\t%s\n", describeEngine(s.Engine))
	fmt.Fprintf(t, "image\t%s\n", s.Engine.Image)
	for _, d := range s.Engine.Degraded {
		fmt.Fprintf(t, "degraded\t%s\n", d)
	}
	fmt.Fprintf(t, "pool\t%d of %d warm, %d in use, %d being made; %s\n",
		s.Pool.Warm, s.Pool.Target, s.Pool.Leased, s.Pool.Creating, s.Pool.Limit)
	for _, v := range s.Sandboxes {
		fmt.Fprintf(t, "sandbox\t%s  %s  %s old  %s\n", v.ID[:min(8, len(v.ID))], v.State, age(v.Since), describeHold(v))
	}
	for _, v := range s.Sessions {
		fmt.Fprintf(t, "session\t%s  %s  pid %d  %s  %d calls, %d running, %s old\n",
			v.ID, or(v.Client, "unknown client"), v.PID, v.Cwd, v.Calls, v.Running, age(v.Since))
		for _, p := range v.Pythons {
			fmt.Fprintf(t, "\t%s  %s  %d calls, %d running, %s old%s\n",
				pythonName(p.Name), whereIn(p), p.Calls, p.Running, age(p.Since), idleFor(p))
		}
	}
	for _, v := range s.Servers {
		fmt.Fprintf(t, "server\t%s  %s  pid %d  %d calls, %d errors, %d restarts  %s\n",
			v.Name, v.State, v.PID, v.Calls, v.Errors, v.Restarts, firstLine(v.Error))
	}
	return t.Flush()
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
