package discovery

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/bridged/bridged/pkg/meaning"
)

// productsFile says of well-known products what they are: lines of names, a
// colon, and words.
//
//go:embed products.txt
var productsFile string

// A product is one name that servers and tools bear.
type product struct {
	name  []string // stems
	about string   // what it is
}

// products returns the products by the first stem of their names.
var products = sync.OnceValue(func() map[string][]product {
	all := map[string][]product{}
	for line := range knowledge(productsFile) {
		names, about, _ := strings.Cut(line, ": ")
		for name := range strings.SplitSeq(names, ", ") {
			stems := words(name, maxQuery)
			all[stems[0]] = append(all[stems[0]], product{stems, about})
		}
	}
	return all
})

// knowledge yields the lines of one of our files without blank ones and
// comments.
func knowledge(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' && !yield(line) {
				return
			}
		}
	}
}

// aboutProducts says what the products are whose names are in a text.
func aboutProducts(text string) string {
	var about []string
	stems := words(text, maxQueryWords)
	for _, first := range stems {
		for _, p := range products()[first] {
			if containsAll(stems, p.name) {
				about = append(about, p.about)
			}
		}
	}
	return strings.Join(about, " ")
}

func containsAll(stems, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(stems, w) })
}

// A bearing is what a server's name says about its tools. It never changes.
type bearing struct {
	name  map[string]bool // its words
	about map[string]bool // words for the products that it names
	all   []string        // both, each once
	means meaning.Vector  // the sum of both; not of unit length
}

// bearing returns what a server's name says.
func (c *Catalog) bearing(server string) *bearing {
	known, _ := c.bearings.Load(server)
	if b, ok := known.(*bearing); ok {
		return b
	}
	about := aboutProducts(server)
	b := &bearing{name: setOf(words(server, maxQueryWords)), about: setOf(words(about, maxQuery))}
	b.all = distinct(append(words(server, maxQueryWords), words(about, maxQuery)...))
	for _, text := range []string{server, about} {
		v := meanWords(text, maxQueryWords)
		b.means.Add(&v, 1)
	}
	c.bearings.Store(server, b)
	return b
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, w := range list {
		set[w] = true
	}
	return set
}

// share is how much of a word a tool has by its server's name.
func (b *bearing) share(word string) float64 {
	if b.name[word] {
		return serverWeight
	}
	if b.about[word] {
		return productWeight
	}
	return 0
}
