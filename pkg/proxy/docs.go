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
	// summaryBytes bounds a tool's description where detail is "summary" and the
	// tool is named; of one among others the first sentence is told.
	// summaryParamBytes bounds a parameter's.
	summaryBytes      = 600
	summaryParamBytes = 200

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
	Returns     string            `json:"returns"`
	Params      []param           `json:"params"`
	Loose       bool              `json:"loose"`                  // other arguments may be passed too
	Odd         map[string]string `json:"paramAliases,omitempty"` // alias to name, where they differ
	Problem     string            `json:"problem,omitempty"`
	Stale       string            `json:"stale,omitempty"` // why the tool may be another by now
	Score       *float64          `json:"score,omitempty"`
	Why         []string          `json:"why,omitempty"`
	Saved       bool              `json:"saved,omitempty"` // a function that code has saved: it is of no server

	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// A param is one argument of a tool, in the order in which Python takes them.
type param struct {
	Name        string            `json:"name"`
	Alias       string            `json:"alias"`
	Type        string            `json:"type"`
	Description string            `json:"description,omitempty"`
	Required    bool              `json:"required"`
	Default     json.RawMessage   `json:"default,omitempty"`
	Enum        []json.RawMessage `json:"enum,omitempty"`
}

// newDoc describes a tool. alias is unique among its server's tools.
func newDoc(t *target, tool discovery.Tool, alias string, full bool) doc {
	d := doc{
		Server: t.server.Name, ServerAlias: t.alias, Tool: tool.Name, ToolAlias: alias, Title: tool.Title,
		Description: tool.Description, Signature: discovery.SignatureAs(alias, tool), Returns: tool.Returns(),
		Params: make([]param, len(tool.Params)), Loose: tool.Loose, Odd: map[string]string{}, Problem: tool.Problem,
	}
	for i, p := range tool.Params {
		d.Params[i] = param{p.Name, p.Alias, p.Type, p.Description, p.Required, p.Value, p.Enum}
		if p.Name != p.Alias {
			d.Odd[p.Alias] = p.Name
		}
	}
	if !full {
		d.shorten()
		return d
	}
	d.InputSchema, d.OutputSchema = tool.Schemas()
	return d
}

// warn adds to what is odd about the tool.
func (d *doc) warn(problem string) {
	switch {
	case d.Problem == "":
		d.Problem = problem
	case problem != "":
		d.Problem += "; " + problem
	}
}

// shorten cuts what people write at length.
func (d *doc) shorten() {
	d.Description = clip(strings.TrimSpace(d.Description), summaryBytes)
	for i := range d.Params {
		d.Params[i].Description = clip(d.Params[i].Description, summaryParamBytes)
	}
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
		if p.Tool == "" && !full {
			docs[i].Description = firstSentence(tool.Description)
		}
		docs[i].Stale = s.proxy.stock.stale(t.ref.Digest)
		docs[i].warn(s.proxy.learner.problem(t.ref, tool.Name))
	}
	if p.Tool != "" {
		docs[0].warn(s.proxy.opts.Catalog.Unchecked(t.ref, tools[0].Name))
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
		Query   string `json:"query"`
		Limit   *int   `json:"limit"`
		Detail  string `json:"detail"`
		Explain bool   `json:"explain"`
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
	if !p.Explain {
		for i := range results {
			results[i].Why = nil
		}
	}
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
	saved := s.saved()
	refs = append(refs, saved.ref)
	results := []doc{}
	for _, m := range s.proxy.opts.Catalog.Search(query, refs, limit) {
		if m.Tool.Server == savedServer {
			results = append(results, saved.doc(m, full))
			continue
		}
		f := found[m.Tool.Server]
		if _, withheld := s.withheld(f.target, m.Tool.Name); withheld {
			continue
		}
		alias, ok := f.aliases[m.Tool.Name]
		if !ok {
			alias = discovery.Alias(m.Tool.Name) // it was added a moment ago
		}
		d := newDoc(f.target, m.Tool, alias, full)
		if !full {
			d.Description = firstSentence(m.Tool.Description)
		}
		d.Score, d.Why, d.Stale = &m.Score, m.Why, s.proxy.stock.stale(f.target.ref.Digest)
		results = append(results, d)
	}
	return results
}
