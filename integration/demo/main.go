// Command demo shows one agent session on this machine, from nothing: it
// reaches or starts a container engine, makes the sandbox image, starts the
// daemon, and plays an agent whose code calls two real MCP servers.
//
// It checks every answer, and ends with an exit code that is not zero when one
// is wrong. Run it with `make demo`, which installs and builds what it needs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A reader that goes away, such as head, must not keep us from cleaning up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// run plays the demo in a private folder, which is gone afterwards with
// everything that was started.
func run(ctx context.Context) (err error) {
	p, err := findPlaces()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.private)) }()

	say("Looking for a container engine")
	e, err := reachEngine(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	if err := ensureImage(ctx, p, e); err != nil {
		return err
	}

	say("Starting the daemon (its log: %s)", p.log)
	d, err := startDaemon(ctx, p, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := playSession(ctx, p); err != nil {
		return fmt.Errorf("%w\nThe daemon's log: %s", err, p.log)
	}
	farewell(p, e)
	return nil
}

// places are the files and folders of one run. All are absolute.
type places struct {
	bridged, shim string // the programs
	cache         string // kept between runs: image, MCP servers
	out           string // where results are left
	log           string // the daemon's log

	private string // the folder that the run removes at its end
	home    string // the agent's home, with its MCP servers' definitions
	project string // the folder that the agent works in
	socket  string // where the shim finds the daemon
}

func findPlaces() (places, error) {
	root, err := os.Getwd()
	if err != nil {
		return places{}, err
	}
	// Sockets have short names at most, so the folder is not under root.
	private, err := os.MkdirTemp("", "bridged-demo-")
	if err != nil {
		return places{}, err
	}
	p := places{
		bridged: filepath.Join(root, "bin", "bridged"),
		shim:    filepath.Join(root, "bin", "bridge-shim"),
		cache:   os.Getenv("BRIDGED_TEST_CACHE"),
		out:     filepath.Join(root, "out"),
		log:     filepath.Join(root, "out", "demo-bridged.log"),
		private: private,
		home:    filepath.Join(private, "home"),
		project: filepath.Join(private, "shop"),
		socket:  filepath.Join(private, "mcp.sock"),
	}
	if p.cache == "" {
		return p, errors.New("finding the cache folder: BRIDGED_TEST_CACHE is not set; run `make demo`")
	}
	for _, dir := range []string{p.out, p.home, p.project} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return p, err
		}
	}
	return p, nil
}

var begin = time.Now()

// say announces a step, with the time since the start.
func say(format string, args ...any) {
	fmt.Printf("\n[%5.1f s] %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
}

// farewell prints what the stranger takes home.
func farewell(p places, e *engine) {
	say("That was the whole session. Every answer was right.")
	fmt.Printf("\nPaste this into your agent's MCP configuration:\n\n")
	fmt.Printf("{\n  \"mcpServers\": {\n    \"bridged\": {\n      \"command\": %q\n    }\n  }\n}\n", p.shim)
	fmt.Println("\nThe shim starts the daemon by itself. Your MCP servers stay where they are\ndefined: the daemon reads your agents' own configurations.")
	if advice := e.advice(); advice != "" {
		fmt.Println("\n" + advice)
	}
}
