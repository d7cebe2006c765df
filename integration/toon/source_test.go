//go:build integration

package toon

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A source makes random JSON with all in it that TOON must quote. Numbers are
// those that a float holds, and no key is one: JavaScript has no others, and puts
// such keys first.
type source struct{ r *rand.Rand }

var words = []string{
	"", " ", "a", "a b", "true", "null", "-", "- a", "-05", "1e5x", "-3.5.", "a:b", "a,b", "a|b", "a\tb", "x\ny\r", `q"u"o`, `b\s`, "[2]: x",
	"{a}", "[]", "#", "# a", "\u00a0x", "x\ufeff", "\u2028x", "x\u0085y", "\x00\x1f", "é漢🚀", "a.b", "a.b.c", "__proto__", "k-1", "_x", "\u007f", "some words",
	"constructor", "[1", "a[1]", "x: [y]: z", "2026-01-02T03:04:05Z", "https://example.com/?q=1",
}

func (s source) json() string {
	var b strings.Builder
	s.value(&b, 5)
	return b.String()
}

func (s source) word() string {
	w := words[s.r.IntN(len(words))]
	if s.r.IntN(3) == 0 {
		w += words[s.r.IntN(len(words))]
	}
	return w
}

func quoted(s string) string {
	line, _ := json.Marshal(s) // never fails
	return string(line)
}

func (s source) number() string {
	f := s.r.NormFloat64()
	switch s.r.IntN(5) {
	case 0:
		return strconv.Itoa(s.r.IntN(1 << 53 >> s.r.IntN(53)))
	case 1:
		f = math.Float64frombits(s.r.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = 0
		}
	case 2:
		f *= math.Pow10(s.r.IntN(40) - 15)
	case 3:
		return fmt.Sprintf("-%d.%d00e%d", s.r.IntN(3), s.r.IntN(100), s.r.IntN(24)-8)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func (s source) scalar(b *strings.Builder) {
	switch s.r.IntN(4) {
	case 0:
		b.WriteString(s.number())
	case 1:
		b.WriteString([]string{"true", "false", "null"}[s.r.IntN(3)])
	case 2: // what a string may be and a key may not
		b.WriteString(quoted([]string{"5", "05", "-1", "1e5", "1.50"}[s.r.IntN(5)]))
	default:
		b.WriteString(quoted(s.word()))
	}
}

func (s source) value(b *strings.Builder, depth int) {
	n := s.r.IntN(8)
	if depth == 0 {
		n = 7
	}
	switch n {
	case 0, 1:
		s.list(b, s.r.IntN(4), func() { s.value(b, depth-1) })
	case 2: // often a table
		keys := s.keys()
		s.list(b, s.r.IntN(5), func() { s.object(b, keys, s.r.IntN(9)/8) })
	case 3, 4, 5:
		s.object(b, s.keys(), depth-1)
	default:
		s.scalar(b)
	}
}

func (s source) list(b *strings.Builder, n int, item func()) {
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		item()
	}
	b.WriteByte(']')
}

func (s source) keys() []string {
	keys := map[string]bool{}
	for range s.r.IntN(5) {
		keys[s.word()] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// object writes one with the keys in any order.
func (s source) object(b *strings.Builder, keys []string, depth int) {
	b.WriteByte('{')
	for i, at := range s.r.Perm(len(keys)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoted(keys[at]) + ":")
		s.value(b, depth)
	}
	b.WriteByte('}')
}
