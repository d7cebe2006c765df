//go:build integration

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/integration/realservers"
)

// crowds are how many servers are measured together.
var crowds = []int{1, 11, 50, 100}

// usual are the servers that come first: what people who begin with MCP install.
// The others follow in the order of the list.
var usual = []string{
	"filesystem", "github", "git", "fetch", "memory", "sequential-thinking", "time", "playwright", "slack", "notion", "postgres",
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tokenbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cached := flag.Bool("cached", false, "take only the servers that were captured before: install none")
	most := flag.Int("most", 100, "measure with at most so many servers")
	show := flag.Bool("show", false, "print the sessions")
	flag.Parse()
	cache := os.Getenv("BRIDGED_TEST_CACHE")
	if cache == "" {
		return errors.New("BRIDGED_TEST_CACHE names no folder: run it with `make bench-tokens`")
	}
	servers, err := gather(ctx, filepath.Join(cache, "searchbench"), *cached)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d servers can be started here\n", len(servers))
	t, err := newTable(servers[:min(len(servers), max(*most, 1))])
	if err != nil {
		return err
	}
	engine, err := engines.Start(ctx, engines.Rootful)
	if err != nil {
		return err
	}
	err = t.sessions(ctx, engine, *show)
	return errors.Join(err, engine.Stop(), t.write(os.Stdout, filepath.Join("out", "bench-tokens.json")))
}

// A server is one that has listed its tools, and how the daemon starts it.
type server struct {
	realservers.Captured
	entry map[string]any
}

// gather returns the servers that can be started, the usual ones first.
func gather(ctx context.Context, cache string, cached bool) ([]server, error) {
	list, err := realservers.List()
	if err != nil {
		return nil, err
	}
	if cached {
		list = slices.DeleteFunc(list, func(s realservers.Source) bool { return !s.IsCaptured(cache) })
	} else if err := realservers.InstallUV(ctx, cache); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b realservers.Source) int { return place(a.Name) - place(b.Name) })
	var servers []server
	for _, c := range realservers.Capture(ctx, list, cache, os.Stderr) {
		i := slices.IndexFunc(list, func(s realservers.Source) bool { return s.Name == c.Server })
		entry, err := entryOf(list[i], list[i].Home(cache))
		if err != nil {
			return nil, err
		}
		servers = append(servers, server{c, entry})
	}
	return servers, ctx.Err()
}

// place is where a server comes among others.
func place(name string) int {
	if i := slices.Index(usual, name); i >= 0 {
		return i
	}
	return len(usual)
}

// entryOf is a server's entry in `mcpServers`.
func entryOf(s realservers.Source, dir string) (map[string]any, error) {
	program, args, err := s.Program(dir)
	if err != nil {
		return nil, err
	}
	return map[string]any{"command": program, "args": args, "env": s.Environ(dir), "cwd": realservers.WorkIn(dir)}, nil
}
