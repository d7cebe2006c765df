package discovery

import "sync"

// A Ref names a server in a catalogue: Digest (see [Server.Digest]) is what its
// tools are kept under, Server and Tools are what one session calls it and lets
// through. Sessions that call one process by different names share its tools.
type Ref struct {
	Digest string
	Server string
	Tools  Filter
}

// RefOf returns the Ref of an expanded server.
func RefOf(s Server) Ref {
	return Ref{Digest: s.Digest(), Server: s.Name, Tools: s.Tools}
}

// A Catalog holds the tools of servers, by the servers' digests, and finds
// tools among them. It is safe for concurrent use; a search sees each server
// either before or after a change. Make one with [NewCatalog].
type Catalog struct {
	mu         sync.RWMutex // guards the fields below
	shelves    map[string]*shelf
	vocabulary vocabulary // of all shelves
	generation uint64

	checkers checkers
	lessons  lessons

	// Servers are few and keep their names, so what a name says is worked out
	// once: a *bearing by name.
	bearings sync.Map
}

// A shelf is one server's tools, their index and what checks values against
// their schemas. Only the last ever changes.
type shelf struct {
	tools  []Tool
	at     map[string]int // by name
	index  *index
	checks []toolChecks
}

func newShelf(tools []Tool) *shelf {
	s := &shelf{tools: tools, at: make(map[string]int, len(tools)), index: newIndex(tools), checks: make([]toolChecks, len(tools))}
	for i, t := range tools {
		if _, ok := s.at[t.Name]; !ok {
			s.at[t.Name] = i
		}
		s.checks[i].input = checker{of: t.Raw, key: "inputSchema"}
		s.checks[i].output = checker{of: t.Raw, key: "outputSchema"}
	}
	return s
}

// NewCatalog returns an empty catalogue.
func NewCatalog() *Catalog {
	return &Catalog{shelves: map[string]*shelf{}, vocabulary: vocabulary{}}
}

// Put keeps a server's tools in place of those it had. The catalogue owns tools
// from then on.
func (c *Catalog) Put(digest string, tools []Tool) {
	s := newShelf(tools)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.shelves[digest]; ok {
		c.vocabulary.remove(old.index)
	}
	c.shelves[digest] = s
	c.vocabulary.add(s.index)
	c.generation++
}

// Drop forgets a server's tools.
func (c *Catalog) Drop(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.shelves[digest]; ok {
		c.vocabulary.remove(old.index)
		delete(c.shelves, digest)
		c.generation++
	}
}

// Generation counts the changes: as long as it is the same, so is every answer.
func (c *Catalog) Generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

// Tools returns a server's tools that the session may use, in the server's
// order, as the session calls them. ok is false when the catalogue does not
// have them.
func (c *Catalog) Tools(ref Ref) (tools []Tool, ok bool) {
	s := c.shelf(ref.Digest)
	if s == nil {
		return nil, false
	}
	tools = make([]Tool, 0, len(s.tools))
	for _, t := range s.tools {
		if ref.Tools.Allows(t.Name) {
			tools = append(tools, c.as(t, ref))
		}
	}
	return tools, true
}

// Count returns how many tools [Catalog.Tools] would.
func (c *Catalog) Count(ref Ref) (n int, ok bool) {
	s := c.shelf(ref.Digest)
	if s == nil {
		return 0, false
	}
	for _, t := range s.tools {
		if ref.Tools.Allows(t.Name) {
			n++
		}
	}
	return n, true
}

// Tool returns one tool by its exact name.
func (c *Catalog) Tool(ref Ref, name string) (t Tool, ok bool) {
	s, at, ok := c.find(ref, name)
	if !ok {
		return Tool{}, false
	}
	return c.as(s.tools[at], ref), true
}

// as returns a tool as a session sees it, with what was learnt of its results.
func (c *Catalog) as(t Tool, ref Ref) Tool {
	t.Server = ref.Server
	t.learnt, t.known = c.lessons.of(toolKey{ref.Digest, t.Name})
	return t
}

// Has reports whether the session may use a tool of that exact name.
func (c *Catalog) Has(ref Ref, name string) bool {
	_, _, ok := c.find(ref, name)
	return ok
}

func (c *Catalog) find(ref Ref, name string) (s *shelf, at int, ok bool) {
	if s = c.shelf(ref.Digest); s == nil || !ref.Tools.Allows(name) {
		return nil, 0, false
	}
	at, ok = s.at[name]
	return s, at, ok
}

func (c *Catalog) shelf(digest string) *shelf {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.shelves[digest]
}
