package discovery

import (
	"strings"
	"unicode"
)

// words splits a text into its words, in lower case and stemmed: at
// separators, at changes of case (readTextFile, HTTPServer) and between letters
// and digits. A word that mixes letters and digits, such as s3, is there whole as
// well. Scripts that do not separate words give one word for each character.
// It stops after limit words.
func words(text string, limit int) []string {
	out := plainWords(text, limit)
	for i, w := range out {
		out[i] = stemWord(w)
	}
	return out
}

// plainWords is words without the stemming.
func plainWords(text string, limit int) []string {
	var out []string
	emit := func(word string) {
		if len(out) < limit {
			out = append(out, word)
		}
	}
	for _, chunk := range strings.FieldsFunc(text, isSeparator) {
		if len(out) >= limit {
			break
		}
		for _, part := range splitCase(chunk) {
			splitDigits(strings.ToLower(part), emit)
		}
	}
	return out
}

func isSeparator(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}

// splitCase splits before each capital that starts a word.
func splitCase(chunk string) []string {
	runes := []rune(chunk)
	var parts []string
	start := 0
	for i := 1; i < len(runes); i++ {
		if startsWord(runes, i) {
			parts = append(parts, string(runes[start:i]))
			start = i
		}
	}
	return append(parts, string(runes[start:]))
}

func startsWord(runes []rune, i int) bool {
	if isIdeograph(runes[i]) || isIdeograph(runes[i-1]) {
		return true
	}
	if !unicode.IsUpper(runes[i]) {
		return false
	}
	return !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])
}

func isIdeograph(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// splitDigits emits a word, and its letters and digits when it has both.
func splitDigits(word string, emit func(string)) {
	emit(word)
	start := 0
	runes := []rune(word)
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && unicode.IsDigit(runes[i]) == unicode.IsDigit(runes[i-1]) {
			continue
		}
		if part := runes[start:i]; len(part) < len(runes) && (len(part) > 1 || unicode.IsDigit(part[0])) {
			emit(string(part))
		}
		start = i
	}
}

// stemWord strips the endings that English plurals, participles and nouns of
// action add, so that files, listing and creation meet file, list and create.
// What it returns need not be a word.
func stemWord(w string) string {
	if len(w) < 4 || !isASCIILetters(w) {
		return w
	}
	w = stripPlural(w)
	for _, ending := range []string{"ing", "ed"} {
		if cut, ok := strings.CutSuffix(w, ending); ok && len(cut) >= 3 && hasVowel(cut) && !strings.HasSuffix(w, "eed") {
			w = undouble(cut)
			break
		}
	}
	if cut, ok := strings.CutSuffix(w, "ion"); ok && len(cut) >= 4 && (cut[len(cut)-1] == 't' || cut[len(cut)-1] == 's') {
		w = cut
	}
	if len(w) > 3 && w[len(w)-1] == 'e' {
		w = w[:len(w)-1]
	}
	return w
}

func isASCIILetters(w string) bool {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return false
		}
	}
	return true
}

func stripPlural(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"),
		strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	}
	return strings.TrimSuffix(w, "s")
}

func hasVowel(w string) bool { return strings.ContainsAny(w, "aeiouy") }

// undouble makes stopp of stopping stop. Words such as call keep their pair.
func undouble(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("aeioulsz", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}

// fillers are words that say nothing about what a tool does.
var fillers = stemSet(`a an and are as at be by can could do does for from have how i in into is it its
	me my need of on or our out please should so some something that the their them there these they this
	to tool tools up us use using want was we what when where which will with would you your`)

func stemSet(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[stemWord(w)] = true
	}
	return set
}

// synonymGroups are everyday words that stand for one another when people ask
// for a tool. A word may be in several groups.
var synonymGroups = []string{
	"find search lookup query locate",
	"list show enumerate display browse",
	"get read fetch retrieve view load open obtain",
	"create add new make insert generate",
	"delete remove erase drop destroy trash",
	"update edit modify change set patch alter",
	"write save store",
	"send post submit publish",
	"move rename",
	"copy duplicate clone",
	"run execute exec invoke start launch",
	"stop cancel kill terminate abort",
	"close finish complete resolve",
	"mail email inbox",
	"message chat dm",
	"folder directory dir",
	"file document doc",
	"picture image photo screenshot",
	"website web page site url link",
	"internet web online",
	"calendar event meeting appointment schedule",
	"issue ticket bug",
	"task todo reminder",
	"repo repository",
	"pr pull merge",
	"database db sql table",
	"user person people member account contact",
	"comment reply note",
	"time clock date",
	"customer client",
	"payment charge invoice bill",
	"download export",
	"upload import",
	"convert transform translate",
	"compare diff",
	"info information detail status describe",
	"remember memory recall",
	"map location place address",
	"price cost quote",
}

// synonyms maps a stem to the stems that may stand for it.
var synonyms = func() map[string][]string {
	m := map[string][]string{}
	for _, group := range synonymGroups {
		stems := words(group, 100)
		for _, a := range stems {
			for _, b := range stems {
				if a != b {
					m[a] = append(m[a], b)
				}
			}
		}
	}
	return m
}()
