package discovery

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bridged/bridged/pkg/meaning"
)

const (
	// maxQuery bounds a query in bytes, and maxQueryWords in words. Text past
	// them is ignored: agents paste whole requests.
	maxQuery      = 1000
	maxQueryWords = 24

	// defaultLimit and maxLimit bound the matches of one search.
	defaultLimit = 5
	maxLimit     = 1000

	synonymWorth  = 0.45 // of a word's own worth
	typoWorth     = 0.7
	maxTypoTerms  = 3
	saturation    = 1.2 // how fast more of a word stops to count; BM25's k1
	exactNameGain = 1   // added when the query is the tool's name

	// ceilingWeight is how much of a word a tool has whose whole subject it is.
	ceilingWeight = 4
)

// A Match is a tool that a search found.
type Match struct {
	Tool  Tool
	Score float64  // higher is better; only comparable within one search
	Why   []string // what of the query was found where, for people
}

// Search returns the tools of the given servers that fit the query best, best
// first; equal ones are in the order of server and name. A limit of 0 or less
// means 5. Words count by how rare they are and where they are found (a tool's
// name before its description); everyday synonyms count less than the word
// itself, and a word that is found nowhere stands for those spelt most alike. A
// tool whose texts mean what the query does counts too, whatever its words, and
// so does one that does what people mean who say such things.
// An empty query returns the first tools in order. Servers that the catalogue
// does not have are left out.
func (c *Catalog) Search(query string, refs []Ref, limit int) []Match {
	return c.SearchBy(Ranking{}, query, refs, limit)
}

// A Ranking leaves out some of what [Catalog.Search] goes by. The zero value is
// all of it; the rest is there to measure what each is worth.
type Ranking struct {
	NoWords    bool // neither words nor what stands for them
	NoSynonyms bool
	NoSpelling bool
	NoMeaning  bool
	NoDeeds    bool // what people mean who say such things
}

// SearchBy is [Catalog.Search] by a part of what it goes by.
func (c *Catalog) SearchBy(r Ranking, query string, refs []Ref, limit int) []Match {
	if limit <= 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	c.mu.RLock() // a search takes few milliseconds, and sees one state of the catalogue
	defer c.mu.RUnlock()
	s := c.newSearch(refs)
	s.by = r
	query = clipQuery(query)
	asked := queryWords(query)
	if len(asked) == 0 {
		return s.first(limit)
	}
	s.spelt = wellSpelt(query)
	for _, w := range asked {
		s.score(w)
	}
	s.understand(query)
	return s.best(limit, asked)
}

// clipQuery bounds a query, at the border of a character.
func clipQuery(query string) string {
	if len(query) <= maxQuery {
		return query
	}
	cut := maxQuery
	for !utf8.RuneStart(query[cut]) {
		cut--
	}
	return query[:cut]
}

// queryWords returns the distinct stems of a query without fillers, unless it
// is made of nothing else.
func queryWords(query string) []string {
	all := words(query, maxQuery)
	var kept []string
	for _, w := range all {
		if !fillers[w] && !slices.Contains(kept, w) {
			kept = append(kept, w)
		}
	}
	if len(kept) == 0 {
		kept = all
	}
	return kept[:min(len(kept), maxQueryWords)]
}

// wellSpelt returns the stems of those words of a query that are words of
// English: that no tool has one makes it no misspelt form of another.
func wellSpelt(query string) map[string]bool {
	spelt := map[string]bool{}
	for _, w := range plainWords(query, maxQuery) {
		if len(w) > 3 && meaning.Knows(w) {
			spelt[stemWord(w)] = true
		}
	}
	return spelt
}

// A search is one query under way over some servers.
type search struct {
	catalog *Catalog
	by      Ranking
	lanes   []*lane
	total   int // tools in all lanes
	asked   []askedWord
	spelt   map[string]bool // stems of the query's words that are hardly misspelt
	ceiling float64         // the score by words of a tool that has all of the query
	deeds   []likelyDeed    // that the query may ask for, likeliest first

	places  map[string]*whereabouts // where words are that were looked for
	byIndex map[*index][]*lane
	byName  map[string][]*lane // by words of servers' names, and for what these name
}

