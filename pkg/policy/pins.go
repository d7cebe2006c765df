package policy

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxPinned bounds the servers whose tools are pinned. Past it the one that
	// was not seen for longest is forgotten.
	maxPinned = 512

	// maxPinnedTools bounds the tools of one server, as its list is bounded.
	maxPinnedTools = 10_000

	// maxKept bounds what is kept of one server's definitions, to tell what has
	// changed, in bytes. Of further tools only that they have changed is known.
	maxKept = 512 << 10
)

// Pins remember the definitions of tools: what a server says that a tool does
// when it is first seen is what a person has agreed to use. Make them with
// [NewPins] or [OpenPins].
type Pins struct {
	strict bool
	save   func([]byte) error // nil keeps them in memory

	saving sync.Mutex // held while save runs; taken before mu

	mu      sync.Mutex // guards servers and what it holds
	servers map[string]*pinnedServer
}

// A pinnedServer is one server, under a key that outlives restarts.
type pinnedServer struct {
	Name  string                `json:"name"`
	Seen  time.Time             `json:"seen"` // last
	Tools map[string]pinnedTool `json:"tools"`
}

type pinnedTool struct {
	Accepted edition  `json:"accepted"`
	Now      *edition `json:"now,omitempty"` // nil while it is the accepted one
}

// An edition is a tool's definition at some time.
type edition struct {
	Hash       string          `json:"hash"`
	Since      time.Time       `json:"since"`
	Definition json.RawMessage `json:"definition,omitempty"` // the parts that count; may not be kept
}

// NewPins returns pins that last as long as the process. Strict ones refuse
// tools that have changed.
func NewPins(strict bool) *Pins {
	return &Pins{strict: strict, servers: map[string]*pinnedServer{}}
}

// A Change is a tool whose definition is another than the accepted one.
type Change struct {
	Server, Tool string
	Since        time.Time
	Parts        []Part // empty when the definitions were too large to keep
}

// See takes in a server's list of tools, and returns the names of those that
// have changed since the list before. Tools that were never seen are accepted
// as they are. key says which server it is; name is what a person calls it. The
// error is of saving: the pins hold in memory all the same.
func (p *Pins) See(key, name string, tools map[string]json.RawMessage) (changed []string, err error) {
	names := slices.Sorted(maps.Keys(tools))
	editions := make([]edition, len(names))
	for i, tool := range names {
		editions[i] = editionOf(tools[tool])
	}
	p.mu.Lock()
	s, news := p.serverLocked(key, name)
	room := maxKept - s.kept()
	for i, tool := range names {
		had, known := s.Tools[tool]
		if !known && len(s.Tools) >= maxPinnedTools {
			continue
		}
		now, different := had.look(editions[i], &room)
		if !different && known {
			continue
		}
		news = true
		s.Tools[tool] = now
		if now.Now != nil {
			changed = append(changed, tool)
		}
	}
	p.mu.Unlock()
	if !news {
		return nil, nil
	}
	return changed, p.store()
}

// serverLocked returns the server of a key, and reports whether it is a new one.
func (p *Pins) serverLocked(key, name string) (*pinnedServer, bool) {
	s, ok := p.servers[key]
	if !ok {
		p.forgetLocked(maxPinned - 1)
		s = &pinnedServer{Tools: map[string]pinnedTool{}}
		p.servers[key] = s
	}
	s.Name, s.Seen = name, time.Now().UTC()
	return s, !ok
}

func (p *Pins) forgetLocked(n int) {
	for len(p.servers) > n {
		oldest := ""
		for key, s := range p.servers {
			if oldest == "" || s.Seen.Before(p.servers[oldest].Seen) {
				oldest = key
			}
		}
		delete(p.servers, oldest)
	}
}

// kept is what is kept of the definitions, in bytes.
func (s *pinnedServer) kept() int {
	n := 0
	for _, t := range s.Tools {
		n += len(t.Accepted.Definition)
		if t.Now != nil {
			n += len(t.Now.Definition)
		}
	}
	return n
}

// look returns the pin after a definition was seen, and reports whether that is
// another pin.
func (t pinnedTool) look(now edition, room *int) (pinnedTool, bool) {
	switch {
	case t.Accepted.Hash == "":
		return pinnedTool{Accepted: now.within(room)}, true
	case now.Hash == t.Accepted.Hash:
		was := t.Now != nil
		t.Now = nil
		return t, was
	case t.Now != nil && now.Hash == t.Now.Hash:
		return t, false
	}
	now = now.within(room)
	t.Now = &now
	return t, true
}

// Refuses reports whether a tool must not be used: it has changed, and the pins
// are strict.
func (p *Pins) Refuses(key, tool string) bool {
	if !p.strict {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.servers[key]
	return s != nil && s.Tools[tool].Now != nil
}

// Name returns what a server's pins are under for a person: when two names mean
// one server, the one that its tools were last listed for.
func (p *Pins) Name(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.servers[key]; s != nil {
		return s.Name
	}
	return ""
}

// Strict reports whether tools that have changed are refused.
func (p *Pins) Strict() bool { return p.strict }

// Changed returns the names of a server's tools that have changed, sorted.
func (p *Pins) Changed(key string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	if s := p.servers[key]; s != nil {
		for tool, t := range s.Tools {
			if t.Now != nil {
				list = append(list, tool)
			}
		}
	}
	slices.Sort(list)
	return list
}

// Changes returns all tools that have changed, by server and tool.
func (p *Pins) Changes() []Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []Change{}
	for _, s := range p.servers {
		for tool, t := range s.Tools {
			if t.Now != nil {
				list = append(list, Change{s.Name, tool, t.Now.Since, parts(t.Accepted.Definition, t.Now.Definition)})
			}
		}
	}
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool), a.Since.Compare(b.Since))
	})
	return list
}

// Accept takes a server's tool as it is now for the accepted one, all of them if
// tool is empty, and returns how many there were.
func (p *Pins) Accept(server, tool string) (int, error) {
	p.mu.Lock()
	n := 0
	for _, s := range p.servers {
		if s.Name != server {
			continue
		}
		for name, t := range s.Tools {
			if t.Now != nil && (tool == "" || tool == name) {
				s.Tools[name] = pinnedTool{Accepted: *t.Now}
				n++
			}
		}
	}
	p.mu.Unlock()
	if n == 0 {
		return 0, nil
	}
	return n, p.store()
}
