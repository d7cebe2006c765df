package ops

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// maxAnswer bounds the body of an answer, in bytes.
const maxAnswer = 4 << 10

// Approval is one call of a tool that waits for a person. Its texts hold no
// control characters.
type Approval struct {
	ID        string    `json:"id"`
	Session   string    `json:"session"`
	Client    string    `json:"client,omitempty"`
	Project   string    `json:"project"`
	Server    string    `json:"server"`
	Tool      string    `json:"tool"`
	Arguments string    `json:"arguments"` // JSON without secrets, perhaps cut
	Rule      string    `json:"rule"`
	Why       string    `json:"why"`
	Since     time.Time `json:"since"`
	Expires   time.Time `json:"expires"`
}

// Answer is what a person says about an [Approval].
type Answer struct {
	Allow  bool `json:"allow"`
	Always bool `json:"always"` // for all calls of the tool in the session
}

// ErrNone means that what was asked for is not there, or not any more.
var ErrNone = errors.New("there is no such thing")

// None returns an ErrNone with words of its own.
func None(text string) error { return noneError(text) }

type noneError string

func (e noneError) Error() string { return string(e) }

// Is makes every one an ErrNone.
func (noneError) Is(target error) bool { return target == ErrNone }

// HandleApprovals adds to a handler
//
//	GET /approvals       the calls that wait: an array of [Approval]
//	POST /approvals/ID   an [Answer] as JSON; 404 if the call waits no more
//
// list and answer must be safe for concurrent use. answer's error is
// an [ErrNone] for what is not there.
func HandleApprovals(mux *http.ServeMux, list func() []Approval, answer func(id string, a Answer) error) {
	mux.HandleFunc("GET /approvals", func(w http.ResponseWriter, _ *http.Request) { respond(w, list()) })
	mux.HandleFunc("POST /approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		var a Answer
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAnswer)).Decode(&a); err != nil {
			http.Error(w, "an answer is a JSON object with allow and always: "+err.Error(), http.StatusBadRequest)
			return
		}
		done(w, answer(r.PathValue("id"), a))
	})
}

// Approvals asks the daemon behind a socket which calls wait.
func Approvals(ctx context.Context, socket string) ([]Approval, error) {
	var list []Approval
	err := call(ctx, socket, http.MethodGet, "/approvals", nil, &list)
	return list, err
}

// Approve answers one of them.
func Approve(ctx context.Context, socket, id string, a Answer) error {
	return call(ctx, socket, http.MethodPost, "/approvals/"+id, a, nil)
}
