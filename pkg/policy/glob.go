package policy

import "strings"

// A glob is a pattern in which * stands for any text and ? for one character,
// slashes included. Everything else is itself, in its case.
type glob string

// match reports whether all of text is what g says. It takes time in the
// product of both lengths at worst.
func (g glob) match(text string) bool {
	pattern, rest := []rune(string(g)), []rune(text)
	star, mark := -1, 0 // where to go back to: one character more for the last *
	p, t := 0, 0
	for t < len(rest) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == rest[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchAny reports whether one of the globs matches; none at all match
// everything.
func matchAny(globs []string, text string) bool {
	for _, g := range globs {
		if glob(g).match(text) {
			return true
		}
	}
	return len(globs) == 0
}

// matchFolder is matchAny for a folder: a glob that matches a folder matches
// what lies in it too.
func matchFolder(globs []string, folder string) bool {
	for _, g := range globs {
		g = strings.TrimRight(g, "/")
		if glob(g).match(folder) || glob(g+"/*").match(folder) {
			return true
		}
	}
	return len(globs) == 0
}
