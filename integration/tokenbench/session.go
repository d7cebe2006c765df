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
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/integration/rig"
)

const (
	// knowTime bounds the wait until the daemon knows the tools of all servers.
	knowTime = 15 * time.Minute

	// batch is how many servers the daemon gets at a time: each is started to be
	// asked for its tools, which many at once would do too slowly.
	batch = 4

	// callTime bounds one call of an agent.
	callTime = 3 * time.Minute
)

// The session: an agent looks for a tool by what it wants done, then reads its
// docs and calls it.
const (
	wanted = "see what a directory contains with how big each thing is"
	right  = "mcp_filesystem.list_directory_with_sizes"

	find = "from mcp import runtime\nprint(runtime.discovered_servers())\nawait runtime.search_tool_docs(" + `"` + wanted + `")`
	use  = "print(await runtime.query_tool_docs(\"filesystem\", \"list_directory_with_sizes\"))\n" +
		"print(await " + right + "(path=\".\"))"
)

// spent is what a session costs: what the model writes, and what it reads.
type spent struct {
	find, use          int
	search, searchFull int // the results of the search alone, and with detail="full"
}

// sessions measures the session with the servers of each row, on one daemon that
// gets more and more of them.
func (t *table) sessions(ctx context.Context, engine *engines.Running, show bool) error {
	d, err := rig.Start(ctx, t.entries(t.rows[0].servers),
		"MCP_BRIDGE_RUNTIME="+engine.Endpoint, "MCP_BRIDGE_IMAGE="+engine.Image, "MCP_BRIDGE_SERVER_IDLE=5s", "MCP_BRIDGE_MAX_TIMEOUT=2m")
	if err != nil {
		return err
	}
	defer d.Stop()
	if err := t.compare(ctx, d); err != nil {
		return err
	}
	known := 0
	for i := range t.rows {
		r := &t.rows[i]
		for known < r.servers {
			known = min(known+batch, r.servers)
			if r.unstarted, err = t.learn(ctx, d, known); err != nil {
				return fmt.Errorf("listing the tools of %d servers: %w", known, err)
			}
		}
		if err := t.session(ctx, d, r, show); err != nil {
			return fmt.Errorf("a session with %d servers: %w", r.servers, err)
		}
	}
	return nil
}

// entries are the first n servers as `mcpServers` has them.
func (t *table) entries(n int) map[string]any {
	entries := map[string]any{}
	for _, s := range t.servers[:n] {
		entries[s.Server] = s.entry
	}
	return entries
}

// learn makes the tools of the first n servers known to the daemon. It returns
// the names of those that it could not start.
func (t *table) learn(ctx context.Context, d *rig.Daemon, n int) (unstarted []string, err error) {
	if err := d.Configure(t.entries(n)); err != nil {
		return nil, err
	}
	a, err := join(ctx, d)
	if err != nil {
		return nil, err
	}
	unstarted, err = a.learn(ctx, n)
	return unstarted, errors.Join(err, a.close())
}

// session has an agent of its own, which finds, reads about and calls a tool.
func (t *table) session(ctx context.Context, d *rig.Daemon, r *row, show bool) (err error) {
	a, err := join(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := t.listed(ctx, a, r); err != nil {
		return err
	}
	found, err := t.call(ctx, a, &r.session.find, map[string]any{"code": find}, show)
	if err != nil {
		return err
	}
	if !strings.Contains(found, right) {
		return fmt.Errorf("the search did not find %s: %s", right, found)
	}
	if _, err := t.call(ctx, a, &r.session.use, map[string]any{"code": use, "servers": []string{"filesystem"}}, show); err != nil {
		return err
	}
	return t.searches(ctx, a, r)
}

// searches counts the whole results of the search alone, in both details.
func (t *table) searches(ctx context.Context, a *agent, r *row) error {
	for detail, n := range map[string]*int{"summary": &r.session.search, "full": &r.session.searchFull} {
		code := fmt.Sprintf("print(publish(repr(await runtime.search_tool_docs(%q, detail=%q)).encode(), 'found.txt'))", wanted, detail)
		uri, err := a.run(ctx, map[string]any{"code": code})
		if err != nil {
			return err
		}
		text, err := a.read(ctx, strings.Fields(uri)[0])
		if err != nil {
			return err
		}
		if *n, err = t.codec.Count(text); err != nil {
			return err
		}
	}
	return nil
}

// listed counts what the one tool of ours costs.
func (t *table) listed(ctx context.Context, a *agent, r *row) error {
	list, err := a.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return err
	}
	if len(list.Tools) != 1 {
		return fmt.Errorf("there are %d tools, want the one of ours", len(list.Tools))
	}
	tool := list.Tools[0]
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil {
		return err
	}
	bare, _, _ := strings.Cut(tool.Description, "\nServers: ")
	if r.entry, err = t.countJSON(entry{tool.Name, bare, schema}); err != nil {
		return err
	}
	whole, err := t.countJSON(entry{tool.Name, tool.Description, schema})
	r.live = whole - r.entry
	return err
}

