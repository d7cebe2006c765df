package discovery

import (
	"slices"
	"sync"
)

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
	generation uint64
}

// A shelf is one server's tools and their index. It never changes.
type shelf struct {
	tools []Tool
	index *index
}

// NewCatalog returns an empty catalogue.
func NewCatalog() *Catalog {
	return &Catalog{shelves: map[string]*shelf{}}
}

// Put keeps a server's tools in place of those it had. The catalogue owns tools
// from then on.
func (c *Catalog) Put(digest string, tools []Tool) {
	s := &shelf{tools: tools, index: newIndex(tools)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shelves[digest] = s
	c.generation++
}

// Drop forgets a server's tools.
func (c *Catalog) Drop(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.shelves[digest]; ok {
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
	for _, t := range s.tools {
		if ref.Tools.Allows(t.Name) {
			t.Server = ref.Server
			tools = append(tools, t)
		}
	}
	return tools, true
}

// Tool returns one tool by its exact name.
func (c *Catalog) Tool(ref Ref, name string) (t Tool, ok bool) {
	s := c.shelf(ref.Digest)
	if s == nil || !ref.Tools.Allows(name) {
		return Tool{}, false
	}
	at := slices.IndexFunc(s.tools, func(t Tool) bool { return t.Name == name })
	if at < 0 {
		return Tool{}, false
	}
	t = s.tools[at]
	t.Server = ref.Server
	return t, true
}

func (c *Catalog) shelf(digest string) *shelf {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.shelves[digest]
}
