// Package tokens counts what text costs a model, and cuts text that costs too
// much where that hurts least.
//
// Tokens are those of o200k_base, with two liberties that bound the work: text
// is counted in pieces of at most 256 bytes, which finds at most a few more
// tokens than there are, and eight bytes count as one token at the least, since
// what is all blanks costs a model little and still tells nothing. So whether a
// text fits a budget is found out by looking at eight bytes for each token of
// the budget, however long it is, and no text takes more than linear time.
//
// [Fit] shares a budget among texts and cuts those that are too long: nested
// data (JSON, or what Python's repr writes) to fewer items, shorter strings and
// less depth, all else by whole lines in the middle. The first use loads the
// vocabulary, some 10 MB; texts with fewer bytes than the budget has tokens
// don't need it.
package tokens

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

const (
	// perToken is how many bytes count as one token at the least.
	perToken = 8

	// maxPiece bounds what is counted in one go, in bytes: a long run of one
	// kind of character takes the tokenizer quadratic time.
	maxPiece = 256
)

var vocabulary = sync.OnceValue(codec.NewO200kBase)

// Count returns how many tokens text costs.
func Count(text string) int {
	n := 0
	for len(text) > 0 {
		p := front(text)
		n += weigh(p)
		text = text[len(p):]
	}
	return n
}

// Fits reports whether text costs at most limit tokens.
func Fits(text string, limit int) bool { return measure(text, limit) <= limit }

// measure returns what text costs, or, if that is more than limit, some number
// above limit.
func measure(text string, limit int) int {
	switch {
	case len(text) == 0:
		return 0
	case len(text) > perToken*limit:
		return limit + 1
	}
	n := 0
	for len(text) > 0 && n <= limit {
		p := front(text)
		n += weigh(p)
		text = text[len(p):]
	}
	return n
}

// fits is Fits, without counting where the bytes tell.
func fits(text string, limit int) bool { return len(text) <= limit || Fits(text, limit) }

// weigh counts a piece.
func weigh(piece string) int {
	n, err := vocabulary().Count(piece)
	if err != nil {
		n = len(piece) // a token has a byte at the least
	}
	return max(n, (len(piece)+perToken-1)/perToken)
}

// front returns the first piece of text: a line or, of a long one, some words.
func front(text string) string {
	window := text[:min(len(text), maxPiece)]
	if i := strings.IndexByte(window, '\n'); i >= 0 {
		return text[:i+1]
	}
	if len(text) <= maxPiece {
		return text
	}
	if i := strings.LastIndexByte(window, ' '); i > 0 {
		return text[:i] // a token begins with its blank
	}
	return text[:boundary(text, maxPiece)]
}

// back returns the last piece of text.
func back(text string) string {
	from := max(len(text)-maxPiece, 0)
	if i := strings.LastIndexByte(text[from:len(text)-1], '\n'); i >= 0 {
		return text[from+i+1:]
	}
	if from == 0 {
		return text
	}
	if i := strings.IndexByte(text[from:], ' '); i >= 0 {
		return text[from+i:]
	}
	if at := boundary(text, from+utf8.UTFMax-1); at > from {
		return text[at:]
	}
	return text[from:]
}

// boundary returns the start of the character that has the byte at, or at
// itself where no character of at most utf8.UTFMax bytes has it.
func boundary(text string, at int) int {
	if at >= len(text) {
		return len(text)
	}
	for i := at; i >= 0 && i > at-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			return i
		}
	}
	return at
}

// head returns how many bytes at the start of text cost at most limit tokens.
func head(text string, limit int) int {
	n := 0
	for n < len(text) {
		p := front(text[n:])
		cost := weigh(p)
		if cost > limit {
			return n + boundary(p, len(p)*max(limit, 0)/cost)
		}
		limit -= cost
		n += len(p)
	}
	return n
}

// tail returns how many bytes at the end of text cost at most limit tokens.
func tail(text string, limit int) int {
	n := 0
	for n < len(text) {
		p := back(text[:len(text)-n])
		cost := weigh(p)
		if cost > limit {
			at := len(p) - len(p)*max(limit, 0)/cost
			for at < len(p) && !utf8.RuneStart(p[at]) {
				at++
			}
			return n + len(p) - at
		}
		limit -= cost
		n += len(p)
	}
	return n
}
