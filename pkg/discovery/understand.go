package discovery

import (
	"slices"
	"strings"

	"github.com/bridged/bridged/pkg/meaning"
)

// understand finds how near every tool's meaning is to the query's, and what
// people may want done who say such a thing, and which tools do that.
func (s *search) understand(query string) {
	asked := s.meaningOf(query)
	if s.by.NoMeaning || asked == (meaning.Vector{}) {
		return
	}
	wanted := asked
	if !s.by.NoDeeds {
		s.deeds = deedsLike(&asked)
		for _, d := range s.deeds {
			wanted.Add(&d.means, float32(d.share))
			if !s.by.NoWords {
				s.seek(d)
			}
		}
	}
	for _, l := range s.lanes {
		l.mean(&asked, &wanted)
	}
}

// meaningOf returns the meaning of a query, whose misspelt words are put right.
func (s *search) meaningOf(query string) meaning.Vector {
	right := map[string]string{}
	for _, a := range s.asked {
		if len(a.variants) > 0 && a.variants[0].how == "spelling" {
			right[a.text] = a.variants[0].text
		}
	}
	list := plainWords(query, maxQueryWords)
	for i, w := range list {
		if r, ok := right[stemWord(w)]; ok {
			list[i] = r
		}
	}
	return meaning.Of(strings.Join(list, " "), maxQueryWords)
}

// mean finds how near the tools' meanings are to what is wanted. The name of the
// server counts a little, since a tool's own texts seldom say whose it is, and so
// does what is known of the product.
func (l *lane) mean(asked, wanted *meaning.Vector) {
	base := meaningOfServer * asked.Cosine(&l.means)
	l.near = make([]float32, len(l.tools))
	for i := range l.index.meanings {
		if near := base + wanted.Cosine(&l.index.meanings[i]); near > meaningFloor {
			l.near[i] = near
		}
	}
}

// seek adds to every tool how much of a deed's words it has. As for the words of
// a query, tools that have more of them come before those that have one often.
func (s *search) seek(d likelyDeed) {
	for _, l := range s.lanes {
		if l.doing == nil {
			l.doing, l.sum, l.found = make([]float64, len(l.tools)), make([]float64, len(l.tools)), make([]uint8, len(l.tools))
		}
		clear(l.sum)
		clear(l.found)
	}
	ceiling := 0.0
	for _, w := range d.words {
		rarity := s.rarity(w)
		ceiling += rarity * saturate(ceilingWeight)
		for _, sp := range s.find(w).spots {
			sp.tally(rarity)
		}
	}
	for _, l := range s.lanes {
		for i, n := range l.found {
			if n > 0 {
				l.doing[i] += d.share * l.sum[i] / ceiling * (0.5 + 0.5*float64(n)/float64(len(d.words)))
			}
		}
	}
}

// some returns those of some words that a tool has.
func (l *lane) some(words []string, doc int32) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return l.fieldsOf(w, doc) == 0 })
}
