// Command bridge-shim is what an agent starts as its MCP server. It finds the
// bridged daemon on a unix socket, starts it if need be, says hello and then
// copies the agent's messages both ways, untouched. The wire is specified in
// the documentation of pkg/bridge.
//
// Nothing but protocol is ever written to stdout. Whatever goes wrong becomes a
// JSON-RPC error that a person understands, because agents show nothing else.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

const usage = `bridge-shim connects an agent to bridged. Agents start it; it takes no arguments.

Environment:
  BRIDGED_SOCKET   the daemon's socket; by default bridged/mcp.sock under
                   $XDG_RUNTIME_DIR, else $XDG_STATE_HOME, else ~/.local/state
  BRIDGED_BIN      the bridged binary to start when no daemon listens; by
                   default the one beside this file, else the one on PATH
`

func main() {
	// A write to an agent that is gone must be an error, not the end by signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		return serve(os.Stdin, os.Stdout)
	case args[0] == "--version" || args[0] == "-version":
		say(stderr, "bridge-shim %s\n", version)
		return 0
	case args[0] == "--help" || args[0] == "-help" || args[0] == "-h":
		say(stderr, "%s", usage)
		return 0
	}
	say(stderr, "bridge-shim: unknown argument %q\n%s", args[0], usage)
	return 2
}

// say writes to stderr, which may be gone; there is nowhere else to complain.
func say(stderr io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(stderr, format, args...)
}

// serve runs until the agent goes away.
func serve(stdin, stdout *os.File) int {
	s := &shim{
		agent: newAgent(stdout),
		debts: newDebts(), asked: map[string][]byte{},
		refusal: recursion(os.Getenv),
	}
	s.agent.direct = s.forwardDirect
	s.agent.start(stdin)
	s.run()
	return 0
}

// recursion says why a shim that runs below a daemon's own server is refused:
// the server would be started again for its own session, and so on.
func recursion(getenv func(string) string) string {
	depth := getenv("BRIDGED_DEPTH")
	if depth == "" || depth == "0" {
		return ""
	}
	return "bridge-shim was started by bridged itself (BRIDGED_DEPTH=" + depth + "), as one of the MCP servers it manages. " +
		"That would never end. Remove bridge-shim from the servers that bridged loads."
}
