//go:build integration

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridged/bridged/integration/escape"
)

// pandasCode is a first call as agents make it.
const pandasCode = "import pandas as pd\nprint(pd.DataFrame({'city': ['Oslo', 'Bern'], 'n': [1, 2]}))"

// pandas measures a session's first call that uses pandas, the pool being warm,
// beside the same code in a container of its own.
func (b *bench) pandas(ctx context.Context, d *daemon) error {
	image, err := b.engine.FullImage(ctx)
	if err != nil {
		return err
	}
	var firsts, colds []time.Duration
	for range b.count(firstCalls) {
		if err := d.Ready(ctx); err != nil {
			return err
		}
		time.Sleep(settle)
		a, err := d.agent()
		if err != nil {
			return err
		}
		firsts, err = times(firsts, 1, func() error {
			out, err := a.run(pandasCode)
			if err == nil && !strings.Contains(out, "Oslo") {
				err = fmt.Errorf("a frame was shown as %q", out)
			}
			return err
		})
		if err := errors.Join(err, a.close()); err != nil {
			return err
		}
		if colds, err = times(colds, 1, func() error { return b.container(ctx, image, pandasCode) }); err != nil {
			return err
		}
	}
	b.addMillis("first_call_pandas_ms", firsts)
	b.addMillis("cold_call_pandas_ms", colds)
	b.add("cold_over_pool_first_call_p50", ratio(colds, firsts), "x", len(firsts))
	return nil
}

// floodCode prints so many megabytes.
const floodCode = `
block = ("x" * 99 + "\n") * 10_000
for _ in range(%d):
    print(block, end="")
`

// output measures how fast much output passes, and what it costs the daemon.
func (b *bench) output(_ context.Context, d *daemon) error {
	for _, flood := range []struct{ megabytes, n int }{{10, 10}, {100, 5}} {
		if err := b.flood(d, flood.megabytes, b.count(flood.n)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) flood(d *daemon, megabytes, n int) error {
	a, err := d.agent()
	if err != nil {
		return err
	}
	code := fmt.Sprintf(floodCode, megabytes)
	if _, err := a.run("print('ready')"); err != nil {
		return err
	}
	peak, err := d.watchRSS()
	if err != nil {
		return err
	}
	list, err := times(nil, n, func() error {
		out, err := a.run(code)
		if err == nil && (len(out) < 1000 || out[0] != 'x') {
			err = fmt.Errorf("much output was shown as %.80q", out)
		}
		return err
	})
	growth, watchErr := peak()
	if err := errors.Join(err, watchErr, a.close()); err != nil {
		return err
	}
	name := fmt.Sprintf("output_%dmb_", megabytes)
	b.add(name+"mb_per_s", float64(megabytes)/percentile(list, 50).Seconds(), "MB/s", n)
	b.add(name+"rss_growth_mb", float64(growth)/1e6, "MB", n)
	return nil
}

// rssPeriod is how often the daemon's memory is looked at.
const rssPeriod = 5 * time.Millisecond

// watchRSS looks at the daemon's memory until the returned function is called,
// which tells by how many bytes it had grown at the most.
func (d *daemon) watchRSS() (func() (int64, error), error) {
	before, err := d.RSS()
	if err != nil {
		return nil, err
	}
	most, end := before, make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { // ends with end
		for err == nil {
			var now int64
			now, err = d.RSS()
			most = max(most, now)
			select {
			case <-end:
				return
			case <-time.After(rssPeriod):
			}
		}
	})
	return func() (int64, error) {
		close(end)
		watcher.Wait()
		return most - before, err
	}, nil
}

const (
	crowd     = 50 // sessions
	crowdTime = 5 * time.Second
)

// crowdEnv lets a daemon have a crowd of sandboxes.
var crowdEnv = []string{"MCP_BRIDGE_IMPORTS=json", "MCP_BRIDGE_POOL_MAX=64", "MCP_BRIDGE_POOL_MEMORY=never"}

// sessions measures many sessions that call as fast as they can, each of which
// must see its own variables.
func (b *bench) sessions(ctx context.Context, d *daemon) error {
	var agents []*agent
	for i := range crowd {
		a, err := d.agent()
		if err != nil {
			return err
		}
		if _, err := a.run(fmt.Sprintf("me = %d", i)); err != nil {
			return fmt.Errorf("opening session %d: %w", i, err)
		}
		agents = append(agents, a)
	}
	if err := d.Ready(ctx); err != nil {
		return err
	}
	time.Sleep(settle)
	calls, took, err := stampede(agents, time.Duration(b.count(int(crowdTime))))
	if err != nil {
		return err
	}
	rss, err := d.RSS()
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("sessions_%d_calls_per_s", crowd), math.Round(float64(calls)/took.Seconds()), "1/s", int(calls))
	b.add(fmt.Sprintf("daemon_rss_mb_%d_sessions", crowd), float64(rss)/1e6, "MB", 1)
	for _, a := range agents {
		err = errors.Join(err, a.close())
	}
	return err
}

// stampede has all agents call until the time is over, and counts the calls.
func stampede(agents []*agent, d time.Duration) (calls int64, took time.Duration, err error) {
	var n atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, len(agents))
	began := time.Now()
	for i, a := range agents {
		all.Go(func() { // ends with the time, or with the first mistake
			for time.Since(began) < d && errs[i] == nil {
				out, err := a.run("me")
				if err == nil && out != strconv.Itoa(i) {
					err = fmt.Errorf("session %d saw %q", i, out)
				}
				errs[i] = err
				n.Add(1)
			}
		})
	}
	all.Wait()
	return n.Load(), time.Since(began), errors.Join(errs...)
}

// escapes counts the attempts of hostile code to get out of its sandbox, and
// those that got through.
func (b *bench) escapes(ctx context.Context, _ *daemon) error {
	report, err := escape.Assault(ctx, b.engine)
	if err != nil {
		return err
	}
	for _, what := range report.Successes {
		fmt.Fprintln(os.Stderr, "got through:", what)
	}
	b.add("escape_attempts", float64(report.Attempts), "attempts", 1)
	b.add("escape_successes", float64(len(report.Successes)), "attempts", report.Attempts)
	return nil
}
