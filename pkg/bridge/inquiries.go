package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// inquiries are the questions of one lane's code to a client of the protocol
// without initialize, which is asked in the answers to its calls: the answer
// has the questions, the code goes on waiting, and the client makes the call
// again with what was answered, which waits for the same run.
type inquiries struct {
	state string        // names the lane in a call that is made again
	news  chan struct{} // has a token when there is a question that no answer had

	mu   sync.Mutex // guards the fields below
	last int64
	open map[string]*inquiry // by key
}

// An inquiry is one question.
type inquiry struct {
	method  string
	params  json.RawMessage
	answers chan json.RawMessage // has room for one
	handed  bool                 // an answer had it
}

func newInquiries() *inquiries {
	return &inquiries{state: newSessionID(), news: make(chan struct{}, 1), open: map[string]*inquiry{}}
}

// ask puts a question and waits for its answer as long as ctx lasts.
func (q *inquiries) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	key, one, err := q.begin(method, params)
	if err != nil {
		return nil, err
	}
	defer q.forget(key)
	select {
	case raw := <-one.answers:
		if firstByte(raw) != '{' {
			return nil, errors.New("the agent answered with a result that is no object")
		}
		return raw, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (q *inquiries) begin(method string, params json.RawMessage) (string, *inquiry, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) >= maxQuestions {
		return "", nil, errTooManyQuestions
	}
	q.last++
	key := "q" + strconv.FormatInt(q.last, 10)
	one := &inquiry{method: method, params: params, answers: make(chan json.RawMessage, 1)}
	q.open[key] = one
	q.pokeLocked()
	return key, one, nil
}

func (q *inquiries) pokeLocked() {
	select {
	case q.news <- struct{}{}:
	default: // one is waiting, and will tell of this question too
	}
}

func (q *inquiries) forget(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, key)
}

// again makes all open questions news: another call waits, whose client may not
// have seen them.
func (q *inquiries) again() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.open {
		one.handed = false
		q.pokeLocked()
	}
}

// A needsInput is the outcome of a call whose code asks the client something.
type needsInput struct {
	questions map[string]question // by key
	state     string
}

func (n *needsInput) Error() string { return "the code waits for answers of the agent's client" }

// take returns the open questions that no answer had, nil if there are none.
func (q *inquiries) take() *needsInput {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &needsInput{questions: map[string]question{}, state: q.state}
	for key, one := range q.open {
		if !one.handed {
			one.handed = true
			n.questions[key] = question{Method: one.method, Params: one.params}
		}
	}
	if len(n.questions) == 0 {
		return nil
	}
	return n
}

// settle takes in what a call brings that is made again. Answers to questions
// that are not open any more are ignored. The error tells an agent that the
// call can't be one of this lane's.
func (q *inquiries) settle(state string, responses mcp.InputResponses) error {
	if state != q.state {
		return errors.New("nothing ran: this call answers questions of a run that bridged does not know. " +
			"If it was restarted, variables of earlier calls are gone: run the code again")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, response := range responses {
		one, ok := q.open[key]
		if !ok {
			continue
		}
		raw, err := json.Marshal(response) // the client's own bytes
		if err != nil {
			return fmt.Errorf("reading the answer to %s: %w", key, err)
		}
		delete(q.open, key)
		one.answers <- raw
	}
	return nil
}

// retried reports whether a call is made again, with answers.
func retried(req mcp.CallToolRequest) bool {
	return req.Params.RequestState != "" || len(req.Params.InputResponses) > 0
}

// resume turns a call that is made again into one that waits for the run that
// asked, which must not run twice.
func (p *python) resume(a args) (args, error) {
	if err := p.lane.inquiries.settle(a.again.RequestState, a.again.InputResponses); err != nil {
		return a, err
	}
	if late, _ := p.lane.outlived(); late == nil {
		return a, errors.New("nothing ran: the run that asked has ended, and another call has its result")
	}
	return args{session: a.session}, nil
}

// handOver is the result of a call whose client is asked something. The
// questions themselves are put in by [withQuestions].
func handOver(ctx context.Context, asks *needsInput) *mcp.CallToolResult {
	if read, ok := ctx.Value(readingKey{}).(*reading); ok {
		read.asks = asks
	}
	return &mcp.CallToolResult{
		Result:               mcp.Result{ResultType: mcp.ResultTypeInputRequired},
		MultiRoundTripResult: mcp.MultiRoundTripResult{RequestState: asks.state},
	}
}

// withQuestions puts the request's questions into its result as they came: in
// mcp-go's types they would lose the order of what is asked.
func withQuestions(ctx context.Context, result any) any {
	read, ok := ctx.Value(readingKey{}).(*reading)
	if !ok || read.asks == nil {
		return result
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return result
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		return result
	}
	members["inputRequests"] = read.asks.questions
	delete(members, "content") // it has none yet
	return members
}
