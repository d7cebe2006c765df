package sandbox

import "time"

// A Request is one piece of code to run.
type Request struct {
	Code    string
	Timeout time.Duration // of the run itself, queueing not counted; 0 means the session's default
	Servers []Server      // what the code may reach from now on
}

// A Server names an upstream MCP server to the code: Name as its owner wrote
// it, Alias as a Python identifier.
type Server struct {
	Name  string `json:"name"`
	Alias string `json:"alias"`
}

// Stream numbers, as in POSIX.
const (
	Stdout = 1
	Stderr = 2
)

// Output is a piece of what the code printed, in the order written. Text is
// valid UTF-8: bytes that are not are escaped as \xNN.
type Output struct {
	Stream     int // Stdout or Stderr
	Text       string
	Background bool  // written by what an earlier run left running
	Cut        int64 // bytes of output left out just before Text
}

// Rich is something shown other than by printing it, such as a picture.
type Rich struct {
	MIME string
	Data []byte
}

// Status says how a run ended.
type Status string

// The ways a run can end.
const (
	StatusOK          Status = "ok"
	StatusError       Status = "error"       // the code raised an exception
	StatusTimeout     Status = "timeout"     // it was interrupted at its time limit
	StatusInterrupted Status = "interrupted" // it was interrupted by the caller
	StatusLost        Status = "lost"        // the sandbox ended before the code did
)

// A PyError is the exception that ended a run.
type PyError struct {
	Type      string `json:"type"`    // class name
	Message   string `json:"message"` // str(exception)
	Traceback string `json:"traceback"`
}

// A Result is what a run came to.
type Result struct {
	Status    Status
	Output    []Output // stdout and stderr, interleaved as written
	Value     string   // text of the last expression's value; "" if it has none
	Rich      []Rich
	Error     *PyError // set when Status is StatusError, and on interrupts if known
	Notices   []string // what the caller should know besides, one sentence each
	Limit     string   // for StatusTimeout: the time limit, whose it is and how to have more
	StateLost string   // why variables are gone from the next call on; "" if they are kept
	Cut       int64    // bytes of output left out of Output, in all
	Duration  time.Duration
}
