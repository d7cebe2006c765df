package discovery

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lithammer/fuzzysearch/fuzzy"
)

// alike returns the known words that are nearest to one that nobody has:
// those at the smallest edit distance, or else those that it starts.
func (s *search) alike(word string) []string {
	length := utf8.RuneCountInString(word)
	if length < 3 {
		return nil
	}
	a := &aligner{word: word, length: length, letters: letterSet(word), nearest: 1 + length/6, seen: map[string]bool{},
		known: func(term string) bool { return s.frequency(term) > 0 }}
	if length == 3 {
		a.nearest = 0 // in short words one letter makes another word
	}
	for text, t := range s.catalog.vocabulary {
		a.lookAt(text, t.letters)
	}
	for _, l := range s.lanes {
		for name := range l.name {
			a.lookAt(name, letterSet(name))
		}
	}
	found := a.found
	if len(found) == 0 {
		found = a.starts
	}
	slices.SortFunc(found, func(x, y string) int {
		return cmp.Or(-cmp.Compare(s.frequency(x), s.frequency(y)), cmp.Compare(x, y))
	})
	return found[:min(len(found), maxTypoTerms)]
}

// An aligner collects the terms that are nearest to a word.
type aligner struct {
	word    string
	length  int
	letters uint64
	nearest int // the largest distance of interest
	seen    map[string]bool
	known   func(term string) bool // whether any tool of the search has it
	found   []string               // at distance nearest, once any is
	starts  []string               // that word starts
}

// lookAt considers a term. Most are too far from the word to need a closer look:
// each edit changes at most one letter on either side.
func (a *aligner) lookAt(term string, letters uint64) {
	if bits.OnesCount64(letters^a.letters) <= 2*a.nearest {
		a.compare(term)
	}
	a.start(term)
}

// start keeps a term that the word is the start of.
func (a *aligner) start(term string) {
	if strings.HasPrefix(term, a.word) && a.known(term) && !slices.Contains(a.starts, term) {
		a.starts = append(a.starts, term)
	}
}

// compare keeps a term that is as near as the nearest so far.
func (a *aligner) compare(term string) {
	if diff := utf8.RuneCountInString(term) - a.length; max(diff, -diff) > a.nearest || a.seen[term] {
		return
	}
	a.seen[term] = true
	switch d := distance(a.word, term); {
	case d > a.nearest || !a.known(term):
	case d < a.nearest || len(a.found) == 0:
		a.nearest, a.found = d, []string{term}
	default:
		a.found = append(a.found, term)
	}
}

// distance is the edit distance, where two neighbours in the wrong order are
// one edit.
func distance(a, b string) int {
	d := fuzzy.LevenshteinDistance(a, b)
	if d == 2 && isSwap(a, b) {
		return 1
	}
	return d
}

// isSwap reports whether a and b differ by two neighbouring bytes that
// changed places.
func isSwap(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}
