package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/bridged/bridged/pkg/discovery"
)

// A Saved is a function that code has saved, which code calls by its name.
type Saved struct {
	Name        string
	Signature   string // in Python, on one line
	Description string
	Problem     string
}

// savedServer stands for the server that saved functions have not: no server is
// named so.
const savedServer = ""

// A savedShelf is the saved functions in the catalogue, as one session has them.
type savedShelf struct {
	ref  discovery.Ref
	docs map[string]Saved // by name
}

// A savedStock keeps saved functions in the catalogue. They are mostly the same
// for all sessions, so the last that were searched are kept.
type savedStock struct {
	mu     sync.Mutex // guards digest
	digest string     // of what the catalogue has
}

// saved puts the saved functions into the catalogue, unless it has them.
func (s *Session) saved() savedShelf {
	shelf := savedShelf{docs: map[string]Saved{}}
	if s.opts.Saved == nil {
		return shelf
	}
	list := s.opts.Saved()
	var raws []json.RawMessage
	sum := sha256.New()
	for _, f := range list {
		shelf.docs[f.Name] = f
		raw, err := json.Marshal(map[string]string{"name": f.Name, "description": f.Description})
		if err != nil {
			continue // no text can do that
		}
		raws = append(raws, raw)
		fmt.Fprintf(sum, "%s\n", raw)
	}
	shelf.ref = discovery.Ref{Digest: "saved functions " + hex.EncodeToString(sum.Sum(nil)), Server: savedServer}
	s.proxy.saved.put(s.proxy.opts.Catalog, shelf.ref.Digest, raws)
	return shelf
}

func (k *savedStock) put(catalog *discovery.Catalog, digest string, raws []json.RawMessage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.digest == digest {
		return
	}
	tools, _ := discovery.ParseTools(raws)
	catalog.Put(digest, tools)
	catalog.Drop(k.digest)
	k.digest = digest
}

// doc describes one that a search has found.
func (k savedShelf) doc(m discovery.Match, full bool) doc {
	f := k.docs[m.Tool.Name]
	d := doc{
		Tool: f.Name, ToolAlias: f.Name, Description: f.Description, Signature: f.Signature, Problem: f.Problem,
		Params: []param{}, Loose: true, Score: &m.Score, Why: m.Why, Saved: true,
	}
	if !full {
		d.Description = firstSentence(d.Description)
	}
	return d
}
