package discovery

// A whereabouts says where among a search's tools a word is.
type whereabouts struct {
	spots []spot
	tools int // that have the word
}

// A spot is a server that has a word: some of its tools, or, by its name, all.
type spot struct {
	lane     *lane
	share    float64   // how much every tool has the word by the server's name
	postings []posting // the tools that have it themselves
}

// take makes a server part of a search.
func (s *search) take(l *lane) {
	s.lanes = append(s.lanes, l)
	s.byIndex[l.index] = append(s.byIndex[l.index], l)
	for _, w := range l.all {
		s.byName[w] = append(s.byName[w], l)
	}
}

// find returns where a word is. Words are asked for often, so it is kept.
func (s *search) find(word string) *whereabouts {
	if p, ok := s.places[word]; ok {
		return p
	}
	p := &whereabouts{}
	named := s.byName[word]
	for _, l := range named {
		p.spots = append(p.spots, spot{l, l.share(word), l.index.postings[word]})
		p.tools += len(l.tools)
	}
	for _, h := range s.catalog.vocabulary.holders(word) {
		for _, l := range s.byIndex[h.index] {
			if len(named) == 0 || l.share(word) == 0 {
				p.spots = append(p.spots, spot{l, 0, h.postings})
				p.tools += len(h.postings)
			}
		}
	}
	s.places[word] = p
	return p
}

// tally adds to the sums what each tool has of a word, and counts the tools that
// have it.
func (sp spot) tally(rarity float64) {
	l, least := sp.lane, rarity*saturate(sp.share)
	if sp.share > 0 {
		for i := range l.sum {
			l.sum[i] += least
			l.found[i]++
		}
	}
	for _, p := range sp.postings {
		l.sum[p.doc] += rarity*saturate(sp.share+float64(p.weight)) - least
		if sp.share == 0 {
			l.found[p.doc]++
		}
	}
}