// A lane is one server in a search.
type lane struct {
	*shelf
	*bearing
	ref     Ref
	scores  []float64 // by tool, by words
	near    []float32 // by tool, by meaning; 0 means too far
	doing   []float64 // by tool, by words of the deeds that the query may ask for
	sum     []float64 // of the deed under way, by tool
	found   []uint8   // words of the deed under way that were found, by tool
	matched []uint8   // words of the query found, by tool
	gain    []float64 // of the word under way, by tool
}

// A variant is a word that may stand for one of the query.
type variant struct {
	text  string
	worth float64 // 1 for the word itself
	how   string  // "", "synonym" or "spelling"
}

// An askedWord is a word of the query and the variants that were found.
type askedWord struct {
	text     string
	variants []variant
}

// newSearch starts a search. Its caller holds mu.
func (c *Catalog) newSearch(refs []Ref) *search {
	s := &search{catalog: c, places: map[string]*whereabouts{}, byIndex: map[*index][]*lane{}, byName: map[string][]*lane{}}
	seen := map[[2]string]bool{}
	for _, ref := range refs {
		sh := c.shelves[ref.Digest]
		id := [2]string{ref.Digest, ref.Server}
		if sh == nil || seen[id] {
			continue
		}
		seen[id] = true
		l := &lane{shelf: sh, ref: ref, bearing: c.bearing(ref.Server)}
		s.take(l)
		s.total += len(sh.tools)
	}
	slices.SortStableFunc(s.lanes, func(a, b *lane) int { return cmp.Compare(a.ref.Server, b.ref.Server) })
	return s
}

// first returns the first tools in the order of servers and their lists.
func (s *search) first(limit int) []Match {
	var out []Match
	for _, l := range s.lanes {
		for _, t := range l.tools {
			if len(out) == limit {
				return out
			}
			if l.ref.Tools.Allows(t.Name) {
				out = append(out, Match{Tool: s.catalog.as(t, l.ref)})
			}
		}
	}
	return out
}

// score adds one word of the query to every tool's score: for each tool the
// best of the word's variants counts, so that a tool that has several of them
// gains nothing over one that has the word.
func (s *search) score(word string) {
	a := askedWord{text: word, variants: s.variants(word)}
	s.asked = append(s.asked, a)
	s.ceiling += s.rarity(word) * saturate(ceilingWeight)
	for _, l := range s.lanes {
		if l.scores == nil {
			l.scores = make([]float64, len(l.tools))
			l.matched = make([]uint8, len(l.tools))
			l.gain = make([]float64, len(l.tools))
		}
		clear(l.gain)
	}
	for _, v := range a.variants {
		rarity := s.rarity(v.text) * v.worth
		for _, sp := range s.find(v.text).spots {
			sp.add(rarity)
		}
	}
	for _, l := range s.lanes {
		for i, gain := range l.gain {
			if gain > 0 {
				l.scores[i] += gain
				l.matched[i]++
			}
		}
	}
}

func (sp spot) add(rarity float64) {
	gain := sp.lane.gain
	if sp.share > 0 {
		for i := range gain {
			gain[i] = max(gain[i], rarity*saturate(sp.share))
		}
	}
	for _, p := range sp.postings {
		gain[p.doc] = max(gain[p.doc], rarity*saturate(sp.share+float64(p.weight)))
	}
}

func saturate(weight float64) float64 {
	return weight * (saturation + 1) / (weight + saturation)
}

// frequency counts the tools that have a word.
func (s *search) frequency(word string) int { return s.find(word).tools }

// rarity is BM25's inverse document frequency: a word that few tools have
// tells them apart.
func (s *search) rarity(word string) float64 {
	n := float64(s.frequency(word))
	return math.Log(1 + (float64(s.total)-n+0.5)/(n+0.5))
}

