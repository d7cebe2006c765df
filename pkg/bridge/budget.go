package bridge

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// markRoom is kept free for the words that stand where text was cut.
const markRoom = 40

// A part is a text of a result. The sandbox may have left something out of it
// already.
type part struct {
	text string
	gone int64 // bytes left out at offset at
	at   int
}

// fit shortens parts so that together they have at most budget bytes, marks
// aside, and returns how much is missing from them in all. Short ones stay
// whole; what they leave is shared evenly by the long ones.
func fit(budget int, parts ...part) ([]string, int64) {
	out := make([]string, len(parts))
	var cut int64
	for i, share := range shares(budget, parts) {
		p := parts[i]
		out[i] = p.cut(share)
		cut += p.gone
		if len(p.text) > share {
			cut += int64(lost(p.text, share))
		}
	}
	return out, cut
}

// cut returns the part with one mark for what is missing, whoever took it out.
func (p part) cut(limit int) string {
	if len(p.text) > limit {
		head, end := ends(p.text, limit)
		return p.text[:head] + mark(int64(lost(p.text, limit))+p.gone) + p.text[end:]
	}
	if p.gone > 0 {
		return p.text[:p.at] + mark(p.gone) + p.text[p.at:]
	}
	return p.text
}

// shares gives each text its part of the budget, in bytes.
func shares(budget int, parts []part) []int {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(parts[a].text) - len(parts[b].text) })
	out := make([]int, len(parts))
	for n, i := range order {
		out[i] = min(len(parts[i].text), budget/(len(order)-n))
		budget -= out[i]
	}
	return out
}

// cutMiddle returns s if it has at most limit bytes, and else its head and tail
// around a mark that says how much is missing. It cuts between characters.
func cutMiddle(s string, limit int) string { return part{text: s}.cut(limit) }

// ends returns where the head of a cut text stops and its tail starts.
func ends(s string, limit int) (head, end int) {
	room := max(limit-markRoom, 0)
	head, end = room/2, len(s)-room/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	return head, end
}

// lost returns how many characters a cut to limit takes out.
func lost(s string, limit int) int {
	head, end := ends(s, limit)
	return utf8.RuneCountInString(s[head:end])
}

func mark(n int64) string { return fmt.Sprintf("\n…[%d characters cut]…\n", n) }
