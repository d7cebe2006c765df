//go:build integration

package realservers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// captureAtOnce is how many servers are installed and started side by side.
	captureAtOnce = 4

	// listTimeout bounds a server's start and the listing of its tools.
	listTimeout = 60 * time.Second

	maxPages = 50 // of one server's tools
)

// toolsFile is what a server's tools are kept in, once it has listed them.
const toolsFile = "tools.json"

// A Captured is one server's tools, as it listed them.
type Captured struct {
	Server string            `json:"server"`
	Tools  []json.RawMessage `json:"tools"`
}

// Capture lists the tools of every server, those that were captured before from
// the cache folder. Servers that do not install, start or answer are told about
// on log and left out.
func Capture(ctx context.Context, list []Source, cache string, log io.Writer) []Captured {
	all := make([]Captured, len(list))
	slots := make(chan struct{}, captureAtOnce)
	var done sync.WaitGroup
	for i, s := range list {
		slots <- struct{}{}
		done.Go(func() { // ends with ctx and the timeouts
			defer func() { <-slots }()
			tools, err := s.capture(ctx, s.Home(cache))
			if err != nil {
				fmt.Fprintf(log, "%s: %v\n", s.Name, err)
				return
			}
			all[i] = Captured{s.Name, tools}
		})
	}
	done.Wait()
	var kept []Captured
	for _, c := range all {
		if len(c.Tools) > 0 {
			kept = append(kept, c)
		}
	}
	return kept
}

func (s Source) capture(ctx context.Context, dir string) ([]json.RawMessage, error) {
	kept := filepath.Join(dir, toolsFile)
	if text, err := os.ReadFile(kept); err == nil {
		var tools []json.RawMessage
		return tools, json.Unmarshal(text, &tools)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := s.install(ctx, dir); err != nil {
		return nil, fmt.Errorf("installing it: %w", err)
	}
	tools, err := s.list(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("listing its tools: %w", err)
	}
	text, err := json.Marshal(tools)
	if err != nil {
		return nil, err
	}
	return tools, os.WriteFile(kept, text, 0o600)
}

// list starts a server, asks for its tools and stops it with all that it
// started.
func (s Source) list(ctx context.Context, dir string) (tools []json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	program, args, err := s.Program(dir)
	if err != nil {
		return nil, err
	}
	p := &process{home: WorkIn(dir), env: s.Environ(dir)}
	stderr := &lastWords{}
	pipe := transport.NewStdioWithOptions(program, nil, args, transport.WithCommandFunc(p.command), transport.WithCommandStderrWriter(stderr))
	defer p.kill()
	if err := pipe.Start(ctx); err != nil {
		return nil, err
	}
	c := client.NewClient(pipe)
	if err = c.Start(ctx); err == nil {
		tools, err = ask(ctx, c)
	}
	if err != nil {
		p.kill()
		err = fmt.Errorf("%w: %s", err, stderr)
	}
	p.kill()
	return tools, errors.Join(err, ignoreExit(c.Close()))
}

// ignoreExit leaves out that a server which was killed did not exit well.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func ask(ctx context.Context, c *client.Client) ([]json.RawMessage, error) {
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = "2025-06-18"
	hello.Params.ClientInfo = mcp.Implementation{Name: "bridged-realservers", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, err
	}
	var tools []json.RawMessage
	var next mcp.ListToolsRequest
	for range maxPages {
		page, err := c.ListToolsByPage(ctx, next)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			text, err := json.Marshal(t)
			if err != nil {
				return nil, err
			}
			tools = append(tools, text)
		}
		if next.Params.Cursor = page.NextCursor; page.NextCursor == "" {
			break
		}
	}
	if len(tools) == 0 {
		return nil, errors.New("it has none")
	}
	return tools, nil
}

// A process is a server's, in a group of its own so that all of it can be
// stopped.
type process struct {
	home string
	env  map[string]string

	mu  sync.Mutex // guards cmd
	cmd *exec.Cmd
}

func (p *process) command(ctx context.Context, program string, _ []string, args []string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for key, value := range p.env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = cmd
	return cmd, nil
}

// kill stops the process and its children. Later calls do nothing.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	// It may have ended by itself, which is as well.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.cmd = nil
}

// lastWords keeps the end of what a server writes to stderr.
type lastWords struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (l *lastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = []byte(tail(append(l.text, b...)))
	return len(b), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
