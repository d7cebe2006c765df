//go:build integration

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/misbehave"
)

const (
	bigBytes  = 10 << 20
	bigCalls  = 20   // results of that size, in all
	manyTools = 1000 // of a server
	cold      = 5    // servers whose tools nobody has seen
	listings  = 100  // of one that is known
	perFlight = 2000 // calls for one rate
)

// inFlight are how many calls are under way at once.
var inFlight = []int{1, 16, 256}

// upstreamEntries are the servers of the part proxy: one as its author publishes
// it, one of ours that answers at once, and some with many tools.
func upstreamEntries() (map[string]any, error) {
	fast, err := misbehave.Config{}.Entry()
	if err != nil {
		return nil, err
	}
	entries := map[string]any{"everything": map[string]any{"command": "mcp-server-everything"}, "fast": fast}
	for n := range cold {
		// Their definitions differ, and so does what is known of them.
		if entries[manyName(n)], err = (misbehave.Config{Many: manyTools, ExitCode: n}).Entry(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func manyName(n int) string { return fmt.Sprintf("many%d", n) }

// upstream is how a server is started directly.
func (d *daemon) upstream(name string) (*exec.Cmd, error) {
	var config struct {
		Servers map[string]struct {
			Command string            `json:"command"`
			Env     map[string]string `json:"env"`
		} `json:"mcpServers"`
	}
	text, err := os.ReadFile(d.Configured())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	entry := config.Servers[name]
	path := entry.Command
	if !filepath.IsAbs(path) {
		path = filepath.Join(os.Getenv("BRIDGED_TEST_SERVERS"), path)
	}
	cmd := exec.Command(path)
	cmd.Env = d.Env
	for k, v := range entry.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd, nil
}

// direct connects an mcp-go client to a server of its own.
func (d *daemon) direct(ctx context.Context, name string) (*client.Client, error) {
	tr := transport.NewStdioWithOptions(name, nil, nil,
		transport.WithCommandFunc(func(context.Context, string, []string, []string) (*exec.Cmd, error) { return d.upstream(name) }))
	c := client.NewClient(tr)
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	_, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: mcp.LATEST_PROTOCOL_VERSION, ClientInfo: mcp.Implementation{Name: "bench", Version: "1"},
	}})
	return c, err
}

// sandboxTimes runs code that prints a list of microseconds.
func sandboxTimes(a *agent, list []time.Duration, code string, servers ...string) ([]time.Duration, error) {
	out, err := a.run(code, servers...)
	if err != nil {
		return nil, err
	}
	var us []float64
	if err := json.Unmarshal([]byte(out), &us); err != nil {
		return nil, fmt.Errorf("reading %q: %w", out, err)
	}
	for _, v := range us {
		list = append(list, time.Duration(v*1e3))
	}
	return list, nil
}

// timesProgram times an awaited expression inside the sandbox, in microseconds.
const timesProgram = `
import json, time
from mcp import runtime
ts = []
for i in range(%d):
    t = time.perf_counter()
    await %s
    ts.append((time.perf_counter() - t) * 1e6)
print(json.dumps(ts))
`

// proxy measures what the way through sandbox and daemon costs a server's tools,
// beside an mcp-go client of the same servers.
func (b *bench) proxy(ctx context.Context, d *daemon) error {
	a, err := d.agent()
	if err != nil {
		return err
	}
	err = errors.Join(b.overhead(ctx, d, a), b.rates(ctx, d, a), b.bigResults(ctx, d, a), b.listings(ctx, d, a))
	return errors.Join(err, a.close())
}

// overhead compares what a proxied call costs more than a direct one with two
// round trips: of a request of code that the daemon answers by itself, and of a
// bare line through a container's Python.
func (b *bench) overhead(ctx context.Context, d *daemon, a *agent) error {
	c, err := d.direct(ctx, "fast")
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it was only measured
	echo, closeEcho, err := b.echo(ctx)
	if err != nil {
		return err
	}
	defer closeEcho()
	if _, err := a.run("await mcp_fast.echo(v=0)", "fast"); err != nil {
		return err
	}
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = "echo", map[string]any{"v": 1}
	var ours, theirs, asked, trips []time.Duration
	n := b.count(perRound / 4)
	for range b.count(rounds) {
		if ours, err = sandboxTimes(a, ours, fmt.Sprintf(timesProgram, n, "mcp_fast.echo(v=1)")); err != nil {
			return err
		}
		if asked, err = sandboxTimes(a, asked, fmt.Sprintf(timesProgram, n, "runtime.query_tool_docs('fast', 'slow')")); err != nil {
			return err
		}
		theirs, err = times(theirs, n, func() error { _, err := c.CallTool(ctx, req); return err })
		if err == nil {
			trips, err = times(trips, n, echo)
		}
		if err != nil {
			return err
		}
	}
	b.addTimes("proxied_fast_call", ours)
	b.addTimes("direct_fast_call", theirs)
	b.addTimes("daemon_request", asked)
	more := percentile(ours, 50) - percentile(theirs, 50)
	b.add("proxy_overhead_over_daemon_request_p50", float64(more)/float64(percentile(asked, 50)), "x", len(ours))
	b.add("proxy_overhead_over_echo_p50", float64(more)/float64(percentile(trips, 50)), "x", len(ours))
	return nil
}

// rateProgram makes calls, so many at once, and prints how long all took.
const rateProgram = `
import asyncio, time
async def work(n):
    for i in range(n):
        await mcp_%s.echo(%s)
t = time.perf_counter()
await asyncio.gather(*[work(%d) for _ in range(%d)])
print(time.perf_counter() - t)
`

