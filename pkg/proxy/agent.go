package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// An Agent is whom a session's servers and rules can ask something. Its methods
// may be called from several goroutines.
type Agent interface {
	// Ask makes a request of the agent's client, sampling/createMessage or
	// elicitation/create, and returns its result, a JSON object. It waits for
	// the person as long as ctx lasts, and withdraws the request when ctx ends.
	// The error wraps [ErrCannotAsk] when the client does not offer what is
	// asked, and is an [*AgentError] when it refuses, or ctx's cause.
	Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Tell passes the agent's client a notification, if it can take one. It
	// never blocks, and the notification may be lost.
	Tell(method string, params json.RawMessage)
	// Note shows a line of text as progress of what the session runs. It never
	// blocks, and may be lost.
	Note(text string)
}

// ErrCannotAsk means that the agent's client can't be asked: the error's text
// says what it lacks.
var ErrCannotAsk = errors.New("the agent cannot be asked")

// An AgentError is a JSON-RPC error of the agent's client.
type AgentError struct {
	Code    int
	Message string
	Data    json.RawMessage // nil if there is none
}

func (e *AgentError) Error() string {
	return fmt.Sprintf("the agent refused: %s (code %d)", clip(plainText(e.Message), quoteBytes), e.Code)
}

// nobody is the Agent of sessions that have none.
type nobody struct{}

func (nobody) Ask(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, fmt.Errorf("%w: this session has no agent", ErrCannotAsk)
}

func (nobody) Tell(string, json.RawMessage) {}

func (nobody) Note(string) {}

// Elicit asks the person something through the session's agent: message says
// what, and schema, a JSON Schema of an object with plain properties, what an
// answer looks like. action is "accept", then content is the answer, "decline"
// or "cancel". It waits as long as ctx lasts. The error wraps [ErrCannotAsk]
// when the agent's client offers no such questions.
func (s *Session) Elicit(ctx context.Context, message string, schema json.RawMessage) (action string, content json.RawMessage, err error) {
	params, err := reply(map[string]any{"message": message, "requestedSchema": schema})
	if err != nil {
		return "", nil, err
	}
	raw, err := s.opts.Agent.Ask(ctx, "elicitation/create", params)
	if err != nil {
		return "", nil, fmt.Errorf("asking the person: %w", err)
	}
	var result struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return "", nil, fmt.Errorf("asking the person: the agent's answer cannot be read: %w", err)
	}
	switch result.Action {
	case "accept", "decline", "cancel":
		return result.Action, result.Content, nil
	}
	return "", nil, fmt.Errorf("asking the person: the agent answered with the action %q, which there is not", clip(result.Action, 40))
}
