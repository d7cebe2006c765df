package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// callTimeout bounds one request. Calls take milliseconds; the first may wait
// for a sandbox, and for Node to start a server.
const callTimeout = 2 * time.Minute

// playSession is the agent: an MCP client that starts the shim and talks to it.
func playSession(ctx context.Context, p places) error {
	if err := openShop(p); err != nil {
		return fmt.Errorf("writing the demo's project: %w", err)
	}
	say("The agent starts %s", p.shim)
	agent, err := client.NewStdioMCPClientWithOptions(p.shim, nil, nil,
		transport.WithCommandFunc(func(ctx context.Context, command string, _, args []string) (*exec.Cmd, error) {
			cmd := exec.CommandContext(ctx, command, args...)
			cmd.Dir, cmd.Env = p.project, p.environ(nil)
			return cmd, nil
		}),
		transport.WithCommandStderrWriter(os.Stderr))
	if err != nil {
		return fmt.Errorf("starting the shim: %w", err)
	}
	defer agent.Close() //nolint:errcheck // the session is over
	if err := greet(ctx, agent); err != nil {
		return err
	}
	for i, c := range calls(p) {
		say("run_python %d: %s", i+1, c.title)
		a, err := c.send(ctx, agent)
		if err == nil {
			err = c.check(a)
		}
		for _, image := range a.images {
			if err == nil {
				err = saveChart(p, image)
			}
		}
		if err != nil {
			return fmt.Errorf("checking call %d: %w", i+1, err)
		}
	}
	return nil
}

// greet makes the handshake and shows the one tool.
func greet(ctx context.Context, agent *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "bridged-demo", Version: "1"}
	server, err := agent.Initialize(ctx, hello)
	if err != nil {
		return fmt.Errorf("initializing the session: %w", err)
	}
	fmt.Printf("  initialize: %s %s, MCP %s\n", server.ServerInfo.Name, server.ServerInfo.Version, server.ProtocolVersion)
	list, err := agent.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return fmt.Errorf("listing tools: %w", err)
	}
	if len(list.Tools) != 1 || list.Tools[0].Name != "run_python" {
		return fmt.Errorf("listing tools: got %d tools, want run_python alone", len(list.Tools))
	}
	fmt.Printf("  tools/list: %s\n%s\n", list.Tools[0].Name, indent(list.Tools[0].Description))
	return nil
}

// An answer is what a call gave.
type answer struct {
	text   string
	images [][]byte
	failed bool
}

// send makes the call, and shows its code, result and time.
func (c call) send(ctx context.Context, agent *client.Client) (answer, error) {
	code := strings.TrimSpace(c.code)
	fmt.Println(indent(code))
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var req mcp.CallToolRequest
	req.Params.Name = "run_python"
	arguments := map[string]any{"code": code}
	if c.servers != nil {
		arguments["servers"] = c.servers
	}
	req.Params.Arguments = arguments

	sent := time.Now()
	result, err := agent.CallTool(ctx, req)
	took := time.Since(sent)
	if err != nil {
		return answer{}, fmt.Errorf("calling run_python: %w", err)
	}
	a, err := readAnswer(result)
	fmt.Printf("  --> %.1f ms\n%s\n", float64(took.Microseconds())/1000, indent(a.text))
	return a, err
}

func readAnswer(result *mcp.CallToolResult) (answer, error) {
	a := answer{failed: result.IsError}
	for _, block := range result.Content {
		switch b := block.(type) {
		case mcp.TextContent:
			a.text += b.Text
		case mcp.ImageContent:
			image, err := base64.StdEncoding.DecodeString(b.Data)
			if err != nil {
				return a, fmt.Errorf("reading an image: %w", err)
			}
			a.images = append(a.images, image)
		}
	}
	return a, nil
}

func indent(text string) string {
	return "    | " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    | ")
}
