package meaning

import (
	"strings"
	"unicode"
)

// maxWord bounds a word in bytes. Longer ones, such as keys and hashes, mean
// nothing.
const maxWord = 40

// fields returns the first words of a text, in lower case.
func fields(text string, limit int) []string {
	var out []string
	for word := range strings.FieldsFuncSeq(text, isSeparator) {
		if len(out) == limit {
			break
		}
		if len(word) <= maxWord {
			out = append(out, strings.ToLower(word))
		}
	}
	return out
}

func isSeparator(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// pieces cuts a word into the longest pieces that are known, from the left. A
// word of which any part is unknown has none, and neither has one that falls
// into crumbs, as names of machines and misspelt words do: those would mean
// something by accident.
func (t *pieceTable) pieces(word string) []int32 {
	var out []int32
	prefix, most := "", len(word)/2
	for word != "" {
		end := min(len(word), t.longest)
		for ; end > 0; end-- {
			if p, ok := t.at[prefix+word[:end]]; ok {
				out = append(out, p)
				break
			}
		}
		if end == 0 || len(out) > most {
			return nil
		}
		word, prefix = word[end:], "##"
	}
	return out
}
