package proxy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
)

// An offer is one request of a sandbox for what a server has beside its tools:
// resources, prompts and completions. Nothing of it is kept: the lists are asked
// for each time, so that a server's word that they have changed changes nothing.
type offer struct {
	session *Session
	method  string // the sandbox's
	target  *target
	backend *backend // set when the server is talked to
}

// newOffer finds the server of a request and reads what else it says into
// more, which may be nil.
func (s *Session) newOffer(method string, params json.RawMessage, more any) (*offer, error) {
	var p struct {
		Server string `json:"server"`
	}
	if err := decode(method, params, &p); err != nil {
		return nil, err
	}
	if more != nil {
		if err := decode(method, params, more); err != nil {
			return nil, err
		}
	}
	t, err := s.serverOf(method, p.Server)
	if err != nil {
		return nil, err
	}
	return &offer{session: s, method: method, target: t}, nil
}

// mustBeLoaded refuses servers that the session has not loaded.
func (o *offer) mustBeLoaded() error {
	if name := o.target.server.Name; !o.session.isLoaded(name) {
		return errorf(CodeNotAvailable, "Server %s is not available. Pass servers=[%q] to run_python to load it.", name, name)
	}
	return nil
}

// with has do talk to the server, which is started if need be. A server without
// the capability is refused; "" is none. What is certain not to have been sent is
// sent once more, to a new process.
func (o *offer) with(ctx context.Context, capability string, do func(context.Context, *upstream) error) error {
	t, p := o.target, o.session.proxy
	if t.err != nil {
		return t.err
	}
	b, done := o.session.use(t)
	defer done()
	o.backend = b
	limit, setting := timeLimit(p, t)
	ctx, cancel := o.session.timed(ctx, t, limit, setting)
	defer cancel()
	err := o.attempt(ctx, b, capability, do)
	if errors.Is(err, errNotSent) && ctx.Err() == nil {
		err = o.attempt(ctx, b, capability, do)
	}
	return b.explain(ctx, o.method, err)
}

func (o *offer) attempt(ctx context.Context, b *backend, capability string, do func(context.Context, *upstream) error) error {
	leave, err := b.turn(ctx)
	if err != nil {
		return err
	}
	defer leave()
	u, err := b.acquire(ctx)
	if err != nil {
		return err
	}
	if capability != "" && u.lacks(capability) {
		return errorf(CodeNotAvailable, "Server %s offers no %s.", b.name, capability)
	}
	return do(b.outward(ctx), u)
}

// get makes one request of a loaded server, whose result is passed on as it is.
func (o *offer) get(ctx context.Context, capability, method string, params any) (json.RawMessage, error) {
	if err := o.mustBeLoaded(); err != nil {
		return nil, err
	}
	raw, err := reply(params)
	if err != nil {
		return nil, err
	}
	return o.under(ctx, method, raw, func(ctx context.Context) (json.RawMessage, error) { return o.request(ctx, capability, method, raw) })
}

// request is get for what the rules let through.
func (o *offer) request(ctx context.Context, capability, method string, raw json.RawMessage) (json.RawMessage, error) {
	var result json.RawMessage
	err := o.with(ctx, capability, func(ctx context.Context, u *upstream) (err error) {
		result, err = o.backend.exchange(ctx, u, o.session, method, raw)
		return err
	})
	if err == nil && !isObject(result) {
		err = errorf(CodeUpstream, "Server %s answered %s with a result that is no object: %s", o.target.server.Name, method, clip(string(result), 200))
	}
	return result, err
}

// list answers a request for one of the server's lists.
func (s *Session) list(kind listKind, method string) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
		var p struct {
			Cursor string `json:"cursor"`
		}
		o, err := s.newOffer(method, params, &p)
		if err != nil {
			return nil, err
		}
		return o.under(ctx, kind.method, json.RawMessage("{}"), func(ctx context.Context) (json.RawMessage, error) { return o.list(ctx, kind, p.Cursor) })
	}
}

// list asks for a list, from a cursor on.
func (o *offer) list(ctx context.Context, kind listKind, cursor string) (json.RawMessage, error) {
	var l listing
	err := o.with(ctx, "", func(ctx context.Context, u *upstream) (err error) {
		if u.lacks(kind.capability) {
			return nil
		}
		l, err = u.list(ctx, kind, cursor)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.reply(kind)
}

// reply writes a list as a sandbox gets it.
func (l listing) reply(kind listKind) (json.RawMessage, error) {
	result := map[string]any{kind.member: l.items}
	if l.items == nil {
		result[kind.member] = []json.RawMessage{}
	}
	if l.next != "" {
		result["nextCursor"] = l.next
	}
	if l.warning != "" {
		result["warning"] = l.warning
	}
	return reply(result)
}

func (s *Session) resourcesList(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	return s.list(resourceLists, "resources.list")(ctx, params)
}

func (s *Session) resourcesTemplates(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	return s.list(templateLists, "resources.templates")(ctx, params)
}

func (s *Session) promptsList(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	return s.list(promptLists, "prompts.list")(ctx, params)
}

func (s *Session) resourcesRead(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		URI string `json:"uri"`
	}
	o, err := s.newOffer("resources.read", params, &p)
	if err != nil {
		return nil, err
	}
	if p.URI == "" {
		return nil, errorf(CodeBadRequest, "resources.read needs uri, the address of a resource as resources.list gives it.")
	}
	return o.get(ctx, "resources", string(mcp.MethodResourcesRead), p)
}

func (s *Session) promptsGet(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments,omitempty"`
	}
	o, err := s.newOffer("prompts.get", params, &p)
	if err != nil {
		return nil, err
	}
	if p.Name == "" {
		return nil, errorf(CodeBadRequest, "prompts.get needs name, the name of a prompt as prompts.list gives it.")
	}
	return o.get(ctx, "prompts", string(mcp.MethodPromptsGet), p)
}

func (s *Session) complete(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Ref      json.RawMessage `json:"ref"`
		Argument json.RawMessage `json:"argument"`
		Context  json.RawMessage `json:"context,omitempty"`
	}
	o, err := s.newOffer("complete", params, &p)
	if err != nil {
		return nil, err
	}
	if string(p.Context) == "null" {
		p.Context = nil
	}
	if !isObject(p.Ref) || !isObject(p.Argument) || (p.Context != nil && !isObject(p.Context)) {
		return nil, errorf(CodeBadRequest, `complete needs ref, such as {"type": "ref/prompt", "name": "..."}, and argument, {"name": "...", "value": "..."}; context is an object.`)
	}
	return o.get(ctx, "completions", string(mcp.MethodCompletionComplete), p)
}
