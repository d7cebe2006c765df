//go:build integration

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/integration/misbehave"
)

func main() {
	misbehave.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{}
	only := flag.String("only", "", "measure these parts alone, with commas between them")
	flag.BoolVar(&b.quick, "quick", false, "take few samples")
	flag.Parse()
	name := engines.Rootful
	if flag.NArg() > 0 {
		name = engines.Name(flag.Arg(0))
	}
	if *only != "" {
		b.only = strings.Split(*only, ",")
	}
	if err := b.run(ctx, name); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A figure is one row of out/bench.json.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	N      int     `json:"n"`
	Engine string  `json:"engine"`
}

// A bench collects figures.
type bench struct {
	engine  *engines.Running
	quick   bool     // take few samples
	only    []string // parts to measure; none means all
	figures []figure
}

// run measures on one engine and reports, also what was measured when some of
// it could not be.
func (b *bench) run(ctx context.Context, name engines.Name) error {
	stages := b.stages()
	if err := b.checkOnly(stages); err != nil {
		return err
	}
	e, err := engines.Start(ctx, name)
	if err != nil {
		return err
	}
	b.engine = e
	for _, s := range stages {
		err = errors.Join(err, b.stage(ctx, s))
	}
	err = errors.Join(err, e.Stop())
	return errors.Join(err, b.write(os.Stdout, filepath.Join("out", "bench.json")))
}

// A stage is a daemon and what is measured with it.
type stage struct {
	alone bool     // without a daemon
	full  bool     // with the image that agents get
	env   []string // of the daemon, besides the usual
	parts []part
}

// A part takes some figures.
type part struct {
	name, what string
	run        func(context.Context, *daemon) error
}

func (b *bench) stages() []stage {
	return []stage{
		{env: []string{"MCP_BRIDGE_IMPORTS=json"}, parts: []part{
			{"warm", "warm calls beside echoes and containers", b.warm},
			{"first", "first calls", b.first},
			{"proxied", "proxied calls beside direct ones", b.proxied},
			{"proxy", "the proxy beside a direct client", b.proxy},
			{"sizes", "sizes", b.sizes},
		}},
		{full: true, parts: []part{
			{"jupyter", "cells beside a Jupyter kernel", b.jupyter},
			{"pandas", "first calls with pandas", b.pandas},
			{"output", "much output", b.output},
		}},
		{env: crowdEnv, parts: []part{
			{"sessions", fmt.Sprintf("%d sessions side by side", crowd), b.sessions},
		}},
		{alone: true, parts: []part{
			{"escapes", "attempts to escape", b.escapes},
		}},
	}
}

// checkOnly refuses names of parts that there are not.
func (b *bench) checkOnly(stages []stage) error {
	var names []string
	for _, s := range stages {
		for _, p := range s.parts {
			names = append(names, p.name)
		}
	}
	for _, name := range b.only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no part %q: use some of %s", name, strings.Join(names, ","))
		}
	}
	return nil
}

// stage measures one part after the other. One that fails spoils no other.
func (b *bench) stage(ctx context.Context, s stage) (err error) {
	s.parts = slices.DeleteFunc(s.parts, func(p part) bool { return len(b.only) > 0 && !slices.Contains(b.only, p.name) })
	if len(s.parts) == 0 {
		return nil
	}
	d, err := b.daemonFor(ctx, s)
	if err != nil {
		return err
	}
	defer d.stop()
	for _, p := range s.parts {
		fmt.Fprintln(os.Stderr, "measuring", p.what)
		if partErr := p.run(ctx, d); partErr != nil {
			err = errors.Join(err, fmt.Errorf("measuring %s: %w", p.what, partErr))
		}
	}
	return err
}

// daemonFor starts the stage's daemon; it is nil for a stage without one.
func (b *bench) daemonFor(ctx context.Context, s stage) (*daemon, error) {
	if s.alone {
		return nil, nil
	}
	image := b.engine.Image
	if s.full {
		var err error
		if image, err = b.engine.FullImage(ctx); err != nil {
			return nil, err
		}
	}
	return startDaemon(ctx, append(s.env, "MCP_BRIDGE_RUNTIME="+b.engine.Endpoint, "MCP_BRIDGE_IMAGE="+image))
}

// count is how many samples to take in place of n.
func (b *bench) count(n int) int {
	if b.quick {
		return max(n/20, 1)
	}
	return n
}

func (b *bench) add(name string, value float64, unit string, n int) {
	b.figures = append(b.figures, figure{name, value, unit, n, string(b.engine.Name)})
}

// addTimes adds the median and the 99th percentile of times.
func (b *bench) addTimes(name string, times []time.Duration) {
	b.add(name+"_p50_us", micros(percentile(times, 50)), "us", len(times))
	b.add(name+"_p99_us", micros(percentile(times, 99)), "us", len(times))
}

// addMillis adds the median of times.
func (b *bench) addMillis(name string, times []time.Duration) {
	b.add(name, micros(percentile(times, 50))/1e3, "ms", len(times))
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// ratio is how many times a's median is b's.
func ratio(a, b []time.Duration) float64 {
	return float64(percentile(a, 50)) / float64(percentile(b, 50))
}

// percentile returns the p-th percentile by the nearest rank.
func percentile(times []time.Duration, p int) time.Duration {
	s := slices.Sorted(slices.Values(times))
	return s[min(len(s)-1, len(s)*p/100)]
}

// timed returns how long f took.
func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// write prints the table for people and the list for machines.
func (b *bench) write(w *os.File, path string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "figure\tvalue\tunit\tn\tengine\t")
	for _, f := range b.figures {
		fmt.Fprintf(t, "%s\t%.4g\t%s\t%d\t%s\t\n", f.Name, f.Value, f.Unit, f.N, f.Engine)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	data, err := json.MarshalIndent(b.figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
