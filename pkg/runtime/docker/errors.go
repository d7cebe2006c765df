package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/bridged/bridged/pkg/runtime"
)

// engineError is the only place where an error of the client library becomes
// one of the contract's. Ctx is the call's: its end is the caller's doing and
// not the engine's.
func engineError(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("engine %s: %w", op, context.Cause(ctx))
	}
	if unreachable(err) {
		return fmt.Errorf("engine %s: %w: %v", op, runtime.ErrUnreachable, err)
	}
	return &runtime.EngineError{Op: op, Status: status(err), Msg: message(err), Err: condition(op, err)}
}

// unreachable reports whether err means that no engine answered.
func unreachable(err error) bool {
	var netErr net.Error
	return client.IsErrConnectionFailed(err) || errors.As(err, &netErr) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// status recovers the HTTP status that the client library turned into a class.
func status(err error) int {
	switch {
	case cerrdefs.IsNotFound(err):
		return http.StatusNotFound
	case cerrdefs.IsInvalidArgument(err):
		return http.StatusBadRequest
	case cerrdefs.IsConflict(err):
		return http.StatusConflict
	case cerrdefs.IsPermissionDenied(err):
		return http.StatusForbidden
	case cerrdefs.IsUnauthorized(err):
		return http.StatusUnauthorized
	case cerrdefs.IsUnavailable(err):
		return http.StatusServiceUnavailable
	case cerrdefs.IsInternal(err):
		return http.StatusInternalServerError
	}
	return 0
}

func message(err error) string {
	return strings.TrimPrefix(err.Error(), "Error response from daemon: ")
}

// condition names what is missing, by the kind of the call.
func condition(op string, err error) error {
	if !cerrdefs.IsNotFound(err) {
		return nil
	}
	switch op {
	case "image", "create":
		return runtime.ErrNoImage
	case "pull", "build", "import", "images", "list", "events", "info":
		return nil
	}
	return runtime.ErrNoContainer
}

// olderThan reports whether the API version a is before b; both are two
// numbers with a dot between. What can't be read is older than everything.
func olderThan(a, b string) bool {
	am, an := version(a)
	bm, bn := version(b)
	return am < bm || am == bm && an < bn
}

func version(s string) (major, minor int) {
	a, b, _ := strings.Cut(s, ".")
	major, err := strconv.Atoi(a)
	if err != nil {
		return 0, 0
	}
	minor, err = strconv.Atoi(b)
	if err != nil {
		return 0, 0
	}
	return major, minor
}
