package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// maxForwarded bounds what a server may ask an agent, in bytes.
const maxForwarded = 4 << 20

// capabilities are what we offer servers. Whether an agent's client can be asked
// is not known when a server is greeted, which may serve several: what it can't
// be asked is refused when it comes to it.
var capabilities = json.RawMessage(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`)

// asked answers a request of the server's. It may wait for a person.
func (b *backend) asked(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	params, _ := r.Params.(json.RawMessage)
	var result json.RawMessage
	var err error
	switch r.Method {
	case string(mcp.MethodListRoots):
		result, err = b.roots()
	case string(mcp.MethodSamplingCreateMessage), string(mcp.MethodElicitationCreate):
		result, err = b.askAgent(ctx, r.Method, params)
	default:
		err = &AgentError{Code: mcp.METHOD_NOT_FOUND, Message: "this client does not serve " + clip(r.Method, 100)}
	}
	if err != nil {
		b.log.Debug().Err(err).Str("method", clip(r.Method, 100)).Msg("refuse request of server")
		return &transport.JSONRPCResponse{Error: refusalOf(err)}, nil
	}
	return &transport.JSONRPCResponse{Result: result}, nil
}

// refusalOf is what a server is told.
func refusalOf(err error) *mcp.JSONRPCErrorDetails {
	if told, ok := errors.AsType[*AgentError](err); ok {
		return &mcp.JSONRPCErrorDetails{Code: told.Code, Message: told.Message}
	}
	code := mcp.INTERNAL_ERROR
	if errors.Is(err, ErrCannotAsk) {
		code = mcp.METHOD_NOT_FOUND
	}
	return &mcp.JSONRPCErrorDetails{Code: code, Message: err.Error()}
}

// askAgent passes a server's request on to the agent of the session that it
// works for. It ends with that session's last call of the server.
func (b *backend) askAgent(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c, err := b.proxy.whose(b)
	if err != nil {
		return nil, err
	}
	return b.askCaller(ctx, c, method, params)
}

func (b *backend) askCaller(ctx context.Context, c *caller, method string, params json.RawMessage) (json.RawMessage, error) {
	params, err := forwarded(b.name, method, params)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	return b.askOf(ctx, c.session, method, params)
}

// askOf asks a session's agent what the server wants to know. The time limits of
// the session's calls of the server stand still meanwhile.
func (b *backend) askOf(ctx context.Context, s *Session, method string, params json.RawMessage) (json.RawMessage, error) {
	defer s.asking.get(b.key).Start()()
	return s.opts.Agent.Ask(ctx, method, params)
}

// forwarded is a server's request as the agent gets it: a question to the
// person says which server asks, and nothing goes along that means something
// only between the server and us, or that would show the server what the agent
// knows of other servers.
func forwarded(server, method string, params json.RawMessage) (json.RawMessage, error) {
	if len(params) > maxForwarded {
		return nil, fmt.Errorf("the request has %d bytes, and %d is the limit", len(params), maxForwarded)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil || members == nil {
		return nil, &AgentError{Code: mcp.INVALID_PARAMS, Message: "the request's params are no object"}
	}
	if _, ok := members["task"]; ok {
		return nil, &AgentError{Code: mcp.INVALID_PARAMS, Message: "this client runs no tasks"}
	}
	delete(members, "_meta")
	delete(members, "includeContext")
	if method == string(mcp.MethodElicitationCreate) {
		var text string
		if err := json.Unmarshal(members["message"], &text); err != nil {
			return nil, &AgentError{Code: mcp.INVALID_PARAMS, Message: "message must be a text"}
		}
		labelled, err := reply(server + ": " + text)
		if err != nil {
			return nil, err
		}
		members["message"] = labelled
	}
	return reply(members)
}
