package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The codes of an [Error]. They are part of the contract with code in the
// sandbox; the package documentation says what each means.
const (
	CodeNotAvailable     = "not_available"
	CodeBadRequest       = "bad_request"
	CodeInvalidArguments = "invalid_arguments"
	CodeUnknownTool      = "unknown_tool"
	CodeServerFailed     = "server_failed"
	CodeTimeout          = "timeout"
	CodeOutcomeUnknown   = "outcome_unknown"
	CodeTooLarge         = "too_large"
	CodeUpstream         = "upstream"
	CodeBusy             = "busy"
	CodeDenied           = "denied"
)

// An Error is what code in a sandbox is told. Message is for a language model:
// it says what was wrong and how to go on.
type Error struct {
	Code    string
	Message string
	Data    json.RawMessage // nil, or what Code promises
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// RPCCode returns the code, for the sandbox's reply.
func (e *Error) RPCCode() string { return e.Code }

// RPCData returns the data, for the sandbox's reply.
func (e *Error) RPCData() json.RawMessage { return e.Data }

func errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrClosed is returned after Close, by a Proxy and by a Session.
var ErrClosed = errors.New("the proxy is closed")

// Conditions within the package.
var (
	// errNotSent marks a request of which the server has not seen a complete
	// line, so that sending it to another process is no replay.
	errNotSent = errors.New("the request was not sent")
	// errTooLarge is the outcome of a call whose answer passed the cap.
	errTooLarge = errors.New("the answer is too large")
	// errMismatch is the outcome of calls when the server answers something
	// that nobody asked.
	errMismatch = errors.New("answers do not match requests")
)

// A deathError says how a server process ended, or why it was given up.
type deathError struct {
	reason string // "it exited with status 1"
	stderr string // the tail of what it wrote there
	stdout string // what it wrote to stdout that was no protocol
}

// Error quotes what the server said last, since that is usually the cause.
func (e *deathError) Error() string {
	var b strings.Builder
	b.WriteString(e.reason)
	if e.stderr != "" {
		b.WriteString("; its stderr ends with: " + e.stderr)
	}
	if e.stdout != "" {
		b.WriteString("; its stdout is no protocol and begins with: " + e.stdout)
	}
	return b.String()
}
