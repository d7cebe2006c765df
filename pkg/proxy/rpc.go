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
		"tools.list":   (*Session).toolsList,
		"tools.call":   (*Session).toolsCall,
		"docs.query":   (*Session).docsQuery,
		"docs.search":  (*Session).docsSearch,
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
		Transport: string(t.server.Transport), State: "configured",
	}
	if len(t.server.Sources) > 0 {
		r.Source = t.server.Sources[0].Path + " (" + t.server.Sources[0].Key + ")"
	}
	if t.err != nil {
		r.State, r.Problem = "failed", t.err.Error()
		return r
	}
	if tools, ok := s.proxy.opts.Catalog.Tools(t.ref); ok {
		n := len(tools)
		r.Tools, r.State = &n, "catalogued"
	}
	switch s.proxy.peek(t) {
	case StateStarted:
		r.State = "started"
	case StateFailed:
		r.State = "failed"
	}
	return r
}

// tools returns the tools of a discovered server, which is started if they are
// not known. When a list can't be renewed, the one before is better than none.
func (s *Session) tools(ctx context.Context, t *target) ([]discovery.Tool, error) {
	if t.err != nil {
		return nil, t.err
	}
	b := s.proxy.lease(t)
	defer s.proxy.release(b)
	err := b.known(ctx)
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
	return tools, nil
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
	raws := make([]json.RawMessage, len(tools))
	for i, tool := range tools {
		raws[i] = tool.Raw
	}
	return reply(map[string]any{"tools": raws})
}

func (s *Session) toolsCall(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Server    string          `json:"server"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := decode("tools.call", params, &p); err != nil {
		return nil, err
	}
	arguments := bytes.TrimSpace(p.Arguments)
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	if p.Tool == "" || len(p.Tool) > maxName || !isObject(arguments) {
		return nil, errorf(CodeBadRequest, "tools.call needs tool, the name of a tool, and arguments, one JSON object with an entry for each argument.")
	}
	t, err := s.serverOf("tools.call", p.Server)
	if err != nil {
		return nil, err
	}
	if !s.isLoaded(t.server.Name) {
		return nil, errorf(CodeNotAvailable, "Server %s is not available. Pass servers=[%q] to run_python to load it.", t.server.Name, t.server.Name)
	}
	if t.err != nil {
		return nil, t.err
	}
	b := s.proxy.lease(t)
	defer s.proxy.release(b)
	limit, setting := s.proxy.opts.CallTimeout, "servers.call_timeout"
	if t.server.Timeout > 0 {
		limit, setting = t.server.Timeout, "the server's definition"
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &callTimeout{fmt.Sprintf("%s (%s)", limit, setting)})
	defer cancel()
	if err := s.checkTool(ctx, b, t, p.Tool); err != nil {
		return nil, b.explain(ctx, p.Tool, err)
	}
	return b.call(ctx, p.Tool, arguments)
}

// checkTool refuses tools that the server does not have. A server whose tools
// can't be listed may still be called.
func (s *Session) checkTool(ctx context.Context, b *backend, t *target, name string) error {
	catalog := s.proxy.opts.Catalog
	if _, ok := catalog.Tool(t.ref, name); ok {
		return nil
	}
	if !t.server.Tools.Allows(name) {
		return errorf(CodeUnknownTool, "Tool %s of server %s is switched off in the server's configuration.", clip(name, 100), t.server.Name)
	}
	if b.unlistable() {
		return nil
	}
	b.missed()
	err := b.known(ctx)
	if _, ok := catalog.Tool(t.ref, name); ok {
		return nil
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	tools, ok := catalog.Tools(t.ref)
	if err != nil || !ok || b.incomplete() {
		return nil // the server itself will tell
	}
	return unknownTool(t, name, tools)
}

// unlistable reports whether the server's tools could never be listed. Calls
// don't wait for another attempt then; a request for the tools makes one.
func (b *backend) unlistable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.shelf.have && b.shelf.err != nil && b.shelf.listing == nil
}

// incomplete reports whether the server may have tools that it did not list.
func (b *backend) incomplete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shelf.warning != ""
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
