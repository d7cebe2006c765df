//go:build integration

// Command engine starts one of the test engines, prints its endpoint, and
// stops it on SIGINT or SIGTERM.
//
//	go run -tags integration ./integration/engines/cmd/engine rootful
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bridged/bridged/integration/engines"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 1 || len(args) > 2 || len(args) == 2 && args[1] != "full" {
		return fmt.Errorf("usage: engine NAME [full], where NAME is one of %v and full imports the whole image too", engines.All)
	}
	e, err := engines.Start(ctx, engines.Name(args[0]))
	if err != nil {
		return err
	}
	image := e.Image
	if len(args) == 2 {
		image, err = e.FullImage(ctx)
	}
	if err == nil {
		fmt.Println(e.Endpoint, image)
		<-ctx.Done()
	}
	if stopErr := e.Stop(); err == nil {
		err = stopErr
	}
	return err
}
