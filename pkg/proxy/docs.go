package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/bridged/bridged/pkg/discovery"
)

const (
	// summaryBytes bounds a description where detail is "summary".
	summaryBytes = 600

	// maxResults bounds the results of one docs.search, defaultResults is how
	// many there are when the request does not say, and maxQuery bounds its
	// words, in bytes.
	maxResults     = 100
	defaultResults = 5
	maxQuery       = 4000

	// listersAtOnce bounds the servers that one search starts at a time.
	listersAtOnce = 16
)

// A doc tells code about one tool.
type doc struct {
	Server      string            `json:"server"`
	ServerAlias string            `json:"serverAlias"`
	Tool        string            `json:"tool"`
	ToolAlias   string            `json:"toolAlias"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description"`
	Signature   string            `json:"signature"`
	Params      map[string]string `json:"paramAliases,omitempty"` // alias to name, where they differ
	Problem     string            `json:"problem,omitempty"`
	Score       *float64          `json:"score,omitempty"`

	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// newDoc describes a tool. alias is unique among its server's tools.
func newDoc(t *target, tool discovery.Tool, alias string, full bool) doc {
	d := doc{
		Server: t.server.Name, ServerAlias: t.alias, Tool: tool.Name, ToolAlias: alias, Title: tool.Title,
		Description: tool.Description, Signature: discovery.SignatureAs(alias, tool), Params: paramAliases(tool), Problem: tool.Problem,
	}
	if !full {
		d.Description = clip(d.Description, summaryBytes)
		return d
	}
	var raw struct {
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
	}
	if json.Unmarshal(tool.Raw, &raw) == nil {
		d.InputSchema, d.OutputSchema = raw.InputSchema, raw.OutputSchema
	}
	return d
}

// paramAliases returns the parameters that Python can't write as they are.
func paramAliases(tool discovery.Tool) map[string]string {
	names := make([]string, len(tool.Params))
	for i, p := range tool.Params {
		names[i] = p.Name
	}
	odd := map[string]string{}
	for name, alias := range discovery.Aliases(names) {
		if name != alias {
			odd[alias] = name
		}
	}
	return odd
}

func toolAliases(tools []discovery.Tool) map[string]string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return discovery.Aliases(names)
}

// isFull reads the parameter detail.
func isFull(method, detail string) (bool, error) {
	switch detail {
	case "", "summary":
		return false, nil
	case "full":
		return true, nil
	}
	return false, errorf(CodeBadRequest, "The parameter detail of %s is %q; it is \"summary\" or \"full\".", method, clip(detail, 40))
}

func (s *Session) docsQuery(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Server string `json:"server"`
		Tool   string `json:"tool"` // name or alias; empty means all
		Detail string `json:"detail"`
	}
	if err := decode("docs.query", params, &p); err != nil {
		return nil, err
	}
	full, err := isFull("docs.query", p.Detail)
	if err != nil {
		return nil, err
	}
	t, err := s.serverOf("docs.query", p.Server)
	if err != nil {
		return nil, err
	}
	tools, err := s.tools(ctx, t)
	if err != nil {
		return nil, err
	}
	aliases := toolAliases(tools)
	if p.Tool != "" {
		all := tools
		if tools = pick(tools, aliases, p.Tool); len(tools) == 0 {
			return nil, unknownTool(t, p.Tool, all)
		}
	}
	docs := make([]doc, len(tools))
	for i, tool := range tools {
		docs[i] = newDoc(t, tool, aliases[tool.Name], full)
	}
	return reply(map[string]any{"docs": docs})
}

// pick returns the tool with a name, else the one with that alias.
func pick(tools []discovery.Tool, aliases map[string]string, name string) []discovery.Tool {
	at := slices.IndexFunc(tools, func(t discovery.Tool) bool { return t.Name == name })
	if at < 0 {
		at = slices.IndexFunc(tools, func(t discovery.Tool) bool { return aliases[t.Name] == name })
	}
	if at < 0 {
		return nil
	}
	return tools[at : at+1]
}

// A gap is a server that a search could not look into.
type gap struct {
	Server string `json:"server"`
	Reason string `json:"reason"`
}

func (s *Session) docsSearch(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Query  string `json:"query"`
		Limit  *int   `json:"limit"`
		Detail string `json:"detail"`
	}
	if err := decode("docs.search", params, &p); err != nil {
		return nil, err
	}
	full, err := isFull("docs.search", p.Detail)
	if err != nil {
		return nil, err
	}
	limit := defaultResults
	if p.Limit != nil {
		limit = *p.Limit
	}
	if limit < 1 {
		return nil, errorf(CodeBadRequest, "The parameter limit of docs.search is %d; it is 1 to %d.", limit, maxResults)
	}
	found, gaps, err := s.survey(ctx)
	if err != nil {
		return nil, err
	}
	results := s.search(clip(p.Query, maxQuery), found, min(limit, maxResults), full)
	answer := map[string]any{"results": results}
	if len(gaps) > 0 {
		answer["incomplete"] = gaps
	}
	return reply(answer)
}

// A surveyed is a server whose tools are known, by its name.
type surveyed struct {
	target  *target
	aliases map[string]string // of its tools
}

// survey makes the tools of all discovered servers known, many at a time and
// for a bounded time in all. Those that take longer go on and are known to a
// later search.
func (s *Session) survey(ctx context.Context) (map[string]surveyed, []gap, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.proxy.opts.SearchWait, errSlow)
	defer cancel()
	v := s.look()
	found := map[string]surveyed{}
	gaps := []gap{}
	var mu sync.Mutex // guards found and gaps
	var lists sync.WaitGroup
	slots := make(chan struct{}, listersAtOnce)
	for _, name := range v.names() {
		t := v.target(s, v.byName[name])
		slots <- struct{}{}
		lists.Go(func() { // ends with ctx
			defer func() { <-slots }()
			tools, err := s.tools(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				gaps = append(gaps, gap{t.server.Name, reason(ctx, err)})
				return
			}
			found[t.server.Name] = surveyed{t, toolAliases(tools)}
		})
	}
	lists.Wait()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSlow) {
		return nil, nil, context.Cause(ctx)
	}
	slices.SortFunc(gaps, func(a, b gap) int { return strings.Compare(a.Server, b.Server) })
	return found, gaps, nil
}

// errSlow is why a search goes on without a server.
var errSlow = errors.New("its tools are still being listed; search again in a while")

func reason(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	return clip(err.Error(), quoteBytes)
}

func (s *Session) search(query string, found map[string]surveyed, limit int, full bool) []doc {
	refs := make([]discovery.Ref, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		refs = append(refs, found[name].target.ref)
	}
	results := []doc{}
	for _, m := range s.proxy.opts.Catalog.Search(query, refs, limit) {
		f := found[m.Tool.Server]
		alias, ok := f.aliases[m.Tool.Name]
		if !ok {
			alias = discovery.Alias(m.Tool.Name) // it was added a moment ago
		}
		d := newDoc(f.target, m.Tool, alias, full)
		d.Score = &m.Score
		results = append(results, d)
	}
	return results
}
