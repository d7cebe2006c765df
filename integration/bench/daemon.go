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
	"os/exec"

	"github.com/bridged/bridged/integration/rig"
)

// A daemon is a `bridged serve` with a home of its own.
type daemon struct{ *rig.Daemon }

// startDaemon starts a daemon with the servers of the benchmarks. Env says where
// its engine is, and its image.
func startDaemon(ctx context.Context, env []string) (*daemon, error) {
	entries, err := upstreamEntries()
	if err != nil {
		return nil, err
	}
	d, err := rig.Start(ctx, entries, env...)
	if err != nil {
		return nil, err
	}
	return &daemon{d}, nil
}

// stop ends the daemon, if there is one, and removes its home.
func (d *daemon) stop() {
	if d != nil {
		d.Stop()
	}
}

// An agent is a shim and the least client that can drive one, so that what is
// measured is ours.
type agent struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
}

// agent starts a shim and initializes.
func (d *daemon) agent() (*agent, error) {
	a := &agent{cmd: exec.Command("bin/bridge-shim")}
	a.cmd.Env = d.Env
	var err error
	if a.in, a.out, err = piped(a.cmd); err != nil {
		return nil, fmt.Errorf("starting a shim: %w", err)
	}
	params := map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "bench", "version": "1"},
	}
	if _, err := a.request("initialize", params); err != nil {
		return nil, err
	}
	_, err = io.WriteString(a.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return a, err
}

// piped starts a program that is asked and answers in lines.
func piped(cmd *exec.Cmd) (io.WriteCloser, *bufio.Reader, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return in, bufio.NewReaderSize(out, 1<<20), cmd.Start()
}

// request sends one request and returns its result.
func (a *agent) request(method string, params any) (json.RawMessage, error) {
	a.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := a.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var reply struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(line, &reply); err != nil {
			return nil, err
		}
		switch {
		case reply.ID != a.id: // a notification
		case reply.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, reply.Error)
		default:
			return reply.Result, nil
		}
	}
}

// An output is what a call showed.
type output struct {
	text   string
	images int
}

// run runs code, which must work, and returns the text that it came to.
func (a *agent) run(code string, servers ...string) (string, error) {
	out, err := a.show(code, servers...)
	return out.text, err
}

// show runs code, which must work.
func (a *agent) show(code string, servers ...string) (output, error) {
	args := map[string]any{"code": code}
	if len(servers) > 0 {
		args["servers"] = servers
	}
	raw, err := a.request("tools/call", map[string]any{"name": "run_python", "arguments": args})
	if err != nil {
		return output{}, err
	}
	var res struct {
		IsError bool `json:"isError"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return output{}, err
	}
	var out output
	for _, c := range res.Content {
		out.text += c.Text
		if c.Type == "image" {
			out.images++
		}
	}
	if res.IsError {
		return output{}, errors.New(out.text)
	}
	return out, nil
}

// close ends the shim.
func (a *agent) close() error {
	if err := a.in.Close(); err != nil {
		return err
	}
	return a.cmd.Wait()
}