// call makes a call and adds to n what it cost. It returns what the model read.
func (t *table) call(ctx context.Context, a *agent, n *int, args map[string]any, show bool) (string, error) {
	out, err := a.run(ctx, args)
	if err != nil {
		return "", err
	}
	wrote, err := t.countJSON(args)
	if err != nil {
		return "", err
	}
	read, err := t.codec.Count(out)
	if err != nil {
		return "", err
	}
	*n += wrote + read
	if show {
		fmt.Fprintf(os.Stderr, "--- %d tokens written, %d read:\n%s\n%s\n", wrote, read, args["code"], out)
	}
	return out, nil
}

// An agent is an MCP client of the shim.
type agent struct{ *client.Client }

// join starts a shim and greets it. The caller must close the agent.
func join(ctx context.Context, d *rig.Daemon, env ...string) (*agent, error) {
	shim, err := filepath.Abs("bin/bridge-shim")
	if err != nil {
		return nil, err
	}
	project, err := makeProject(d.Dir)
	if err != nil {
		return nil, err
	}
	c, err := client.NewStdioMCPClientWithOptions(shim, append(slices.Clone(d.Env), env...), nil, transport.WithCommandFunc(
		func(ctx context.Context, command string, env, args []string) (*exec.Cmd, error) {
			cmd := exec.CommandContext(ctx, command, args...)
			cmd.Dir, cmd.Env = project, env
			return cmd, nil
		}))
	if err != nil {
		return nil, err
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = "2025-06-18"
	hello.Params.ClientInfo = mcp.Implementation{Name: "tokenbench", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &agent{c}, nil
}

// makeProject makes a folder for an agent to work in. Servers that ask for it
// are told of it.
func makeProject(home string) (string, error) {
	dir := filepath.Join(home, "project")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for name, size := range map[string]int{"README.md": 900, "main.go": 2400, "main_test.go": 1700, "go.mod": 80} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (a *agent) close() error { return a.Close() }

// run calls the tool, which must work, and returns the text of the result.
func (a *agent) run(ctx context.Context, args map[string]any) (string, error) {
	out, failed, err := a.ask(ctx, args)
	if failed {
		err = errors.New(out)
	}
	return out, err
}

// ask calls the tool. It returns the text of the result, and whether that is an
// error.
func (a *agent) ask(ctx context.Context, args map[string]any) (out string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = "run_python", args
	res, err := a.CallTool(ctx, req)
	if err != nil {
		return "", false, err
	}
	var text []string
	for _, c := range res.Content {
		if block, ok := c.(mcp.TextContent); ok {
			text = append(text, block.Text)
		}
	}
	return strings.Join(text, "\n"), res.IsError, nil
}

// read returns the text of a published file.
func (a *agent) read(ctx context.Context, uri string) (string, error) {
	var req mcp.ReadResourceRequest
	req.Params.URI = uri
	res, err := a.ReadResource(ctx, req)
	if err != nil {
		return "", err
	}
	if len(res.Contents) == 1 {
		if file, ok := res.Contents[0].(mcp.TextResourceContents); ok {
			return file.Text, nil
		}
	}
	return "", fmt.Errorf("%s is no text", uri)
}

// learn has the daemon list the tools of all n servers. It returns the names of
// those that it could not start.
func (a *agent) learn(ctx context.Context, n int) (unstarted []string, err error) {
	const code = "import json\nfrom mcp import runtime\n" +
		"try: await runtime.search_tool_docs('x', limit=1)\nfinally: rows = runtime.discovered_servers(detailed=True)\n" +
		"print(json.dumps([len(rows), sum(r['tools'] is None and not r.get('problem') for r in rows), [r['name'] for r in rows if r.get('problem')]]))"
	ctx, cancel := context.WithTimeout(ctx, knowTime)
	defer cancel()
	for {
		out, err := a.run(ctx, map[string]any{"code": code, "timeout": 120})
		if err != nil {
			return nil, err
		}
		var known, waiting int
		i := strings.LastIndex(out, "\n[")
		if err := json.Unmarshal([]byte(out[i+1:]), &[]any{&known, &waiting, &unstarted}); err != nil {
			return nil, fmt.Errorf("reading %q: %w", out, err)
		}
		if known == n && waiting == 0 {
			return unstarted, nil
		}
		fmt.Fprintf(os.Stderr, "%d of %d servers are known, %d are being asked\n", known, n, waiting)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
