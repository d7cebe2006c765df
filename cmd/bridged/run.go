package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
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
	cmd.Flags().StringVarP(&f.out, "out", "o", "", "folder for pictures that the code shows and files that it publishes")
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
	if err != nil {
		return "", fmt.Errorf("%w; if that is code and no file, give it with -c", err)
	}
	return string(b), nil
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
	return f.show(ctx, c, w, res)
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
func (f *runFlags) show(ctx context.Context, c reader, w io.Writer, res *mcp.CallToolResult) error {
	pictures, files := 0, newOutbox(f.out, math.MaxInt64)
	var errs []error // one that can't be saved hides no other
	for _, block := range res.Content {
		switch b := block.(type) {
		case mcp.TextContent:
			fmt.Fprintln(w, b.Text)
		case mcp.ImageContent:
			pictures++
			errs = append(errs, f.picture(w, b, pictures, files))
		case mcp.ResourceLink:
			errs = append(errs, f.file(ctx, c, w, b, files))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if res.IsError {
		return exitCode(1)
	}
	return nil
}

// reader is the part of an MCP client that reads published files.
type reader interface {
	ReadResource(ctx context.Context, req mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error)
}

// file saves a published file, if there is a folder for it.
func (f *runFlags) file(ctx context.Context, c reader, w io.Writer, link mcp.ResourceLink, to *outbox) error {
	if f.out == "" {
		size := int64(0)
		if link.Size != nil {
			size = *link.Size
		}
		_, err := fmt.Fprintf(w, "[%s, %s, %d bytes; -o FOLDER saves it]\n", link.Name, link.MIMEType, size)
		return err
	}
	req := mcp.ReadResourceRequest{}
	req.Params.URI = link.URI
	res, err := c.ReadResource(ctx, req)
	if err != nil {
		return fmt.Errorf("reading %s: %w", link.Name, err)
	}
	path, err := to.Keep(link.Name, func(w io.Writer, _ int64) error { return writeContents(w, res.Contents) })
	if err != nil {
		return fmt.Errorf("saving %s: %w", link.Name, err)
	}
	_, err = fmt.Fprintln(w, path)
	return err
}

func writeContents(w io.Writer, contents []mcp.ResourceContents) error {
	for _, part := range contents {
		var data []byte
		switch p := part.(type) {
		case mcp.TextResourceContents:
			data = []byte(p.Text)
		case mcp.BlobResourceContents:
			var err error
			if data, err = base64.StdEncoding.DecodeString(p.Blob); err != nil {
				return err
			}
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// picture saves a picture, if there is a folder for it.
func (f *runFlags) picture(w io.Writer, b mcp.ImageContent, n int, to *outbox) error {
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
	path, err := to.Keep(fmt.Sprintf("picture-%d%s", n, ext), func(w io.Writer, _ int64) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("saving a picture: %w", err)
	}
	_, err = fmt.Fprintln(w, path)
	return err
}
