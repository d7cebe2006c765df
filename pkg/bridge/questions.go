package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/proxy"
)

// maxQuestions bounds the requests to one agent that are not answered yet.
const maxQuestions = 16

// errTooManyQuestions refuses more.
var errTooManyQuestions = fmt.Errorf("busy: %d questions to the agent are not answered yet", maxQuestions)

// questions are our requests to the client of one connection. Their ids begin
// with the connection's name, so that an answer that was meant for an earlier
// daemon is nobody's.
type questions struct {
	prefix string
	send   func(v any) // queues a message

	mu   sync.Mutex // guards the fields below
	last int64
	open map[string]chan<- message // by id, each with room for one answer
}

func newQuestions(prefix string, send func(v any)) *questions {
	return &questions{prefix: prefix, send: send, open: map[string]chan<- message{}}
}

// A question is a request of ours as it is sent.
type question struct {
	JSONRPC string          `json:"jsonrpc,omitempty"`
	ID      string          `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// ask makes a request and waits for its answer as long as ctx lasts. When that
// ends first, the client is told and its answer is nobody's.
func (q *questions) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	id, answers, err := q.begin()
	if err != nil {
		return nil, err
	}
	q.send(question{"2.0", id, method, params})
	select {
	case m := <-answers:
		return m.outcome()
	case <-ctx.Done():
	}
	if q.forget(id) {
		q.cancel(id, context.Cause(ctx))
	}
	return nil, context.Cause(ctx)
}

func (q *questions) begin() (string, <-chan message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) >= maxQuestions {
		return "", nil, errTooManyQuestions
	}
	q.last++
	id := q.prefix + "-" + strconv.FormatInt(q.last, 10)
	answers := make(chan message, 1)
	q.open[id] = answers
	return id, answers, nil
}

// forget gives a question up and reports whether it was open.
func (q *questions) forget(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.open[id]
	delete(q.open, id)
	return ok
}

// cancel tells the client that an answer is no longer wanted.
func (q *questions) cancel(id string, why error) {
	params, err := json.Marshal(map[string]string{"requestId": id, "reason": why.Error()})
	if err == nil { // strings always encode
		q.send(question{JSONRPC: "2.0", Method: string(mcp.MethodNotificationCancelled), Params: params})
	}
}

// settle takes in an answer and reports whether it was one to an open question.
// It never blocks.
func (q *questions) settle(m message) bool {
	var id string
	if err := json.Unmarshal(m.id, &id); err != nil {
		return false // ours are texts
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	answers, ok := q.open[id]
	if ok {
		delete(q.open, id)
		answers <- m
	}
	return ok
}

// outcome is what an answer says.
func (m message) outcome() (json.RawMessage, error) {
	if m.failed == nil || string(m.failed) == "null" {
		if firstByte(m.result) != '{' {
			return nil, errors.New("the agent answered with a result that is no object")
		}
		return m.result, nil
	}
	var e struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(m.failed, &e); err != nil {
		return nil, fmt.Errorf("the agent answered with an error that cannot be read: %w", err)
	}
	return nil, &proxy.AgentError{Code: e.Code, Message: e.Message, Data: e.Data}
}
