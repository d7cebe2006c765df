//go:build integration

package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/docker"
	"github.com/bridged/bridged/pkg/runtime/podman"
)

const (
	// startTime bounds the wait for an engine's first answer; they take one
	// to three seconds.
	startTime = 60 * time.Second
	// stopTime bounds each rung of the ladder in Stop.
	stopTime = 20 * time.Second
	// lockTime bounds the wait for another test process: a whole suite.
	lockTime = 15 * time.Minute
	// poll is how often what is waited for is looked at.
	poll = 50 * time.Millisecond
	// logTail is how much of an engine's log an error quotes.
	logTail = 2 << 10
)

// A Running is a started engine. The caller must Stop it.
type Running struct {
	Name     Name
	Kind     string // "podman" or "docker"
	Endpoint string // its socket, as a unix:// URL
	Engine   runtime.Engine
	Image    string // a small image with Python, which the engine holds

	layout layout
	lock   *os.File
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

// Start starts an engine, waits until it answers, removes what containers an
// earlier run left in it, and gives it its image.
func Start(ctx context.Context, name Name) (*Running, error) {
	l, err := newLayout(name)
	if err != nil {
		return nil, err
	}
	r := &Running{Name: name, Kind: runtime.Podman, Endpoint: "unix://" + l.socket, layout: l, exited: make(chan struct{})}
	if name == Docker {
		r.Kind = runtime.Docker
	}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the engine %s: %w", name, err), r.Stop())
	}
	return r, nil
}

func (r *Running) start(ctx context.Context) error {
	if err := r.takeLock(ctx); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.launch(); err != nil {
		return err
	}
	if err := r.dial(ctx); err != nil {
		return err
	}
	if err := r.removeContainers(ctx); err != nil {
		return err
	}
	return r.importImage(ctx)
}

// takeLock waits for the right to this engine's storage.
func (r *Running) takeLock(ctx context.Context) error {
	f, err := os.Open(r.layout.lock)
	if errors.Is(err, os.ErrNotExist) {
		if err = asRoot(ctx, "touch", r.layout.lock); err == nil {
			f, err = os.Open(r.layout.lock)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: run integration/setup.sh first", err)
	}
	r.lock = f
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	return until(ctx, "another test process has the engine", func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	})
}

// prepare ends what an earlier run left, and makes the folders.
func (r *Running) prepare(ctx context.Context) error {
	if err := r.killLeft(ctx); err != nil {
		return err
	}
	if err := asRoot(ctx, "mkdir", "-p", runBase, filepath.Dir(r.layout.hostStorage())); err != nil {
		return err
	}
	owner := r.layout.owner()
	for _, dir := range r.layout.folders() {
		if err := asRoot(ctx, "install", "-d", "-m", "0755", "-o", owner, "-g", owner, dir); err != nil {
			return err
		}
	}
	// A copy, since not every engine can read the cache folder.
	conf := filepath.Join(Cache(), "etc", "containers.conf")
	if err := asRoot(ctx, "install", "-m", "0644", conf, r.layout.run); err != nil {
		return fmt.Errorf("%w: run integration/setup.sh first", err)
	}
	return asRoot(ctx, "rm", "-f", r.layout.socket)
}

// launch starts the engine's process, in a group of its own.
func (r *Running) launch() error {
	argv := sudo(append([]string{"sh", "-c", `exec "$@" >"$0" 2>&1`, r.layout.log}, r.layout.command()...))
	r.cmd = exec.Command(argv[0], argv[1:]...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		r.cmd = nil
		return err
	}
	// It ends with the engine, which Stop ends.
	go func() {
		defer close(r.exited)
		_ = r.cmd.Wait()
	}()
	return nil
}

// dial waits for the engine's first answer.
func (r *Running) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return until(ctx, "the engine does not answer", func() (bool, error) {
		select {
		case <-r.exited:
			return false, fmt.Errorf("the engine ended: %s", r.tail())
		default:
		}
		if _, err := os.Stat(r.layout.socket); err != nil {
			return false, nil
		}
		if os.Geteuid() != 0 {
			if err := asRoot(ctx, "chown", fmt.Sprint(os.Geteuid()), r.layout.socket); err != nil {
				return false, err
			}
		}
		e, err := r.open(ctx)
		if err != nil {
			return false, nil // not yet
		}
		r.Engine = e
		return true, nil
	})
}

// Dialers are the drivers, for [runtime.Detect].
var Dialers = map[string]runtime.DialFunc{runtime.Podman: podman.Dial, runtime.Docker: docker.Dial}

func (r *Running) open(ctx context.Context) (runtime.Engine, error) {
	return Dialers[r.Kind](ctx, r.Endpoint)
}

// removeContainers leaves the engine with no container.
func (r *Running) removeContainers(ctx context.Context) error {
	list, err := r.Engine.List(ctx, nil)
	if err != nil {
		return err
	}
	for _, c := range list {
		err = errors.Join(err, r.Engine.Remove(ctx, c.ID))
	}
	return err
}

// tail quotes the end of the engine's log.
func (r *Running) tail() string {
	text, err := os.ReadFile(r.layout.log)
	if err != nil {
		return err.Error()
	}
	if len(text) > logTail {
		text = text[len(text)-logTail:]
	}
	return strings.TrimSpace(string(text))
}

// Grep lists the files of the engine's that hold text: its storage, without
// what images and containers hold, its state and its log. The text is in no
// command line meanwhile: it may be a secret that tests look for there.
func (r *Running) Grep(ctx context.Context, text string) ([]string, error) {
	argv := sudo([]string{
		"grep", "--recursive", "--files-with-matches", "--fixed-strings", "--devices=skip", "--file=-",
		"--exclude-dir=overlay", "--exclude-dir=overlay2", "--exclude-dir=rootfs", "--exclude-dir=netns", "--", r.layout.hostStorage(), r.layout.run,
	})
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(text + "\n")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, nil // none does
	}
	// Files come and go while it reads; what it found counts.
	if list := strings.Fields(string(out)); len(list) > 0 {
		return list, nil
	}
	if errors.As(err, &exit) && !strings.Contains(string(exit.Stderr), "No such file") {
		return nil, fmt.Errorf("searching the engine's files: %w: %s", err, exit.Stderr)
	}
	return nil, nil
}

// Shared returns a folder that the test and the engine can use, and no one else
// may write to.
func (r *Running) Shared(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(r.layout.run, "shared")
	if err := asRoot(t.Context(), "install", "-d", "-m", "0755", "-o", fmt.Sprint(os.Geteuid()), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// until calls done until it says so, or fails, or ctx ends.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(poll):
		}
	}
}

// sudo is argv, to be run as root.
func sudo(argv []string) []string {
	if os.Geteuid() == 0 {
		return argv
	}
	return append([]string{"sudo", "-n"}, argv...)
}

// asRoot runs a command as root and waits for it.
func asRoot(ctx context.Context, argv ...string) error {
	argv = sudo(argv)
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
