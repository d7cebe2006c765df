// Command bridged lets an AI agent reach many MCP servers through one tool,
// run_python, whose code runs in warm, hardened containers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker in releases.
var version = "0.1.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := rootCommand()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		os.Exit(int(code))
	}
	fmt.Fprintln(os.Stderr, "bridged:", err)
	os.Exit(1)
}

// An exitCode ends the program with it and without a message.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
