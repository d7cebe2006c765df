package proxy

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTheFirstSentenceOfADescription(t *testing.T) {
	rows := []struct{ name, text, want string }{
		{"nothing", " \n\n ", ""},
		{"one sentence", "Reads a file", "Reads a file"},
		{"two sentences", "Reads a file. The path must be absolute.", "Reads a file."},
		{"wrapped lines", "\n    Reads\n    a file.\n    Then rests.\n", "Reads a file."},
		{"an empty line", "Reads a file\n\nArgs: path", "Reads a file"},
		{"a list", "Does one of\n- reading\n- writing", "Does one of"},
		{"a heading after it", "Reads a file\nParameters:\n  path", "Reads a file"},
		{"a heading as its start", "# Read\nmore", "Read more"},
		{"an abbreviation", "Reads files, e.g. Texts and so on. More.", "Reads files, e.g. Texts and so on."},
		{"a name with a dot", "Reads config.json and so on. More.", "Reads config.json and so on."},
		{"a small letter after a dot", "Reads v1. or v2 files! More.", "Reads v1. or v2 files!"},
		{"a link at its end", "See example.com/a.html. More.", "See example.com/a.html."},
		{"another script", "读取文件。 写入", "读取文件。"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := firstSentence(r.text); got != r.want {
				t.Errorf("got %q, want %q", got, r.want)
			}
		})
	}
}

func TestAFirstSentenceIsBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("ä", 9000), strings.Repeat("word ", 9000), strings.Repeat("\n", 9000) + "x"} {
		got := firstSentence(text)
		if len(got) > sentenceBytes+len("...") || !utf8.ValidString(got) {
			t.Errorf("got %d bytes of %d: %q", len(got), len(text), got)
		}
	}
}
