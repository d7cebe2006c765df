package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// A failure is a candidate that did not answer.
type failure struct {
	Candidate
	engine string // as which it was asked
	err    error
}

// failures is the error of a [Detect] that found nothing.
type failures []failure

// Error names every place, why it failed, and what to do.
func (f failures) Error() string {
	var b strings.Builder
	b.WriteString(ErrNoEngine.Error())
	if len(f) == 0 {
		b.WriteString(": there was no place to look")
	}
	for _, one := range f {
		fmt.Fprintf(&b, "\n  %s as %s (%s): %s", one.Endpoint, one.engine, one.Why, one.reason())
	}
	fmt.Fprintf(&b, "\n%s\n`bridged doctor`, run in a terminal, finds out more.", f.advice())
	return b.String()
}

// Unwrap makes errors.Is find [ErrNoEngine].
func (f failures) Unwrap() error { return ErrNoEngine }

// reason is the error in a few words where it is one of the usual.
func (f failure) reason() string {
	err := f.err
	switch {
	case absent(err), f.hidden():
		return "no such socket"
	case refusedConn(err):
		return "nothing listens there"
	case denied(err):
		return "permission denied"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("it does not answer within %s: it hangs, or the machine is overloaded", dialTime)
	}
	return err.Error()
}

// hidden reports whether Docker's library has put its own words in place of the
// system's "no such file".
func (f failure) hidden() bool {
	path, unix := strings.CutPrefix(f.Endpoint, "unix://")
	if !unix || !strings.Contains(f.err.Error(), "Is the docker daemon running?") {
		return false
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// The drivers' libraries keep no error values, so the words count as well.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "no such file or directory")
}

func refusedConn(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "connection refused")
}

func denied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "permission denied")
}

// advice is the one command that most likely helps.
func (f failures) advice() string {
	for _, one := range f {
		if one.Explicit {
			return one.explicitAdvice()
		}
	}
	for _, one := range f {
		if denied(one.err) && one.engine == Docker {
			return "To use Docker, join its group and log in again: sudo usermod -aG docker $USER"
		}
	}
	for _, one := range f {
		if one.Why == "Podman machine" {
			return "Start an engine: podman machine start"
		}
	}
	return "Start Podman's socket: systemctl --user enable --now podman.socket"
}

// explicitAdvice is for a place that the user chose.
func (f failure) explicitAdvice() string {
	switch {
	case denied(f.err) && f.engine == Docker:
		return "Join Docker's group and log in again: sudo usermod -aG docker $USER"
	case f.engine == Docker:
		return fmt.Sprintf("Start Docker (sudo systemctl start docker), or change %s.", choiceOf(f.Why))
	}
	return fmt.Sprintf("Start Podman's socket (systemctl --user enable --now podman.socket), or change %s.", choiceOf(f.Why))
}

// choiceOf is the first part of a candidate's reason: where the choice is.
func choiceOf(why string) string {
	choice, _, _ := strings.Cut(why, ", ")
	return choice
}
