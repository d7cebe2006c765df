package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// stopTimeout bounds the wait for a program that was asked to end. The daemon
// removes its sandboxes first, a few at a time.
const stopTimeout = 30 * time.Second

// A child is a program that runs beside the demo. Its owner must stop it.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended
}

// startChild starts cmd with its output in the file log, in a process group of
// its own so that Ctrl-C reaches it through stop alone, after the session.
func startChild(name string, cmd *exec.Cmd, log string) (*child, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	// The waiter ends with the program.
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // ended and stop read the state
	}()
	return c, nil
}

// ended reports whether the program has ended.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// stop asks the program to end, waits, and insists.
func (c *child) stop() error {
	if c == nil || c.ended() {
		return nil
	}
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", c.name, err)
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", c.name, err)
	}
	<-c.done
	return fmt.Errorf("stopping %s: it did not end within %v and was killed", c.name, stopTimeout)
}

// tail returns the last lines of a log.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
