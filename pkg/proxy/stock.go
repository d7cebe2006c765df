package proxy

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/discovery"
)

const (
	// DefaultCatalogAge is how old a list of tools gets before it is asked for
	// anew in the background.
	DefaultCatalogAge = 24 * time.Hour

	// againAfter is the least time between two such attempts.
	againAfter = time.Hour

	// saveLessons is how often what was learnt of results is kept.
	saveLessons = 10 * time.Minute
)

// A stock is what the proxy knows of the lists in the catalogue: where they come
// from, how old they are, and whether their servers still stand behind them. It
// fills the catalogue from the disk, where there is an archive. It is safe for
// concurrent use; its locks are taken last.
type stock struct {
	archive *discovery.Archive // nil keeps nothing
	catalog *discovery.Catalog
	age     time.Duration
	log     zerolog.Logger

	doors [16]sync.Mutex // by digest; held while the catalogue is filled or a file written, taken before mu

	mu    sync.Mutex // guards the fields below
	lists map[string]*stocked
}

// A stocked is one list of the catalogue's.
type stocked struct {
	name, version string    // what the server says that it is
	listed        time.Time // when the server gave the list
	warning       string    // why it may be incomplete
	borrowed      bool      // it is of a definition that is written alike
	confirmed     bool      // a server of this proxy's has given it
	tried         time.Time // of the last attempt to have it anew
	stale         string    // why the server does not stand behind it; empty if it does
	since         time.Time // when that began
}

func newStock(o Options) *stock {
	return &stock{archive: o.Archive, catalog: o.Catalog, age: o.CatalogAge, log: o.Logger, lists: map[string]*stocked{}}
}

func (s *stock) door(digest string) *sync.Mutex {
	if digest == "" {
		return &s.doors[0]
	}
	return &s.doors[digest[0]%16]
}

// has reports whether the catalogue has a definition's tools, which may come
// from the disk now: its own, or else those of one that is written alike and came
// to another in another environment. These do until its own server is asked,
// before the first call or soon.
func (s *stock) has(digest, written string) bool {
	ref := discovery.Ref{Digest: digest}
	if _, ok := s.catalog.Count(ref); ok || s.archive == nil {
		return ok
	}
	door := s.door(digest)
	door.Lock()
	defer door.Unlock()
	if _, ok := s.catalog.Count(ref); ok {
		return true
	}
	kept, err := s.archive.Load(digest)
	if errors.Is(err, fs.ErrNotExist) {
		kept, err = s.archive.LoadLike(written)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn().Err(err).Msg("read kept tools")
		}
		return false
	}
	tools, _ := discovery.ParseTools(kept.Tools) // what was odd about them was told when they were listed
	s.catalog.Put(digest, tools)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[digest] = &stocked{
		name: kept.Name, version: kept.Version, listed: kept.Listed, warning: kept.Warning, borrowed: kept.Digest != digest,
	}
	return true
}

// put takes in a list that a server has given, in place of
// the one before.
func (s *stock) put(kept discovery.KeptList, tools []discovery.Tool) {
	door := s.door(kept.Digest)
	door.Lock()
	defer door.Unlock()
	s.catalog.Put(kept.Digest, tools)
	s.mu.Lock()
	s.lists[kept.Digest] = &stocked{
		name: kept.Name, version: kept.Version, listed: kept.Listed, warning: kept.Warning, confirmed: true, tried: kept.Listed,
	}
	s.mu.Unlock()
}

// save keeps a list on disk, unless there is a newer one by now.
func (s *stock) save(kept discovery.KeptList) {
	if s.archive == nil {
		return
	}
	door := s.door(kept.Digest)
	door.Lock()
	defer door.Unlock()
	s.mu.Lock()
	now := s.lists[kept.Digest]
	s.mu.Unlock()
	if now == nil || now.listed.After(kept.Listed) {
		return
	}
	if err := s.archive.Save(kept); err != nil {
		s.log.Warn().Str("server", kept.Server).Err(err).Msg("keep tools")
	}
}

