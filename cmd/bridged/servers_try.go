package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
)

// tellAfter is how often a start that lasts is told of.
const tellAfter = 5 * time.Second

func tryServerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "Try an MCP server, and say exactly what is wrong with it",
		Long: "Starts the server as the daemon would for an agent in the current folder, in the environment\n" +
			"of this shell, lists its tools and stops it. The daemon is not needed and not asked. The exit\n" +
			"code is 0 if the server works and 1 if it does not.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := loadFor(cmd)
			if err != nil {
				return err
			}
			found, err := discoverHere(c, p)
			if err != nil {
				return err
			}
			if err := usable(found, args[0]); err != nil {
				return err
			}
			t := trial{conf: c, paths: p, servers: found.Servers, out: cmd.OutOrStdout(), waits: cmd.ErrOrStderr()}
			return t.run(cmd.Context(), args[0])
		},
	}
	cmd.Flags().String("config", "", "configuration file (env BRIDGED_CONFIG)")
	return cmd
}

// usable says why a definition can't be tried that is there and not in force.
func usable(found discovery.Result, name string) error {
	for _, s := range found.Servers {
		if s.Name == name {
			return nil
		}
	}
	for _, s := range found.Disabled {
		if s.Name == name {
			return fmt.Errorf("server %s is switched off: %s, in %s", name, s.DisabledBy, sourceOf(s))
		}
	}
	for _, s := range found.Held {
		if s.Name == name {
			return fmt.Errorf("server %s can't be used: %s", name, s.Held)
		}
	}
	for _, p := range found.Problems {
		if p.Key == name || strings.HasSuffix(p.Key, "."+name) {
			return fmt.Errorf("server %s can't be read: %s", name, p)
		}
	}
	return nil // an alias, or one that the probe does not find either
}

// A trial tries servers for a person.
type trial struct {
	conf    *config
	paths   paths
	servers []discovery.Server
	out     io.Writer // gets each step
	waits   io.Writer // gets what is waited for, now and then
}

// run probes a server for a person. Nothing is left of the server when it
// returns.
func (t trial) run(ctx context.Context, name string) error {
	ok, err := t.try(ctx, name, func(step proxy.Step) { printStep(t.out, step) })
	if err == nil && !ok {
		return exitCode(1)
	}
	return err
}

// try probes a server, and reports whether all went well. report gets each step.
func (t trial) try(ctx context.Context, name string, report func(proxy.Step)) (ok bool, err error) {
	cwd, err := os.Getwd()
	if err != nil {
		return false, fmt.Errorf("finding the current folder: %w", err)
	}
	o := proxyOptions(t.conf, t.paths)
	for i := range o.Settings {
		o.Settings[i].Eager = nil // no other server is asked for
	}
	if o.Containers, err = t.containers(); err != nil {
		return false, err
	}
	p := proxy.New(o)
	s := p.NewSession(proxy.SessionOptions{
		Servers: func() []discovery.Server { return t.servers }, Getenv: os.LookupEnv, Home: os.Getenv("HOME"), Cwd: cwd,
	})
	quiet := tellWaits(t.waits, s.Waiting)
	ok = s.Probe(ctx, name, report)
	quiet()
	s.Close()
	stopped, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := p.Close(stopped); err != nil {
		report(proxy.Step{Name: "stop", Err: err})
		return false, nil
	}
	if ok {
		report(proxy.Step{Name: "stop", Found: "nothing is left of it"})
	}
	return ok, nil
}

// containers is how the trial makes a server's container. It carries the
// daemon's name, so that the next daemon removes what a killed trial has left.
func (t trial) containers() (proxy.Containers, error) {
	instance, err := t.paths.instance()
	if err != nil {
		return proxy.Containers{}, err
	}
	find := func(ctx context.Context) (runtime.Engine, error) {
		ctx, cancel := context.WithTimeout(ctx, detectTimeout)
		defer cancel()
		return findEngine(ctx, t.conf, zerolog.Nop())
	}
	return proxy.Containers{Engine: find, Labels: map[string]string{
		runtime.LabelInstance: instance, runtime.LabelVersion: version, labelProcess: randomName(),
	}}, nil
}

// tellWaits prints now and then what is waited for, until quiet is called.
func tellWaits(w io.Writer, waiting func() []string) (quiet func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with quiet
		defer close(done)
		tick := time.NewTicker(tellAfter)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for _, text := range waiting() {
				fmt.Fprintf(w, "  %s\n", text)
			}
		}
	}()
	return func() { close(stop); <-done }
}

func printStep(w io.Writer, s proxy.Step) {
	if s.Err == nil {
		fmt.Fprintf(w, "\u2713 %-10s  %s\n", s.Name, s.Found)
		return
	}
	text := s.Err.Error()
	if errors.Is(s.Err, context.Canceled) {
		text = "you stopped it"
	}
	fmt.Fprintf(w, "\u2717 %-10s  %s\n", s.Name, strings.TrimSpace(strings.ReplaceAll(text, "\n", "\n              ")))
	if s.Advice != "" {
		fmt.Fprintf(w, "  %-10s  %s\n", "", s.Advice)
	}
}
