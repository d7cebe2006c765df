//go:build integration

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/bridged/bridged/integration/realservers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "searchbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cache := os.Getenv("BRIDGED_TEST_CACHE")
	if cache == "" {
		return errors.New("BRIDGED_TEST_CACHE names no folder: run it with `make bench-search`")
	}
	misses := flag.Bool("misses", false, "print the queries whose tool is not among the first five")
	cached := flag.Bool("cached", false, "take only the servers that were captured before: install and start none")
	flag.Parse()
	list, err := realservers.List()
	if err != nil {
		return err
	}
	cache = filepath.Join(cache, "searchbench")
	list = slices.DeleteFunc(list, func(s realservers.Source) bool { return s.Unlabelled })
	if *cached {
		list = slices.DeleteFunc(list, func(s realservers.Source) bool { return !s.IsCaptured(cache) })
	} else if err := realservers.InstallUV(ctx, cache); err != nil {
		return err
	}
	servers := realservers.Capture(ctx, list, cache, os.Stderr)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := keep(servers); err != nil {
		return err
	}
	return measure(servers, len(list), *misses, os.Stdout)
}

// keep writes the tools where people can read them. Their texts are others',
// so the file is not committed.
func keep(servers []realservers.Captured) error {
	text, err := json.MarshalIndent(servers, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("out", 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("out", "tools.json"), text, 0o600)
}
