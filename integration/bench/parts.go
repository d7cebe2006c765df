//go:build integration

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tiktoken-go/tokenizer"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	rounds   = 20 // turns that the two sides of a ratio take
	perRound = 200
	settle   = 500 * time.Millisecond

	firstCalls = 20
)

// echoProgram is the least that can answer over a container's stdio.
const echoProgram = `
import os
while True:
    b = os.read(0, 4096)
    if not b: break
    os.write(1, b)
`

// warm measures a warm call through the shim, the bare round trip of a line
// through a container's Python, and a container per call.
func (b *bench) warm(ctx context.Context, d *daemon) error {
	a, err := d.agent()
	if err != nil {
		return err
	}
	echo, closeEcho, err := b.echo(ctx)
	if err != nil {
		return err
	}
	defer closeEcho()
	var calls, prints, echoes, fresh []time.Duration
	n := b.count(perRound)
	for range b.count(rounds) {
		calls, err = times(calls, n, func() error { _, err := a.run("x = 1"); return err })
		if err == nil {
			prints, err = times(prints, n, func() error { _, err := a.run("print('hello')"); return err })
		}
		if err == nil {
			echoes, err = times(echoes, n, echo)
		}
		if err == nil {
			fresh, err = times(fresh, 1, func() error { return b.container(ctx, b.engine.Image, "x = 1") })
		}
		if err != nil {
			return err
		}
		// The engine goes on to clean up after a container for a while; what
		// is measured next must not pay for that.
		time.Sleep(settle)
	}
	b.addTimes("echo", echoes)
	b.addTimes("warm_call", calls)
	b.addTimes("warm_print", prints)
	b.addTimes("container_call", fresh)
	b.add("warm_call_over_echo_p50", ratio(calls, echoes), "x", len(calls))
	b.add("container_call_over_warm_call_p50", ratio(fresh, calls), "x", len(fresh))
	return a.close()
}

// times appends how long f takes, n times.
func times(list []time.Duration, n int, f func() error) ([]time.Duration, error) {
	for range n {
		t, err := timed(f)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// echo starts a container that echoes, and returns one round trip.
func (b *bench) echo(ctx context.Context) (trip func() error, end func(), err error) {
	e := b.engine.Engine
	spec := runtime.DefaultSpec(b.engine.Image)
	spec.Cmd = []string{"python3", "-c", echoProgram}
	id, err := e.Create(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		if err := e.Remove(context.WithoutCancel(ctx), id); err != nil {
			fmt.Fprintln(os.Stderr, "bench: removing a container:", err)
		}
	}
	stream, err := e.Attach(ctx, id, os.Stderr)
	if err == nil {
		err = e.Start(ctx, id)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	r := bufio.NewReader(stream)
	line := []byte(`{"t":"run","run":1,"code":"x = 1"}` + "\n")
	return func() error {
		if _, err := stream.Write(line); err != nil {
			return err
		}
		_, err := r.ReadSlice('\n')
		return err
	}, end, nil
}

// container runs one piece of code in a container of its own, as most tools
// of this kind do for every call. The code must work.
func (b *bench) container(ctx context.Context, image, code string) error {
	e := b.engine.Engine
	spec := runtime.DefaultSpec(image)
	spec.Cmd = []string{"python3", "-c", code}
	id, err := e.Create(ctx, spec)
	if err != nil {
		return err
	}
	stream, err := e.Attach(ctx, id, io.Discard)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := e.Start(ctx, id); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return err
	}
	exit, err := e.Wait(ctx, id)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("the container's code ended with %d", exit.Code)
	}
	return errors.Join(err, e.Remove(ctx, id))
}

// first measures the first call of a new session when the pool is warm, beside
// the warm calls of the same session.
func (b *bench) first(ctx context.Context, d *daemon) error {
	var firsts, warms []time.Duration
	for range b.count(firstCalls) {
		if err := d.Ready(ctx); err != nil {
			return err
		}
		a, err := d.agent()
		if err != nil {
			return err
		}
		call := func() error { _, err := a.run("x = 1"); return err }
		if firsts, err = times(firsts, 1, call); err != nil {
			return err
		}
		if warms, err = times(warms, 50, call); err != nil {
			return err
		}
		if err := a.close(); err != nil {
			return err
		}
	}
	b.addMillis("first_call_p50_ms", firsts)
	b.add("first_call_over_warm_call_p50", ratio(firsts, warms), "x", len(firsts))
	return nil
}

// proxied measures a call from the sandbox of a real server's tool beside the
// same call made by an mcp-go client.
func (b *bench) proxied(ctx context.Context, d *daemon) error {
	a, err := d.agent()
	if err != nil {
		return err
	}
	c, err := d.direct(ctx, "everything")
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it was only measured
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = "echo", map[string]any{"message": "hello"}
	if _, err := a.run("await mcp_everything.echo(message='warm')", "everything"); err != nil {
		return err
	}
	var ours, theirs []time.Duration
	n := b.count(perRound / 4)
	for range b.count(rounds) {
		if ours, err = sandboxTimes(a, ours, fmt.Sprintf(timesProgram, n, `mcp_everything.echo(message="hello")`)); err != nil {
			return err
		}
		theirs, err = times(theirs, n, func() error { _, err := c.CallTool(ctx, req); return err })
		if err != nil {
			return err
		}
	}
	b.addTimes("proxied_call", ours)
	b.addTimes("direct_call", theirs)
	b.add("proxied_over_direct_p50", ratio(ours, theirs), "x", len(ours))
	b.add("proxied_over_direct_p99", float64(percentile(ours, 99))/float64(percentile(theirs, 99)), "x", len(ours))
	return a.close()
}

// sizes measures what we cost an agent's context, and its disk.
func (b *bench) sizes(_ context.Context, d *daemon) error {
	a, err := d.agent()
	if err != nil {
		return err
	}
	raw, err := a.request("tools/list", map[string]any{})
	if err != nil {
		return err
	}
	var list struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return err
	}
	entry := string(list.Tools[0])
	n, err := codec.Count(entry)
	if err != nil {
		return err
	}
	if !strings.Contains(entry, "run_python") || len(list.Tools) != 1 {
		return fmt.Errorf("tools/list has %d tools: %s", len(list.Tools), raw)
	}
	b.add("tool_entry_tokens", float64(n), "tokens", 1)
	info, err := os.Stat("bin/bridge-shim")
	if err != nil {
		return err
	}
	b.add("shim_binary_bytes", float64(info.Size()), "bytes", 1)
	return a.close()
}