// rates measures calls per second by how many are under way.
func (b *bench) rates(ctx context.Context, d *daemon, a *agent) error {
	for _, s := range []struct{ server, name, args, key string }{
		{"everything", "", "message='x'", "message"},
		{"fast", "fast_", "v='x'", "v"},
	} {
		c, err := d.direct(ctx, s.server)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // it was only measured
		req := mcp.CallToolRequest{}
		req.Params.Name, req.Params.Arguments = "echo", map[string]any{s.key: "x"}
		if _, err := a.run(fmt.Sprintf(rateProgram, s.server, s.args, 1, 1), s.server); err != nil {
			return err
		}
		for _, n := range inFlight {
			if err := b.rate(ctx, a, c, req, n, s.name, fmt.Sprintf(rateProgram, s.server, s.args, max(1, b.count(perFlight)/n), n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rate measures one number of calls in flight, both sides in turns.
func (b *bench) rate(ctx context.Context, a *agent, c *client.Client, req mcp.CallToolRequest, n int, name, code string) error {
	each := max(1, b.count(perFlight)/n)
	var ours, theirs []time.Duration
	for range b.count(rounds / 2) {
		out, err := a.run(code)
		if err != nil {
			return err
		}
		var seconds float64
		if _, err := fmt.Sscan(out, &seconds); err != nil {
			return fmt.Errorf("reading %q: %w", out, err)
		}
		ours = append(ours, time.Duration(seconds*1e9))
		if theirs, err = times(theirs, 1, func() error { return flight(ctx, c, req, each, n) }); err != nil {
			return err
		}
	}
	calls := float64(each * n)
	b.add(fmt.Sprintf("proxied_%scalls_per_s_%d", name, n), calls/percentile(ours, 50).Seconds(), "1/s", len(ours))
	b.add(fmt.Sprintf("direct_%scalls_per_s_%d", name, n), calls/percentile(theirs, 50).Seconds(), "1/s", len(theirs))
	b.add(fmt.Sprintf("proxied_over_direct_%scalls_per_s_%d", name, n), ratio(theirs, ours), "x", len(ours))
	return nil
}

// flight makes calls, so many at once and so many each.
func flight(ctx context.Context, c *client.Client, req mcp.CallToolRequest, each, n int) error {
	var done sync.WaitGroup
	var failed atomic.Pointer[error]
	for range n {
		done.Go(func() {
			for range each {
				if _, err := c.CallTool(ctx, req); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	done.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// bigResults measures results of 10 MB.
func (b *bench) bigResults(ctx context.Context, d *daemon, a *agent) error {
	c, err := d.direct(ctx, "fast")
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it was only measured
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = "big", map[string]any{"n": bigBytes}
	var ours, theirs []time.Duration
	for range b.count(bigCalls) {
		if ours, err = sandboxTimes(a, ours, fmt.Sprintf(timesProgram, 1, fmt.Sprintf("mcp_fast.big(n=%d)", bigBytes)), "fast"); err != nil {
			return err
		}
		if theirs, err = times(theirs, 1, func() error { _, err := c.CallTool(ctx, req); return err }); err != nil {
			return err
		}
	}
	perSecond := func(list []time.Duration) float64 { return float64(bigBytes) / 1e6 / percentile(list, 50).Seconds() }
	b.add("proxied_10mb_mb_per_s", perSecond(ours), "MB/s", len(ours))
	b.add("direct_10mb_mb_per_s", perSecond(theirs), "MB/s", len(theirs))
	b.add("proxied_10mb_over_direct_p50", ratio(ours, theirs), "x", len(ours))
	return nil
}

// listings measures how long code waits for the docs of a server with many
// tools, before anybody has seen them and after.
func (b *bench) listings(ctx context.Context, d *daemon, a *agent) error {
	var coldOurs, coldTheirs, warmOurs, warmTheirs []time.Duration
	for n := range min(cold, b.count(cold)) {
		name := manyName(n)
		query := fmt.Sprintf("runtime.query_tool_docs(%q)", name)
		var err error
		if coldOurs, err = sandboxTimes(a, coldOurs, fmt.Sprintf(timesProgram, 1, query), name); err != nil {
			return err
		}
		var c *client.Client
		coldTheirs, err = times(coldTheirs, 1, func() (err error) {
			if c, err = d.direct(ctx, name); err == nil {
				err = listAll(ctx, c)
			}
			return err
		})
		if err != nil {
			return err
		}
		each := max(1, b.count(listings)/cold)
		if warmOurs, err = sandboxTimes(a, warmOurs, fmt.Sprintf(timesProgram, each, query)); err != nil {
			return err
		}
		warmTheirs, err = times(warmTheirs, each, func() error { return listAll(ctx, c) })
		if err := errors.Join(err, c.Close()); err != nil {
			return err
		}
	}
	b.addMillis("list_1000_tools_cold_ms", coldOurs)
	b.addMillis("direct_list_1000_tools_cold_ms", coldTheirs)
	b.add("list_1000_tools_cold_over_direct_p50", ratio(coldOurs, coldTheirs), "x", len(coldOurs))
	b.addMillis("list_1000_tools_warm_ms", warmOurs)
	b.addMillis("direct_list_1000_tools_warm_ms", warmTheirs)
	b.add("list_1000_tools_warm_over_direct_p50", ratio(warmOurs, warmTheirs), "x", len(warmOurs))
	return nil
}

func listAll(ctx context.Context, c *client.Client) error {
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err == nil && len(list.Tools) < manyTools {
		err = fmt.Errorf("%d tools are listed", len(list.Tools))
	}
	return err
}
