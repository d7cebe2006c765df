package discovery

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lithammer/fuzzysearch/fuzzy"
)

// maxNearestName bounds the names that are compared; longer ones are no typo.
const maxNearestName = 200

// Nearest returns at most n of names that someone who wrote name may have
// meant, nearest first, for an error message to suggest. Case and separators
// do not count. It returns nothing rather than names that have nothing in
// common with name.
func Nearest(name string, names []string, n int) []string {
	type near struct {
		name string
		far  int
	}
	if len(name) > maxNearestName || n <= 0 {
		return nil
	}
	wanted := plain(name)
	var found []near
	for _, candidate := range names {
		if far, ok := farness(wanted, candidate); ok {
			found = append(found, near{candidate, far})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name))
	})
	found = slices.Compact(found)
	var out []string
	for _, f := range found[:min(len(found), n)] {
		out = append(out, f.name)
	}
	return out
}

// farness ranks a candidate: edits first when there are few, then names that
// contain the wanted one, letter by letter.
func farness(wanted, candidate string) (far int, ok bool) {
	if len(candidate) > maxNearestName || wanted == "" {
		return 0, false
	}
	other := plain(candidate)
	length := utf8.RuneCountInString(wanted)
	if d := distance(wanted, other); d <= max(1, length/3) && d < length {
		return d, true
	}
	if length < 3 {
		return 0, false
	}
	if strings.Contains(other, wanted) || len(other) > 2 && strings.Contains(wanted, other) {
		return 1000 + len(other), true
	}
	if rank := fuzzy.RankMatch(wanted, other); rank >= 0 && rank <= 3*length {
		return 2000 + rank, true
	}
	return 0, false
}

// plain drops what people get wrong most: case and separators.
func plain(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if isSeparator(r) {
			return -1
		}
		return r
	}, name))
}
