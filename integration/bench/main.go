//go:build integration

// Command bench measures bridged beside what it is compared with, in one run
// on one real engine, prints a table and writes out/bench.json.
//
//	go run -tags integration ./integration/bench [ENGINE]
//
// Every figure is a ratio or is printed beside its yardstick: the machine's
// own speed cancels out. The two sides of a ratio are measured in turns.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/bridged/bridged/integration/engines"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := engines.Rootful
	if len(os.Args) > 1 {
		name = engines.Name(os.Args[1])
	}
	if err := run(ctx, name); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name engines.Name) error {
	e, err := engines.Start(ctx, name)
	if err != nil {
		return err
	}
	b := &bench{engine: e}
	err = b.measure(ctx)
	if stopErr := e.Stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return err
	}
	return b.write(os.Stdout, filepath.Join("out", "bench.json"))
}

// A figure is one row of out/bench.json. Names stay from release to release.
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
	figures []figure
}

// measure takes all figures, one part after the other.
func (b *bench) measure(ctx context.Context) error {
	d, err := startDaemon(ctx, b.engine)
	if err != nil {
		return err
	}
	defer d.stop()
	for _, part := range []struct {
		name string
		run  func(context.Context, *daemon) error
	}{
		{"warm calls beside echoes and containers", b.warm},
		{"first calls", b.first},
		{"proxied calls beside direct ones", b.proxied},
		{"sizes", b.sizes},
	} {
		fmt.Fprintln(os.Stderr, "measuring", part.name)
		if err := part.run(ctx, d); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
	}
	return nil
}

func (b *bench) add(name string, value float64, unit string, n int) {
	b.figures = append(b.figures, figure{name, value, unit, n, string(b.engine.Name)})
}

// addTimes adds the median and the 99th percentile of times.
func (b *bench) addTimes(name string, times []time.Duration) {
	b.add(name+"_p50_us", micros(percentile(times, 50)), "us", len(times))
	b.add(name+"_p99_us", micros(percentile(times, 99)), "us", len(times))
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
