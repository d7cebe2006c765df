package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/spf13/cobra"
)

// runFlags are what a person may say about a run.
type runFlags struct {
	code    string
	servers []string
	timeout duration
	out     string
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [FILE | -c CODE]",
		Short: "Run Python as an agent would, in a new session",
		Long:  "Runs FILE, - for stdin, or CODE in a sandbox of its own, through the same shim and daemon\nas an agent. The exit code is 1 if the code failed.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := f.read(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), code)
		},
	}
	cmd.Flags().StringVarP(&f.code, "code", "c", "", "the code itself")
	cmd.Flags().StringArrayVarP(&f.servers, "server", "s", nil, "MCP server that the code may reach; repeat for more")
	cmd.Flags().Var(&f.timeout, "timeout", "time limit of the code")
	cmd.Flags().StringVarP(&f.out, "out", "o", "", "folder for pictures that the code shows")
	return cmd
}

// read returns the code to run.
func (f *runFlags) read(stdin io.Reader, args []string) (string, error) {
	if (f.code != "") == (len(args) == 1) {
		return "", errors.New("give either a FILE (- for stdin) or -c CODE")
	}
	if f.code != "" {
		return f.code, nil
	}
	if args[0] == "-" {
		b, err := io.ReadAll(stdin)
		return string(b), err
	}
	b, err := os.ReadFile(args[0])
	return string(b), err
}

// run drives one call through the shim.
func (f *runFlags) run(ctx context.Context, w io.Writer, code string) error {
	shim, err := findShim()
	if err != nil {
		return err
	}
	c := client.NewClient(transport.NewStdioWithOptions(shim, nil, nil, transport.WithCommandStderrWriter(os.Stderr)))
	if err := c.Start(ctx); err != nil {
		return fmt.Errorf("starting %s: %w", shim, err)
	}
	defer c.Close() //nolint:errcheck // the answer is there
	hello := mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: mcp.LATEST_PROTOCOL_VERSION,
		ClientInfo:      mcp.Implementation{Name: "bridged run", Version: version},
	}}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return err
	}
	req := mcp.CallToolRequest{}
	req.Params.Name = "run_python"
	req.Params.Meta = &mcp.Meta{ProgressToken: "run"} // says that we wait as long as it takes
	req.Params.Arguments = f.arguments(code)
	res, err := c.CallTool(ctx, req)
	if err != nil {
		return err
	}
	return f.show(w, res)
}

func (f *runFlags) arguments(code string) map[string]any {
	args := map[string]any{"code": code}
	if len(f.servers) > 0 {
		args["servers"] = f.servers
	}
	if f.timeout > 0 {
		args["timeout"] = time.Duration(f.timeout).Seconds()
	}
	return args
}

// findShim looks beside this program, then on PATH.
func findShim() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err == nil {
		if path := filepath.Join(filepath.Dir(self), "bridge-shim"); isFile(path) {
			return path, nil
		}
	}
	path, err := exec.LookPath("bridge-shim")
	if err != nil {
		return "", errors.New("bridge-shim is neither beside bridged nor on PATH: install both")
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// show prints what a call came to. Failed code is an exit code and no message:
// the answer has said why.
func (f *runFlags) show(w io.Writer, res *mcp.CallToolResult) error {
	pictures := 0
	for _, block := range res.Content {
		switch b := block.(type) {
		case mcp.TextContent:
			fmt.Fprintln(w, b.Text)
		case mcp.ImageContent:
			pictures++
			if err := f.picture(w, b, pictures); err != nil {
				return err
			}
		}
	}
	if res.IsError {
		return exitCode(1)
	}
	return nil
}

// picture saves a picture, if there is a folder for it.
func (f *runFlags) picture(w io.Writer, b mcp.ImageContent, n int) error {
	data, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil {
		return fmt.Errorf("decoding a picture: %w", err)
	}
	if f.out == "" {
		fmt.Fprintf(w, "[%s, %d bytes; -o FOLDER saves it]\n", b.MIMEType, len(data))
		return nil
	}
	ext := ".png"
	if b.MIMEType == "image/jpeg" {
		ext = ".jpg"
	}
	path := filepath.Join(f.out, fmt.Sprintf("picture-%d%s", n, ext))
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("saving a picture: %w", err)
	}
	_, err = fmt.Fprintln(w, path)
	return err
}
