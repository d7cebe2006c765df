package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The exit codes of doctor, beside 0 for "all is well".
const (
	exitWrong    = 1 // something is wrong
	exitWarnings = 2 // nothing but warnings
)

// doctorFlags are what `doctor` takes.
type doctorFlags struct {
	checks  []string
	json    bool
	fix     bool
	image   bool
	quick   bool
	servers bool
}

func doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong on this machine, and say which command mends it",
		Long: "Looks at the container engine, the sandbox image, limits, disks, the clock, the configuration, every\n" +
			"definition of an MCP server, the agents' registrations, sockets and the daemon, all at once. For whatever\n" +
			"is wrong it prints the one command that mends it. It needs no daemon, and changes nothing without --fix;\n" +
			"it makes one sandbox and removes it again, unless --quick is given.\n\n" +
			"The exit code is 0 if all is well, 1 if something is wrong (or doctor was used wrongly), and 2 if there are\n" +
			"warnings and nothing worse. Notes do not count.\n\n" +
			"Checks:\n" + checkList(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := chooseChecks(f.checks)
			if err != nil {
				return err
			}
			if f.image && !f.fix {
				return errors.New("--image says what --fix may do: give both")
			}
			r, err := f.examine(cmd, chosen)
			if err != nil {
				return err
			}
			if err := r.show(cmd.OutOrStdout(), f.json); err != nil {
				return err
			}
			return r.exit()
		},
	}
	cmd.Flags().StringSliceVar(&f.checks, "check", nil, "run this check alone; may be repeated")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON, see docs/doctor.md")
	cmd.Flags().BoolVar(&f.fix, "fix", false, "mend what can be mended safely, say what was done, and look again")
	cmd.Flags().BoolVar(&f.image, "image", false, "with --fix: build or pull the sandbox image if it is not there")
	cmd.Flags().BoolVar(&f.quick, "quick", false, "make no sandbox")
	cmd.Flags().BoolVar(&f.servers, "servers", false, "start or contact every MCP server, as bridged servers test does")
	cmd.Flags().String("config", "", "configuration file (env BRIDGED_CONFIG)")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("check", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return checkNames(), cobra.ShellCompDirectiveNoFileComp
	}))
	return cmd
}

func checkNames() []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.name
	}
	return names
}

// checkList tells the checks in the command's help.
func checkList() string {
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "  %-9s %s\n", c.name, c.about)
	}
	return strings.TrimRight(b.String(), "\n")
}

// chooseChecks returns the checks with the given names, all if there are none.
func chooseChecks(names []string) ([]check, error) {
	if len(names) == 0 {
		return checks, nil
	}
	all := checkNames()
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no check %q; there are: %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return !slices.Contains(names, c.name) }), nil
}

// examine runs checks, and with --fix mends what they find and runs them again.
func (f doctorFlags) examine(cmd *cobra.Command, chosen []check) (doctorReport, error) {
	p, err := newPatient(cmd.Flags(), f)
	if err != nil {
		return doctorReport{}, err
	}
	r := p.examine(cmd.Context(), chosen)
	if f.fix {
		if done := p.mend(cmd.Context(), r); len(done) > 0 {
			if p, err = newPatient(cmd.Flags(), f); err != nil {
				return doctorReport{}, err
			}
			r = p.examine(cmd.Context(), chosen)
			r.Repairs = done
		}
	}
	return r, context.Cause(cmd.Context())
}

// A check looks at one family of things that may be wrong.
type check struct {
	name  string
	about string        // for people, on one line
	limit time.Duration // past it the check has failed, whatever hangs
	run   func(ctx context.Context, p *patient) outcome
}

// An outcome is what a check has found.
type outcome struct {
	summary  string // what was seen, in a few words
	findings []finding
	skipped  string // why nothing was looked at; "" if something was
}

// The limits of checks: of those that look at this machine, of those that ask
// an engine, and of those that have something started.
const (
	quickLimit  = 15 * time.Second
	engineLimit = 30 * time.Second
	startLimit  = 90 * time.Second
)

// checks are all checks, in the order in which they are shown. docs/doctor.md is
// checked against it.
var checks = []check{
	{"config", "the configuration file, and variables that begin with MCP_BRIDGE_", quickLimit, checkConfig},
	{"engine", "the places where a container engine may listen, what answers there, and its API version", engineLimit, checkEngine},
	{"rootless", "what an engine without root needs: subordinate ids, newuidmap, user namespaces, a runtime folder", engineLimit, checkRootless},
	{"cgroups", "the limits of memory, processes and cores that a sandbox really has", startLimit, checkCgroups},
	{"seccomp", "the filters of system calls, of the kernel, the engine and the sandbox", startLimit, checkSeccomp},
	{"image", "the sandbox image: whether it is there, of what kind and how old", engineLimit, checkImage},
	{"sandbox", "a sandbox, made and attested as the daemon does it", startLimit, checkSandbox},
	{"disk", "room on the disks of the engine, the state, the cache and the runtime folder", engineLimit, checkDisk},
	{"clock", "the clock, the time zone, and the engine's clock", engineLimit, checkClock},
	{"servers", "every definition of an MCP server for the current folder", startLimit * 2, checkServers},
	{"agents", "the agents in which bridge-shim is registered, and which program their entries start", quickLimit, checkAgents},
	{"sockets", "owners and modes of our sockets and folders, and of the engine's socket", quickLimit, checkSockets},
	{"daemon", "the daemon, if it runs, and its systemd units", quickLimit, checkDaemon},
	{"state", "what daemons, sandboxes and edits before have left", engineLimit, checkState},
}

// examine runs checks side by side. A check that fails, panics or hangs hides
// no other.
func (p *patient) examine(ctx context.Context, chosen []check) doctorReport {
	r := doctorReport{Schema: doctorSchema, Version: version, Time: time.Now().UTC(), Checks: make([]checkReport, len(chosen)), Repairs: []repairReport{}}
	results := make(chan int)
	for i, c := range chosen {
		go func() { // ends with the check, whose time is limited
			r.Checks[i] = p.runCheck(ctx, c)
			results <- i
		}()
	}
	for range chosen {
		<-results
	}
	p.close()
	r.Status = statusOK
	for _, c := range r.Checks {
		r.Status = worse(r.Status, c.Status)
	}
	return r
}

// runCheck runs one check for as long as it may take.
func (p *patient) runCheck(ctx context.Context, c check) checkReport {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	done := make(chan outcome, 1)
	go func() { // ends with the check; one that a dead disk holds up ends with the program
		defer func() {
			if v := recover(); v != nil {
				done <- outcome{findings: []finding{found("doctor.broken", c.name, fmt.Sprintf("this check itself has failed: %v", v), "")}}
			}
		}()
		done <- c.run(ctx, p)
	}()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		o.findings = []finding{found("doctor.timeout", c.name, fmt.Sprintf("this check did not end within %s: something that it asks does not answer", c.limit),
			shellLine("bridged", "doctor", "--check", c.name))}
	}
	r := checkReport{Name: c.name, Status: statusOK, Summary: o.summary, Milliseconds: time.Since(began).Milliseconds(), Findings: o.findings}
	if r.Findings == nil {
		r.Findings = []finding{}
	}
	if o.skipped != "" {
		r.Status, r.Summary = statusSkipped, o.skipped
	}
	for _, f := range r.Findings {
		r.Status = worse(r.Status, f.Level)
	}
	return r
}
