package discovery

import (
	"slices"
	"strings"

	"github.com/bridged/bridged/pkg/meaning"
)

// Fields of a tool that are searched. A posting says in which a word is.
const (
	inName = 1 << iota
	inTitle
	inParam
	inDescription
	inParamText
	inServer
	inProduct
)

// A searchField says how much a word in one field is worth.
type searchField struct {
	bit    uint8
	name   string
	weight float64
	usual  float64 // words in a usual field; longer ones count less
	bend   float64 // how strongly length counts, 0 to 1
	limit  int     // words that are read
}

var searchFields = []searchField{
	{inName, "name", 3, 3, 0.3, 40},
	{inTitle, "title", 1.5, 4, 0.3, 40},
	{inParam, "parameter", 0.8, 6, 0.4, 400},
	{inDescription, "description", 1, 25, 0.6, 400},
	{inParamText, "parameter text", 0.3, 40, 0.6, 800},
	{inProduct, "product", productWeight, 1, 0, 40},
}

const (
	serverWeight  = 1.2 // what a word of the server's name is worth
	productWeight = 1   // what a word for the product is worth that a name names
)

// A posting is one tool that has a word.
type posting struct {
	doc    int32   // index of the tool
	fields uint8   // where the word is
	weight float32 // how much it is there
}

// An index finds one server's tools by their words. It never changes.
type index struct {
	postings map[string][]posting // by stem, in the order of the tools
	names    []string             // the words of each tool's name, joined
	meanings []meaning.Vector     // of each tool
}

func newIndex(tools []Tool) *index {
	ix := &index{postings: map[string][]posting{}, names: make([]string, len(tools)), meanings: make([]meaning.Vector, len(tools))}
	for i, t := range tools {
		ix.add(int32(i), t)
		ix.meanings[i] = meaningOf(t)
	}
	return ix
}

func (ix *index) add(doc int32, t Tool) {
	found := map[string]posting{}
	for _, f := range searchFields {
		list := fieldWords(t, f)
		if f.bit == inName {
			ix.names[doc] = strings.Join(list, " ")
		}
		share := f.weight / (1 - f.bend + f.bend*float64(len(list))/f.usual)
		for _, w := range list {
			p := found[w]
			p.doc = doc
			p.fields |= f.bit
			p.weight += float32(share)
			found[w] = p
		}
	}
	for w, p := range found {
		ix.postings[w] = append(ix.postings[w], p)
	}
}

func fieldWords(t Tool, f searchField) []string {
	switch f.bit {
	case inName:
		return words(t.Name, f.limit)
	case inTitle:
		return words(t.Title, f.limit)
	case inDescription:
		return words(t.Description, f.limit)
	case inProduct:
		return distinct(words(aboutProducts(t.Name), f.limit))
	}
	var out []string
	for _, p := range t.Params {
		text := p.Name
		if f.bit == inParamText {
			text = p.Description
		}
		out = append(out, words(text, f.limit-len(out))...)
	}
	return out
}

// find returns a tool's posting of a word.
func (ix *index) find(word string, doc int32) (posting, bool) {
	list := ix.postings[word]
	at, ok := slices.BinarySearchFunc(list, doc, func(p posting, doc int32) int { return int(p.doc) - int(doc) })
	if !ok {
		return posting{}, false
	}
	return list[at], true
}
