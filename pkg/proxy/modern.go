package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxTrips bounds how often a server may answer one request by asking for
	// something first.
	maxTrips = 10

	// maxInquiries bounds what it may ask in one answer.
	maxInquiries = 16
)

// An upstream of the protocol without initialize is one whose era is not empty:
// each request says the version, who we are and what we offer, and a server
// that wants something answers with that, whereupon the request is made again.
// Only servers that refuse initialize are spoken with so.

// modernVersion returns the version to try with a server that has refused
// initialize: the newest without it, if it names no other, or ours if it does
// not know the method.
func modernVersion(err error) string {
	failed, ok := errors.AsType[*rpcError](err)
	if !ok {
		return ""
	}
	best := ""
	for _, v := range supported(failed) {
		if !mcp.IsValidProtocolVersion(v) {
			continue
		}
		if !mcp.IsModernProtocol(v) {
			return ""
		}
		best = max(best, v)
	}
	if best == "" && failed.details.Code == mcp.METHOD_NOT_FOUND {
		best = mcp.LATEST_PROTOCOL_VERSION
	}
	return best
}

// supported returns the versions that a refusal names.
func supported(failed *rpcError) []string {
	var data struct {
		Supported []string `json:"supported"`
	}
	if raw, ok := failed.details.Data.(json.RawMessage); ok {
		_ = json.Unmarshal(raw, &data) // then it names none
	}
	return data.Supported
}

// discover greets a server that has no initialize.
func (u *upstream) discover(ctx context.Context, version string) error {
	if u.body == nil {
		return fmt.Errorf("it speaks protocol %s alone, which has no handshake; bridged speaks that with servers that it runs, and not over HTTP", version)
	}
	u.era = version
	raw, err := u.request(ctx, string(mcp.MethodServerDiscover), json.RawMessage("{}"))
	if failed, ok := errors.AsType[*rpcError](err); ok {
		return fmt.Errorf("it refused server/discover with protocol version %s: %w", version, failed)
	}
	if err != nil {
		return err
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(raw, &result); err != nil {
		return fmt.Errorf("it answered server/discover with no object: %s", clip(string(raw), 200))
	}
	var versions []string
	_ = json.Unmarshal(result["supportedVersions"], &versions) // then it names none
	if len(versions) > 0 && !slices.Contains(versions, version) {
		return fmt.Errorf("it speaks none of our protocol versions, but %s", clip(fmt.Sprint(versions), 200))
	}
	var meta map[string]json.RawMessage
	_ = json.Unmarshal(result["_meta"], &meta) // then it does not say who it is
	result["serverInfo"] = meta[mcp.MetaKeyServerInfo]
	u.card, u.version = newCard(result), version
	return nil
}

// withMeta says in a request's parameters what the handshake says otherwise.
func (u *upstream) withMeta(params json.RawMessage) (json.RawMessage, error) {
	members, meta := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if params != nil {
		if err := json.Unmarshal(params, &members); err != nil {
			return nil, fmt.Errorf("reading parameters: %w", err)
		}
	}
	if raw, ok := members["_meta"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, fmt.Errorf("reading _meta: %w", err)
		}
	}
	info, err := reply(map[string]string{"name": "bridged", "version": u.opts.Version})
	if err != nil {
		return nil, err
	}
	meta[mcp.MetaKeyProtocolVersion] = json.RawMessage(`"` + u.era + `"`)
	meta[mcp.MetaKeyClientCapabilities] = capabilities
	meta[mcp.MetaKeyClientInfo] = info
	if u.card.offers["logging"] {
		meta[mcp.MetaKeyLogLevel] = json.RawMessage(`"info"`)
	}
	if members["_meta"], err = reply(meta); err != nil {
		return nil, err
	}
	return reply(members)
}

// hear keeps a subscription to changes of the tools, as long as the server
// lives.
func (b *backend) hear(u *upstream) {
	if u.era == "" {
		return
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-u.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := u.request(ctx, string(mcp.MethodSubscriptionsListen), json.RawMessage(`{"notifications":{"toolsListChanged":true}}`))
	if ctx.Err() == nil {
		b.log.Debug().Err(err).Msg("listen for changes of tools")
	}
}

// An inquiry is an answer of a server that wants something first.
type inquiry struct {
	ResultType string `json:"resultType"`
	Requests   map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
	State json.RawMessage `json:"requestState"`
}

// exchange makes a request for a session, and answers what the server wants to know
// before it gives a result.
func (b *backend) exchange(ctx context.Context, u *upstream, s *Session, method string, params json.RawMessage) (json.RawMessage, error) {
	result, err := u.request(ctx, method, params)
	for trip := 1; err == nil && u.era != ""; trip++ {
		var q inquiry
		if json.Unmarshal(result, &q) != nil || q.ResultType != string(mcp.ResultTypeInputRequired) {
			return result, nil
		}
		if trip > maxTrips {
			return nil, errorf(CodeUpstream, "Server %s has asked %d times for more before it answers, and was not asked again.", b.name, maxTrips)
		}
		again, err := b.inform(ctx, s, q, params)
		if err != nil {
			return nil, err
		}
		if result, err = u.request(ctx, method, again); err != nil {
			return nil, underWay(err)
		}
	}
	return result, err
}

// inform answers an inquiry: it returns the parameters of the request that is
// made again.
func (b *backend) inform(ctx context.Context, s *Session, q inquiry, params json.RawMessage) (json.RawMessage, error) {
	if len(q.Requests) > maxInquiries {
		return nil, errorf(CodeUpstream, "Server %s asks %d things at once before it answers, and %d is the limit.", b.name, len(q.Requests), maxInquiries)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil {
		return nil, fmt.Errorf("reading parameters: %w", err)
	}
	responses := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(q.Requests)) {
		response, err := b.answerFor(ctx, s, q.Requests[key].Method, q.Requests[key].Params)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			return nil, errorf(CodeUpstream, "Server %s needs an answer to %s before it goes on, which it cannot have: %v.",
				b.name, clip(q.Requests[key].Method, 100), err)
		}
		responses[key] = response
	}
	delete(members, "requestState")
	if q.State != nil {
		members["requestState"] = q.State
	}
	var err error
	if members["inputResponses"], err = reply(responses); err != nil {
		return nil, err
	}
	return reply(members)
}

// answerFor answers what a server asks in the answer to a session's own request.
func (b *backend) answerFor(ctx context.Context, s *Session, method string, params json.RawMessage) (json.RawMessage, error) {
	switch method {
	case string(mcp.MethodListRoots):
		return b.roots()
	case string(mcp.MethodSamplingCreateMessage), string(mcp.MethodElicitationCreate):
		forwarded, err := forwarded(b.name, method, params)
		if err != nil {
			return nil, err
		}
		return b.askOf(ctx, s, method, forwarded)
	}
	return nil, errors.New("this client does not serve it")
}

// underWay is the failure of a later step of a call whose first step the server
// has seen: whatever happened, the call may have had its effect.
func underWay(err error) error {
	if errors.Is(err, errNotSent) {
		return fmt.Errorf("%w: %v", errMismatch, err)
	}
	return err
}
