package tokens

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// markCost is kept free for the words that stand where text was cut.
const markCost = 16

// A Text is something to show. Some of it may be left out already.
type Text struct {
	Text string
	Gone int64 // characters that were left out at offset At
	At   int
}

// Fit shortens texts so that together they cost at most budget tokens, a few
// for marks aside. Short ones stay whole; what they leave is shared evenly by
// the long ones. It returns them in their order, and how many characters are
// missing from each.
func Fit(budget int, texts ...Text) (shown []string, missing []int64) {
	shown, missing = make([]string, len(texts)), make([]int64, len(texts))
	for i, share := range shares(budget, texts) {
		shown[i], missing[i] = texts[i].fit(share)
	}
	return shown, missing
}

// Cut is [Fit] for one text.
func Cut(text string, limit int) string {
	s, _ := Text{Text: text}.fit(limit)
	return s
}

// shares gives each text its part of the budget.
func shares(budget int, texts []Text) []int {
	costs := make([]int, len(texts))
	order := make([]int, len(texts))
	bytes := 0
	for _, t := range texts {
		bytes += len(t.Text)
	}
	for i, t := range texts {
		order[i], costs[i] = i, len(t.Text)
		if bytes > budget {
			costs[i] = measure(t.Text, budget)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return costs[a] - costs[b] })
	out := make([]int, len(texts))
	for n, i := range order {
		out[i] = min(costs[i], budget/(len(order)-n))
		budget -= out[i]
	}
	return out
}

// fit returns the text with one mark for what is missing, whoever left it out,
// and how many characters that are.
func (t Text) fit(limit int) (string, int64) {
	if fits(t.Text, limit) {
		if t.Gone == 0 {
			return t.Text, 0
		}
		return t.Text[:t.At] + mark(0, t.Gone) + t.Text[t.At:], t.Gone
	}
	if t.Gone > 0 {
		return t.widen(max(limit-markCost, 0))
	}
	if s, ok := prune(t.Text, limit, false); ok {
		return s, max(runes(t.Text)-runes(s), 1)
	}
	return cutLines(t.Text, max(limit-markCost, 0))
}

// widen cuts more where something is missing already.
func (t Text) widen(room int) (string, int64) {
	first, last := t.Text[:t.At], t.Text[t.At:]
	if s, ok := prune(first, room*3/4, true); ok {
		to := len(last) - tail(last, room-measure(s, room))
		gone := t.Gone + max(runes(first)-runes(s), 0) + runes(last[:to])
		return s + mark(0, gone) + last[to:], gone
	}
	from := head(first, room/2)
	if i := strings.LastIndexByte(first[:from], '\n'); i > from/2 {
		from = i + 1
	}
	to := len(last) - tail(last, room-measure(first[:from], room))
	if i := strings.IndexByte(last[to:], '\n'); i >= 0 && i < (len(last)-to)/2 {
		to += i + 1
	}
	gone := t.Gone + runes(first[from:]) + runes(last[:to])
	return strings.TrimSuffix(first[:from], "\n") + mark(0, gone) + last[to:], gone
}

// cutLines keeps lines at the start and at the end. Of a line that is long
// itself, only some is kept.
func cutLines(text string, room int) (string, int64) {
	first, rest := take(text, room/2, room/4, nextLine)
	left := room - measure(strings.Join(first, ""), room)
	last, rest := take(rest, left, room/4, lastLine)
	slices.Reverse(last)
	kept := strings.Join(first, "") + strings.Join(last, "")
	lost := max(runes(text)-runes(kept), 1)
	if rest == "" {
		return kept, lost
	}
	between := mark(strings.Count(rest, "\n"), runes(rest))
	return strings.TrimSuffix(strings.Join(first, ""), "\n") + between + strings.Join(last, ""), lost
}

// take takes lines off text with next while they cost at most room. Of each it
// keeps at most most tokens.
func take(text string, room, most int, next func(string) (line, rest string)) (kept []string, rest string) {
	for text != "" {
		line, after := next(text)
		line = shorten(line, most)
		cost := measure(line, room)
		if cost > room {
			break
		}
		room -= cost
		kept = append(kept, line)
		text = after
	}
	return kept, text
}

func nextLine(text string) (line, rest string) {
	i := strings.IndexByte(text, '\n') + 1
	if i == 0 {
		return text, ""
	}
	return text[:i], text[i:]
}

func lastLine(text string) (line, rest string) {
	i := strings.LastIndexByte(text[:len(text)-1], '\n') + 1
	return text[i:], text[:i]
}

// shorten makes one line cost at most limit tokens.
func shorten(line string, limit int) string {
	if fits(line, limit) {
		return line
	}
	whole := line
	line = strings.TrimSuffix(line, "\n")
	end := whole[len(line):]
	if s, ok := prune(line, limit-1, false); ok {
		return s + end
	}
	room := max(limit-markCost, 0)
	from := head(line, room/2)
	to := len(line) - tail(line[from:], room-room/2)
	return line[:from] + fmt.Sprintf(" …[%d characters cut]… ", runes(line[from:to])) + line[to:] + end
}

// mark is what stands, on a line of its own, where text is missing.
func mark(lines int, characters int64) string {
	if lines > 1 {
		return fmt.Sprintf("\n…[%d lines, %d characters cut]…\n", lines, characters)
	}
	return fmt.Sprintf("\n…[%d characters cut]…\n", characters)
}

func runes(s string) int64 { return int64(utf8.RuneCountInString(s)) }
