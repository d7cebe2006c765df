package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bridged/bridged/pkg/proxy"
)

// maxAsking bounds the wait for an answer of the agent's client. A person who
// has not seen a question by then will not answer it.
const maxAsking = 10 * time.Minute

// errUnanswered is the cause of that bound.
var errUnanswered = errors.New("the agent did not answer within " + maxAsking.String())

// An Agent is the agent of one Python session, as the session's workspace sees
// it. Its methods may be called from several goroutines.
type Agent struct {
	session *session
	lane    *lane
}

var _ proxy.Agent = (*Agent)(nil)

// Client returns the name and the version that the agent's client gives itself,
// empty before it has.
func (a *Agent) Client() (name, version string) {
	p := a.peer()
	return p.name, p.version
}

// Connection returns the name of the connection, for logs.
func (a *Agent) Connection() string { return a.session.id[:8] }

// Session returns the whole name of the connection's session, which is a secret
// and outlives the daemon.
func (a *Agent) Session() string { return a.session.id }

// Python returns the name of the Python session, "" for the default one.
func (a *Agent) Python() string { return a.lane.name }

// Ask makes a request of the agent's client, see [proxy.Agent]. A client of the
// protocol without initialize gets it as part of the answer to its call, which
// it makes again with what was answered; the code waits meanwhile.
func (a *Agent) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxAsking, errUnanswered)
	defer cancel()
	p := a.peer()
	if lack := p.lack(method, params); lack != "" {
		return nil, fmt.Errorf("%w: %s", proxy.ErrCannotAsk, lack)
	}
	defer a.Wait()()
	if p.modern {
		return a.lane.inquiries.ask(ctx, method, params)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(a.session.ctx, func() { end(context.Cause(a.session.ctx)) })()
	return a.session.questions.ask(ctx, method, params)
}

// Wait says that the session's code waits for a person, who is asked elsewhere,
// until done is called: like that of a question, the time is not the run's.
func (a *Agent) Wait() (done func()) { return a.lane.asking.Start() }

// Tell passes the client a notification, unless it is behind with reading. One
// of the protocol without initialize takes none that it has not subscribed to.
// It never blocks.
func (a *Agent) Tell(method string, params json.RawMessage) {
	if p := a.peer(); !p.greeted || p.modern {
		return
	}
	line, err := encodeLine(question{JSONRPC: "2.0", Method: method, Params: params})
	if err == nil { // it was read from JSON
		a.session.w.offer(line)
	}
}

// Note shows a line as progress of the run under way, see [proxy.Agent].
func (a *Agent) Note(text string) { a.lane.note(text) }

// peer returns what is known of the client: by the call that the lane's run is
// for, and else by initialize.
func (a *Agent) peer() peer {
	if p := a.lane.caller(); p != nil {
		return *p
	}
	c := a.session.client
	info := c.GetClientInfo()
	return peer{name: info.Name, version: info.Version, greeted: c.Initialized() || c.ProtocolVersion() != "", can: c.GetClientCapabilities()}
}

// A peer is what a client has said of itself.
type peer struct {
	name    string
	version string
	modern  bool // it speaks the protocol without initialize
	greeted bool // it has said what it can do
	can     mcp.ClientCapabilities
}

// peerOf returns what a request of the protocol without initialize says of its
// client; nil for other requests.
func peerOf(ctx context.Context) *peer {
	info := server.RequestProtocolInfoFromContext(ctx)
	if info == nil || !info.Modern {
		return nil
	}
	p := &peer{modern: true, greeted: true}
	if info.ClientInfo != nil {
		p.name, p.version = info.ClientInfo.Name, info.ClientInfo.Version
	}
	if info.ClientCapabilities != nil {
		p.can = *info.ClientCapabilities
	}
	return p
}

// lack says what the client lacks for a request; "" if it can be asked.
func (p peer) lack(method string, params json.RawMessage) string {
	if !p.greeted {
		return "its client has not said yet what it offers"
	}
	what := "requests for " + method
	switch method {
	case string(mcp.MethodSamplingCreateMessage):
		what = p.lackSampling(params)
	case string(mcp.MethodElicitationCreate):
		what = p.lackElicitation(params)
	}
	if what == "" {
		return ""
	}
	return fmt.Sprintf("its client %s does not offer %s", cmp.Or(clipName(p.name), "(without a name)"), what)
}

func (p peer) lackSampling(params json.RawMessage) string {
	var asked struct {
		Tools      json.RawMessage `json:"tools"`
		ToolChoice json.RawMessage `json:"toolChoice"`
	}
	_ = json.Unmarshal(params, &asked) // the client says what is wrong with it
	switch can := p.can.Sampling; {
	case can == nil:
		return "sampling, completions by its model"
	case can.Tools == nil && (asked.Tools != nil || asked.ToolChoice != nil):
		return "sampling with tools"
	}
	return ""
}

func (p peer) lackElicitation(params json.RawMessage) string {
	var asked struct {
		Mode string `json:"mode"`
	}
	_ = json.Unmarshal(params, &asked) // the client says what is wrong with it
	can := p.can.Elicitation
	switch {
	case can == nil:
		return "elicitation, questions to the user"
	case asked.Mode == mcp.ElicitationModeURL && can.URL == nil:
		return "elicitation by URL"
	case asked.Mode != mcp.ElicitationModeURL && can.Form == nil && can.URL != nil:
		return "elicitation by a form"
	}
	return ""
}

// clipName bounds a client's name, which is only told.
func clipName(name string) string {
	const most = 60
	if len(name) <= most {
		return name
	}
	return tail(name, most)
}
