package discovery

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

// crowd is a catalogue of 200 servers with 50 tools each, whose words are drawn
// from a vocabulary of the usual size and skew.
func crowd(tb testing.TB) (*Catalog, []Ref) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.2, 4, 7999)
	word := func() string {
		n := zipf.Uint64()
		return fmt.Sprintf("%c%c%c%c%c", 'a'+n%26, "aeiou"[n/26%5], 'a'+n/130%26, "aeiou"[n/3380%5], 'a'+n%23)
	}
	text := func(n int) string {
		out := word()
		for range n - 1 {
			out += " " + word()
		}
		return out
	}
	c := NewCatalog()
	var refs []Ref
	for s := range 200 {
		var raws []json.RawMessage
		for i := range 50 {
			raws = append(raws, json.RawMessage(fmt.Sprintf(`{"name": "%s_%s_%d", "description": "%s", "inputSchema": {"type": "object",
				"properties": {"%s": {"type": "string", "description": "%s"}, "%s": {"type": "integer", "description": "%s"}}}}`,
				word(), word(), i, text(25), word(), text(8), word(), text(8))))
		}
		tools, skipped := ParseTools(raws)
		if len(skipped) > 0 {
			tb.Fatal(skipped)
		}
		digest := fmt.Sprint(s)
		c.Put(digest, tools)
		refs = append(refs, Ref{Digest: digest, Server: word() + "-" + digest})
	}
	return c, refs
}

func BenchmarkSearch10kTools(b *testing.B) {
	c, refs := crowd(b)
	for name, query := range map[string]string{
		"words":     "create bavab calendar cecec event list",
		"misspelt":  "calxnder evxents repoxitory xbavxab",
		"no_words":  "",
		"sentences": "please show me all of the open issues in my repository that were created by somebody last week and send a message",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c.Search(query, refs, 5)
			}
		})
	}
}

func BenchmarkPut50Tools(b *testing.B) {
	c, refs := crowd(b)
	tools, _ := c.Tools(refs[0])
	for b.Loop() {
		c.Put("new", tools)
	}
}