// clear forgets a definition's tools, on disk too.
func (s *stock) clear(digest string) error {
	door := s.door(digest)
	door.Lock()
	defer door.Unlock()
	s.drop(digest)
	if s.archive == nil {
		return nil
	}
	return s.archive.Drop(digest)
}

// unlearn forgets what was learnt of all results, and drops what else is on disk.
func (s *stock) unlearn() error {
	s.catalog.Unlearn()
	if s.archive == nil {
		return nil
	}
	_, err := s.archive.Clear()
	return err
}

// version says which version of itself the server has listed.
func (s *stock) version(digest string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lists[digest]; l != nil {
		return l.version
	}
	return ""
}

// A holding is a list of the stock's, as one can tell of it.
type holding struct {
	discovery.KeptList        // without its tools
	stale              string // see [stock.stale]
	borrowed           bool
}

// holdings returns the lists in the catalogue and those on disk, by digest.
func (s *stock) holdings() (map[string]holding, error) {
	all := map[string]holding{}
	var err error
	if s.archive != nil {
		var kept []discovery.KeptList
		kept, err = s.archive.Lists()
		for _, k := range kept {
			all[k.Digest] = holding{KeptList: k}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for digest, l := range s.lists {
		h := all[digest]
		h.Digest, h.Name, h.Version, h.Listed, h.Warning = digest, l.name, l.version, l.listed, l.warning
		h.stale, h.borrowed = l.staleness(), l.borrowed
		h.Count, _ = s.catalog.Count(discovery.Ref{Digest: digest})
		all[digest] = h
	}
	return all, err
}

// drop takes a definition's tools out of the catalogue. They stay on disk, which
// it does not wait for.
func (s *stock) drop(digest string) {
	s.catalog.Drop(digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lists, digest)
}

// failed takes in that a server can't be started, or does not list its tools.
func (s *stock) failed(digest string, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lists[digest]
	if l == nil {
		return // there is nothing that could be stale
	}
	if l.stale == "" {
		l.since = time.Now()
	}
	l.stale = clip(why, quoteBytes)
}

// stale says since when a list is not to be relied on, and why; empty if it is.
func (s *stock) stale(digest string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lists[digest]; l != nil {
		return l.staleness()
	}
	return ""
}

func (l *stocked) staleness() string {
	if l.stale == "" {
		return ""
	}
	return l.stale + ", since " + l.since.UTC().Format(time.RFC3339) + "; the tools are those of " + l.listed.UTC().Format(time.RFC3339)
}

// confirmed reports whether the catalogue's list was given by a server of this
// proxy's, and not by one of a daemon before.
func (s *stock) confirmed(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lists[digest]
	return l != nil && l.confirmed
}

// doubts reports whether a server that was started now should be asked for its
// tools although nobody needs them yet.
func (s *stock) doubts(digest string, c card) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lists[digest]
	return l != nil && (!l.confirmed || l.stale != "" || l.name != c.name || l.version != c.version || s.oldLocked(l))
}

func (s *stock) oldLocked(l *stocked) bool {
	return s.age != Never && time.Since(l.listed) > s.age
}

// due reports whether a list is so old, or not the server's own, that it should
// be asked for anew. It says so once for each attempt.
func (s *stock) due(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lists[digest]
	if l == nil || !l.borrowed && !s.oldLocked(l) || time.Since(l.tried) < min(againAfter, s.age) {
		return false
	}
	l.tried = time.Now()
	return true
}

// keepLessons keeps what is learnt of results until the proxy is closed.
func (p *Proxy) keepLessons() {
	s := p.stock
	if err := s.archive.LoadLearnt(s.catalog); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn().Err(err).Msg("read what was learnt of results")
	}
	tick := time.NewTicker(saveLessons)
	defer tick.Stop()
	for p.ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-p.ctx.Done():
		}
		if err := s.archive.SaveLearnt(s.catalog); err != nil {
			s.log.Warn().Err(err).Msg("keep what was learnt of results")
		}
	}
}
