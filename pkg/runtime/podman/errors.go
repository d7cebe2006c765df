package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"

	"github.com/bridged/bridged/pkg/runtime"
)

// engineError is the only place where an error of the bindings becomes one of
// the contract's. Ctx is the call's: its end is the caller's doing and not the
// engine's.
func engineError(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	var model *errorhandling.ErrorModel
	if errors.As(err, &model) {
		return refused(op, model)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("engine %s: %w", op, context.Cause(ctx))
	}
	if unreachable(err) {
		return fmt.Errorf("engine %s: %w: %v", op, runtime.ErrUnreachable, err)
	}
	return &runtime.EngineError{Op: op, Msg: err.Error()}
}

func refused(op string, m *errorhandling.ErrorModel) error {
	e := &runtime.EngineError{Op: op, Status: m.ResponseCode, Msg: strings.TrimSpace(m.Message)}
	if e.Msg == "" {
		e.Msg = m.Because
	}
	e.Err = condition(op, e.Status, e.Msg)
	return e
}

// condition names what is missing, by the kind of the call. A create without
// its image is a 404 of some versions and a 500 of others.
func condition(op string, status int, msg string) error {
	switch op {
	case "create":
		if status == http.StatusNotFound || strings.Contains(msg, "image not known") || strings.Contains(msg, "no such image") {
			return runtime.ErrNoImage
		}
		return nil
	case "image":
		if status == http.StatusNotFound {
			return runtime.ErrNoImage
		}
		return nil
	case "pull", "build", "import", "images", "list", "events", "info", "ping":
		return nil
	}
	if status == http.StatusNotFound || strings.Contains(msg, "no such container") {
		return runtime.ErrNoContainer
	}
	return nil
}

// unreachable reports whether err means that no engine answered.
func unreachable(err error) bool {
	var dial bindings.ConnectError
	var netErr net.Error
	return errors.As(err, &dial) || errors.As(err, &netErr) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// gone reports whether err says that the container is not there.
func gone(err error) bool { return errors.Is(err, runtime.ErrNoContainer) }
