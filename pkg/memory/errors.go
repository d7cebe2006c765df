package memory

import (
	"encoding/json"
	"fmt"
)

// The codes of an [Error]. They are part of the contract with code in the
// sandbox.
const (
	CodeBadRequest = "bad_request"
	CodeInvalid    = "invalid_memory"  // a key, a value or a scope that can't be
	CodeConflict   = "memory_conflict" // it is not as the caller has last seen it
	CodeBroken     = "memory_broken"   // its file can't be read
	CodeFull       = "memory_full"     // a quota is used up
	CodeMissing    = "memory_missing"  // there is nothing to restore
	CodeBusy       = "busy"            // another process holds the lock
)

// An Error is what code in a sandbox is told. Message is for a language model:
// it says what was wrong and how to go on.
type Error struct {
	Code    string
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// RPCCode returns the code, for the sandbox's reply.
func (e *Error) RPCCode() string { return e.Code }

// RPCData returns nothing: the message says all.
func (e *Error) RPCData() json.RawMessage { return nil }

func errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
