package discovery

import (
	"strings"

	"github.com/bridged/bridged/pkg/meaning"
)

// What each part of a tool adds to its meaning, and how many words of it are
// read: the first sentences say what a tool does, later ones how.
const (
	meaningOfName        = 0.5
	meaningOfTitle       = 0.2
	meaningOfDescription = 1.0
	meaningOfParams      = 0.1
	meaningOfServer      = 0.2

	meaningWords = 40

	// meaningWorth is what a tool that means the same as the query, or as its
	// deeds, gets, where one that has all of the query's words gets 1.
	meaningWorth = 1.4

	// meaningFloor is how near a tool's meaning must be to count at all. Texts
	// that have nothing to do with each other are seldom nearer.
	meaningFloor = 0.3
)

// meaningOf returns what a tool's texts have in common.
func meaningOf(t Tool) meaning.Vector {
	var sum meaning.Vector
	add := func(text string, weight float32) {
		v := meanWords(text, meaningWords)
		sum.Add(&v, weight)
	}
	add(t.Name, meaningOfName)
	add(t.Title, meaningOfTitle)
	add(t.Description, meaningOfDescription)
	var params strings.Builder
	for _, p := range t.Params[:min(len(t.Params), meaningWords)] {
		params.WriteString(p.Name + " ")
	}
	add(params.String(), meaningOfParams)
	sum.Normalize()
	return sum
}

// meanWords returns the meaning of a text's first words.
func meanWords(text string, limit int) meaning.Vector {
	return meaning.Of(strings.Join(plainWords(text, limit), " "), limit)
}
