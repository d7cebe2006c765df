//go:build integration

package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/bridged/bridged/pkg/discovery"
)

// substring ranks by how many words of the query are anywhere in a tool's name
// or description, which is generous: the whole query is in hardly any.
func (m *market) substring() func(string) []string {
	texts := make([]string, len(m.tools))
	for i, t := range m.tools {
		texts[i] = strings.ToLower(t.Name + " " + t.Description)
	}
	return func(query string) []string {
		return m.top(func(i int) float64 {
			n := 0.0
			for w := range strings.FieldsSeq(strings.ToLower(query)) {
				if strings.Contains(texts[i], w) {
					n++
				}
			}
			return n
		})
	}
}

// top returns the tools of the highest scores, in the order of the list where
// these are equal.
func (m *market) top(score func(i int) float64) []string {
	type hit struct {
		i     int
		score float64
	}
	var hits []hit
	for i := range m.tools {
		if s := score(i); s > 0 {
			hits = append(hits, hit{i, s})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return -cmp.Compare(a.score, b.score) })
	var names []string
	for _, h := range hits[:min(depth, len(hits))] {
		names = append(names, m.tools[h.i].Server+" "+m.tools[h.i].Name)
	}
	return names
}

// bm25 is the textbook's formula over one bag of stems for each tool: its name,
// description and the names of its parameters.
func (m *market) bm25() func(string) []string {
	const k, b = 1.2, 0.75
	counts := make([]map[string]float64, len(m.tools))
	lengths := make([]float64, len(m.tools))
	frequency := map[string]float64{}
	mean := 0.0
	for i, t := range m.tools {
		counts[i] = bag(t)
		for w, n := range counts[i] {
			frequency[w]++
			lengths[i] += n
		}
		mean += lengths[i] / float64(len(m.tools))
	}
	return func(query string) []string {
		asked := stems(query)
		return m.top(func(i int) float64 {
			sum := 0.0
			for _, w := range asked {
				n, df := counts[i][w], frequency[w]
				idf := math.Log(1 + (float64(len(m.tools))-df+0.5)/(df+0.5))
				sum += idf * n * (k + 1) / (n + k*(1-b+b*lengths[i]/mean))
			}
			return sum
		})
	}
}

func bag(t discovery.Tool) map[string]float64 {
	text := t.Name + " " + t.Description
	for _, p := range t.Params {
		text += " " + p.Name
	}
	counts := map[string]float64{}
	for _, w := range stems(text) {
		counts[w]++
	}
	return counts
}

// stems splits a text at what is no letter or digit and at capitals, and cuts the
// commonest endings of English.
func stems(text string) []string {
	var spread strings.Builder
	last := ' '
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(last) {
			spread.WriteByte(' ')
		}
		spread.WriteRune(unicode.ToLower(r))
		last = r
	}
	var out []string
	for w := range strings.FieldsFuncSeq(spread.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for _, ending := range []string{"ing", "ed", "es", "s", "e"} {
			if cut, ok := strings.CutSuffix(w, ending); ok && len(cut) >= 3 {
				w = cut
				break
			}
		}
		out = append(out, w)
	}
	return out
}
