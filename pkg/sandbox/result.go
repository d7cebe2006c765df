package sandbox

import (
	"encoding/json"
	"slices"
	"time"
)

// A Request is one piece of code to run.
type Request struct {
	Code    string
	Timeout time.Duration // of the run itself, queueing not counted; 0 means the session's default
	Servers []Server      // what the code may reach from now on
	Data    bool          // the value is wanted as JSON too

	// Waited returns for how long the code has waited for people by now, which
	// Timeout does not count, up to half an hour; nil is never.
	Waited func() time.Duration

	// Tokens is what the result may cost whoever reads it, so that values are
	// formatted to about that size; 0 leaves it to the sandbox.
	Tokens int

	// Key names the call in its session, in at most 256 bytes. A key that the
	// sandbox has seen never runs again: after an adoption, Run with the key of an
	// unfinished run waits for that and returns its result. The sandbox keeps the
	// result, for another daemon that may come, until [Session.Ack]; without a key
	// until Run has returned.
	Key string

	tell func(anew bool) map[string]json.RawMessage // of the session, see SessionOptions
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
// what a terminal shows of it in the end, as valid UTF-8 without control
// characters other than newlines and tabs: a progress bar in its last state,
// colours left out, other controls and bytes that are no text escaped as \xNN.
type Output struct {
	Stream     int // Stdout or Stderr
	Text       string
	Background bool  // written by what an earlier run left running
	Cut        int64 // bytes of output left out just before Text

	// Back is how many bytes at the end of the earlier Text of this Stream and
	// Background are no more: Text is in their place, as when a progress bar
	// moves. It is 0 in a Result.
	Back int64
}

// like reports whether two pieces are parts of one text.
func (o Output) like(p Output) bool { return o.Stream == p.Stream && o.Background == p.Background }

// Retract takes out of pieces what o replaces, and then the pieces of which
// nothing is left. It returns the others, and how many of o.Back bytes it did
// not find.
func Retract(pieces []Output, o Output) (left []Output, missing int64) {
	missing = o.Back
	for i := len(pieces) - 1; i >= 0 && missing > 0; i-- {
		p := &pieces[i]
		if !p.like(o) {
			continue
		}
		n := min(missing, int64(len(p.Text)))
		p.Text = p.Text[:int64(len(p.Text))-n]
		missing -= n
		if p.Cut > 0 {
			break // nothing is known of what was before it
		}
		if p.Text == "" {
			pieces = remove(pieces, i)
		}
	}
	return pieces, missing
}

// remove takes out a piece. Its neighbours may become one.
func remove(pieces []Output, i int) []Output {
	if i > 0 && i+1 < len(pieces) && pieces[i-1].merge(pieces[i+1]) {
		return slices.Delete(pieces, i, i+2)
	}
	return slices.Delete(pieces, i, i+1)
}

// merge makes p, which came right after o, part of o if that may be.
func (o *Output) merge(p Output) bool {
	switch {
	case o.Text == "" && (p.Text == "" || o.like(p)):
		o.Cut += p.Cut
		o.Text = p.Text
		return true
	case p.Cut == 0 && o.like(p) && len(o.Text) < maxMerged:
		o.Text += p.Text
		return true
	}
	return false
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
	Status Status
	Output []Output // stdout and stderr, interleaved as written
	Value  string   // text of the last expression's value; "" if it has none
	Whole  string   // an expression that gives that value again; "" if none is known
	Kept   string   // where all of Output is, a sentence; "" if nowhere

	// Data is the value as JSON, if the request asked for it and the value is
	// data and small; at most 256 KiB. Nothing in it was looked at.
	Data json.RawMessage

	Rich      []Rich
	Files     []File   // published since the last result
	Error     *PyError // set when Status is StatusError, and on interrupts if known
	Notices   []string // what the caller should know besides, one sentence each
	Limit     string   // for StatusTimeout: the time limit, whose it is and how to have more
	StateLost string   // why variables are gone from the next call on; "" if they are kept
	Cut       int64    // bytes of output left out of Output, in all
	Duration  time.Duration

	unstopped bool // it goes on, since the engine does not answer
}
