//go:build integration

package escape

import (
	"context"
	"errors"
	"fmt"

	"github.com/bridged/bridged/integration/engines"
)

// A Report is what came of all attempts on one engine.
type Report struct {
	Attempts  int
	Successes []string // each with its name and what it got
}

// String is the line that people and machines look for.
func (r Report) String() string {
	return fmt.Sprintf("escape_attempts=%d escape_successes=%d", r.Attempts, len(r.Successes))
}

func (r *Report) add(name, got string) {
	r.Attempts++
	if got != "" {
		r.Successes = append(r.Successes, name+": "+got)
	}
}

// Run makes all attempts on an engine and counts them. An error means that they
// could not all be made.
func Run(ctx context.Context, e *engines.Running) (attempts, successes int, err error) {
	r, err := Assault(ctx, e)
	return r.Attempts, len(r.Successes), err
}

// Assault makes all attempts on an engine, as Run does, and says which of them
// got through.
func Assault(ctx context.Context, e *engines.Running) (r Report, err error) {
	h, err := newHouse(e)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.table(ctx, &r); err != nil {
		return r, err
	}
	return r, h.assaults(ctx, &r)
}

// table makes the attempts of attempts/*.py.
func (h *house) table(ctx context.Context, r *Report) error {
	g := h.guest()
	defer g.leave()
	list, err := attack(ctx, g.Session, h.canaries)
	if err != nil {
		return err
	}
	for _, a := range list {
		got := a.Got
		if a.Slow != "" {
			got = "was not denied at once: " + a.Slow
		}
		r.add(a.Name, got)
	}
	return nil
}
