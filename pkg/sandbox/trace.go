package sandbox

import (
	"context"
	"errors"

	"github.com/bridged/bridged/pkg/tracing"
)

// lease is [Session.ready] with a span.
func (s *Session) lease(ctx context.Context) (*Sandbox, []string, error) {
	ctx, span := tracing.Start(ctx, "lease sandbox")
	if !span.On() {
		return s.ready(ctx)
	}
	defer span.End()
	before := s.Sandbox()
	sb, notices, err := s.ready(ctx)
	switch {
	case errors.Is(err, ErrPoolFull):
		span.Fail("pool_full")
	case ctx.Err() != nil:
		span.Fail("cancelled")
	case err != nil:
		span.Fail("launch_failed")
	default:
		span.Text(tracing.Sandbox, sb.ID)
		if sb == before {
			span.Text(tracing.Source, "session")
		}
	}
	return sb, notices, err
}

// traced is [Sandbox.Run] with a span, which is the parent of those of the code's
// calls: also of calls that code makes which the run has left going.
func (s *Sandbox) traced(ctx context.Context, req Request, onOutput func(Output)) Result {
	ctx, span := tracing.Start(ctx, "run code")
	s.calls.follow(ctx)
	res := s.Run(ctx, req, onOutput)
	if !span.On() {
		return res
	}
	span.Int(tracing.TimeLimit, int(req.Timeout.Seconds()))
	span.Text(tracing.Outcome, string(res.Status))
	if res.Status != StatusOK {
		span.Fail(string(res.Status))
	}
	if res.StateLost != "" {
		span.True(tracing.Killed)
	}
	span.End()
	return res
}
