package proxy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentenceBytes bounds the first sentence of a description.
const sentenceBytes = 200

// firstSentence returns what a description says first, on one line: as a rule
// that tells whether a tool is the one that is wanted. It ends before an empty
// line, a list or a heading, too.
func firstSentence(text string) string {
	words := strings.Fields(firstParagraph(text))
	end := len(words)
	for i, w := range words {
		if endsSentence(w) && (i+1 == len(words) || beginsSentence(words[i+1])) {
			end = i + 1
			break
		}
	}
	return clip(strings.Join(words[:end], " "), sentenceBytes)
}

// firstParagraph returns the lines of text up to one that begins something else.
func firstParagraph(text string) string {
	var kept []string
	for line := range strings.Lines(clip(strings.TrimSpace(text), summaryBytes)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", len(kept) > 0 && beginsBlock(line):
			return strings.Join(kept, "\n")
		}
		kept = append(kept, strings.TrimLeft(line, "# "))
	}
	return strings.Join(kept, "\n")
}

// beginsBlock reports whether a line is an item of a list, a heading or a tag.
func beginsBlock(line string) bool {
	r, _ := utf8.DecodeRuneInString(line)
	return strings.ContainsRune("-*•#<|`", r) || unicode.IsDigit(r) || strings.HasSuffix(line, ":")
}

// endsSentence reports whether a word ends one, as far as the word tells.
func endsSentence(word string) bool {
	word = strings.TrimRight(word, `)"'*`+"`")
	last, _ := utf8.DecodeLastRuneInString(word)
	if !strings.ContainsRune(".!?。", last) {
		return false
	}
	inner := strings.TrimSuffix(word, ".")
	return !strings.Contains(inner, ".") || strings.ContainsAny(inner, "/_(") // e.g. "e.g."
}

// beginsSentence reports whether a word can follow the end of one.
func beginsSentence(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return !unicode.IsLower(r)
}
