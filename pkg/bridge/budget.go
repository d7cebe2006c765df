package bridge

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// markRoom is kept free for the words that stand where text was cut.
const markRoom = 40

// fit shortens texts so that together they have at most budget bytes, and
// returns how many characters went. Short ones stay whole; what they leave is
// shared evenly by the long ones.
func fit(budget int, texts ...string) ([]string, int) {
	out := slices.Clone(texts)
	cut := 0
	for i, share := range shares(budget, texts) {
		if len(texts[i]) > share {
			out[i] = cutMiddle(texts[i], share)
			cut += lost(texts[i], share)
		}
	}
	return out, cut
}

// shares gives each text its part of the budget, in bytes.
func shares(budget int, texts []string) []int {
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(texts[a]) - len(texts[b]) })
	out := make([]int, len(texts))
	for n, i := range order {
		out[i] = min(len(texts[i]), budget/(len(order)-n))
		budget -= out[i]
	}
	return out
}

// cutMiddle returns s if it has at most limit bytes, and else its head and tail
// around a mark that says how much is missing. It cuts between characters.
func cutMiddle(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head, end := ends(s, limit)
	return s[:head] + mark(utf8.RuneCountInString(s[head:end])) + s[end:]
}

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

// lost returns how many characters cutMiddle takes out.
func lost(s string, limit int) int {
	head, end := ends(s, limit)
	return utf8.RuneCountInString(s[head:end])
}

func mark(n int) string { return fmt.Sprintf("\n…[%d characters cut]…\n", n) }
