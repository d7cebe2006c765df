package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/bridged/bridged/pkg/discovery"
)

const goos = runtime.GOOS

// methods are the requests that a sandbox can make. The package documentation
// is their contract.
var methods map[string]func(*Session, context.Context, json.RawMessage) (json.RawMessage, error)

func init() { // the methods mention the table in their errors
	methods = map[string]func(*Session, context.Context, json.RawMessage) (json.RawMessage, error){
		"servers.list": (*Session).serversList,
		"servers.load": (*Session).serversLoad,
		"tools.list":   (*Session).toolsList,
		"tools.call":   (*Session).toolsCall,
		"docs.query":   (*Session).docsQuery,
		"docs.search":  (*Session).docsSearch,

		"resources.list":      (*Session).resourcesList,
		"resources.templates": (*Session).resourcesTemplates,
		"resources.read":      (*Session).resourcesRead,
		"prompts.list":        (*Session).promptsList,
		"prompts.get":         (*Session).promptsGet,
		"complete":            (*Session).complete,
		"server.info":         (*Session).serverInfo,
	}
}

// decode reads a request's parameters.
func decode(method string, params json.RawMessage, into any) error {
	if len(bytes.TrimSpace(params)) == 0 {
		params = json.RawMessage("{}")
	}
	err := json.Unmarshal(params, into)
	if err == nil && !isObject(params) {
		err = errors.New("they are no JSON object")
	}
	if err != nil {
		return errorf(CodeBadRequest, "The parameters of %s cannot be read: %v.", method, err)
	}
	return nil
}

// reply writes a result. HTML's characters stay as they are.
func reply(result any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(result); err != nil {
		return nil, fmt.Errorf("writing the reply: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// A serverRow describes a server to code.
type serverRow struct {
	Name        string `json:"name"`
	Alias       string `json:"alias"`
	Description string `json:"description"`
	Loaded      bool   `json:"loaded"`
	Transport   string `json:"transport"`
	State       string `json:"state"`
	Tools       *int   `json:"tools"` // null when they are not known
	Source      string `json:"source"`
	Problem     string `json:"problem,omitempty"` // why it can't be used
	Stale       string `json:"stale,omitempty"`   // why its tools may be others by now
}

func (s *Session) serversList(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
	if err := decode("servers.list", params, &struct{}{}); err != nil {
		return nil, err
	}
	v := s.look()
	rows := []serverRow{}
	for _, name := range v.names() {
		rows = append(rows, s.row(v.target(s, v.byName[name])))
	}
	return reply(map[string]any{"servers": rows})
}

func (s *Session) row(t *target) serverRow {
	r := serverRow{
		Name: t.server.Name, Alias: t.alias, Description: clip(t.server.Description, 1000), Loaded: s.isLoaded(t.server.Name),
		Transport: string(t.server.Transport), State: stateConfigured,
	}
	if len(t.server.Sources) > 0 {
		r.Source = t.server.Sources[0].Path + " (" + t.server.Sources[0].Key + ")"
	}
	if t.err != nil {
		r.Problem = t.err.Error()
		return r
	}
	listed := s.proxy.stock.has(t.ref.Digest, t.written)
	if listed {
		n, _ := s.proxy.opts.Catalog.Count(t.ref)
		r.Tools, r.Stale = &n, s.proxy.stock.stale(t.ref.Digest)
	}
	now := s.proxy.peek(t)
	r.State, r.Problem = now.known(listed), now.problem
	return r
}

// tools returns the tools of a discovered server, which is started if they are
// not known. When a list can't be renewed, the one before is better than none.
func (s *Session) tools(ctx context.Context, t *target) ([]discovery.Tool, error) {
	if t.err != nil {
		return nil, t.err
	}
	b, done := s.use(t)
	defer done()
	err := s.shown(ctx, t, b)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	tools, ok := s.proxy.opts.Catalog.Tools(t.ref)
	if !ok && err == nil {
		err = errorf(CodeServerFailed, "Server %s has no list of tools.", t.server.Name)
	}
	if !ok {
		return nil, err
	}
	return s.visible(t, tools), nil
}

// serverOf finds the server that a request names.
func (s *Session) serverOf(method, name string) (*target, error) {
	if name == "" || len(name) > maxName {
		return nil, errorf(CodeBadRequest, "%s needs server, the name of a server as servers.list gives it.", method)
	}
	return s.find(s.look(), name)
}

func (s *Session) toolsList(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Server string `json:"server"`
	}
	if err := decode("tools.list", params, &p); err != nil {
		return nil, err
	}
	t, err := s.serverOf("tools.list", p.Server)
	if err != nil {
		return nil, err
	}
	tools, err := s.tools(ctx, t)
	if err != nil {
		return nil, err
	}
	return toolsReply(tools), nil
}

// toolsReply writes tools as their server did. They were valid JSON then.
func toolsReply(tools []discovery.Tool) json.RawMessage {
	size := len(`{"tools":[]}`)
	for _, tool := range tools {
		size += len(tool.Raw) + 1
	}
	text := append(make([]byte, 0, size), `{"tools":[`...)
	for i, tool := range tools {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, tool.Raw...)
	}
	return append(text, "]}"...)
}

func unknownTool(t *target, name string, tools []discovery.Tool) *Error {
	names := make([]string, len(tools))
	for i, tool := range tools {
		names[i] = tool.Name
	}
	text := fmt.Sprintf("Server %s has no tool %s.", t.server.Name, clip(name, 100))
	near := discovery.Nearest(name, names, 3)
	switch {
	case len(near) > 0:
		text += " Did you mean " + strings.Join(near, " or ") + "?"
	case len(names) == 0:
		text += " It has no tools."
	case len(names) <= 20:
		text += " It has: " + strings.Join(names, ", ") + "."
	default:
		text += " query_tool_docs or search_tool_docs find the right one."
	}
	return &Error{Code: CodeUnknownTool, Message: text}
}