// variants returns what may stand for a word: itself and its synonyms as far
// as any tool has them, or else, unless it is a word of English, the words that
// are spelt most alike.
func (s *search) variants(word string) []variant {
	var out []variant
	if s.by.NoWords {
		return nil
	}
	if s.frequency(word) > 0 {
		out = append(out, variant{word, 1, ""})
	}
	for _, other := range synonyms[word] {
		if !s.by.NoSynonyms && s.frequency(other) > 0 && !slices.ContainsFunc(out, func(v variant) bool { return v.text == other }) {
			out = append(out, variant{other, synonymWorth, "synonym"})
		}
	}
	if len(out) > 0 || s.by.NoSpelling || s.spelt[word] {
		return out
	}
	for _, other := range s.alike(word) {
		out = append(out, variant{other, typoWorth, "spelling"})
	}
	return out
}

// A hit is a tool that has any of the query.
type hit struct {
	lane  *lane
	doc   int
	score float64
}

// before orders hits: score, then server, then name.
func before(a, b hit) int {
	if a.score != b.score {
		return -cmp.Compare(a.score, b.score)
	}
	return cmp.Or(cmp.Compare(a.lane.ref.Server, b.lane.ref.Server),
		cmp.Compare(a.lane.tools[a.doc].Name, b.lane.tools[b.doc].Name))
}

// best returns the tools with the highest scores.
func (s *search) best(limit int, asked []string) []Match {
	whole := strings.Join(asked, " ")
	var top []hit // sorted
	for _, l := range s.lanes {
		for i, score := range l.scores {
			if score == 0 && l.nearness(i) == 0 && l.doings(i) < deedLeast || !l.ref.Tools.Allows(l.tools[i].Name) {
				continue
			}
			h := hit{l, i, s.final(l, i, whole)}
			at, _ := slices.BinarySearchFunc(top, h, before)
			if at < limit {
				top = slices.Insert(top[:min(len(top), limit-1)], at, h)
			}
		}
	}
	var out []Match
	for _, h := range top {
		t := s.catalog.as(h.lane.tools[h.doc], h.lane.ref)
		out = append(out, Match{t, h.score, s.explain(h.lane, int32(h.doc))})
	}
	return out
}

// final returns a tool's score once every word has counted: the share of the
// query that it has by words, and how near it is by meaning. Tools that have more
// of the query's words come before those that have one of them often.
func (s *search) final(l *lane, doc int, whole string) float64 {
	score := l.scores[doc] / s.ceiling * (0.5 + 0.5*float64(l.matched[doc])/float64(len(s.asked)))
	if l.index.names[doc] == whole {
		score += exactNameGain
	}
	return score + meaningWorth*l.nearness(doc) + deedWords*l.doings(doc)
}

// nearness is how near a tool's meaning is to the query's; 0 means not at all.
func (l *lane) nearness(doc int) float64 {
	if l.near == nil {
		return 0
	}
	return float64(l.near[doc])
}

// doings is how much a tool has of the words of the query's deeds, 0 to 1.
func (l *lane) doings(doc int) float64 {
	if l.doing == nil {
		return 0
	}
	return l.doing[doc]
}

// explain says for each word of the query what stood for it in a tool.
func (s *search) explain(l *lane, doc int32) []string {
	var why []string
	for _, a := range s.asked {
		for _, v := range a.variants {
			fields := l.fieldsOf(v.text, doc)
			if fields == 0 {
				continue
			}
			text := a.text
			if v.how != "" {
				text += " as " + v.text + " (" + v.how + ")"
			}
			why = append(why, text+" in "+fieldNames(fields))
			break
		}
	}
	for _, d := range s.deeds {
		if s.by.NoWords {
			break
		}
		if has := l.some(d.words, doc); len(has) > 0 {
			why = append(why, "deed "+strings.Join(has, " "))
			break
		}
	}
	if near := l.nearness(int(doc)); near > 0 {
		why = append(why, fmt.Sprintf("meaning %.2f", near))
	}
	return why
}

func (l *lane) fieldsOf(word string, doc int32) uint8 {
	p, _ := l.index.find(word, doc)
	if l.share(word) > 0 {
		p.fields |= inServer
	}
	return p.fields
}

func fieldNames(fields uint8) string {
	var names []string
	for _, f := range searchFields {
		if fields&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	if fields&inServer != 0 {
		names = append(names, "server")
	}
	return strings.Join(names, ", ")
}
