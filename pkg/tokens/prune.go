package tokens

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxDepth = 100    // of data that is pruned
	maxNodes = 20_000 // that are looked at closely; the others are counted
)

// A level says how much of nested data is shown.
type level struct {
	text  int // characters of a string
	depth int
}

// levels are tried in turn, each with as many items as fit. One that leaves
// room for few is for data that no other level fits.
var levels = []level{{4000, maxDepth}, {1000, 12}, {400, 8}, {200, 6}, {100, 5}, {60, 4}, {40, 3}, {20, 2}}

// counts are the numbers of items of one container that are tried.
var counts = []int{maxNodes, 2000, 1000, 500, 300, 200, 150, 100, 70, 50, 35, 25, 20, 15, 10, 7, 5, 3, 2, 1}

// few is how many items are too few, as long as there is a level left.
const few = 5

// prune shortens nested data, as JSON or Python write it: its lists, then its
// strings and its depth, until it costs at most limit tokens. It reports false
// for text that is no such data, or that can't be made to fit. The end of torn
// data may be missing.
func prune(text string, limit int, torn bool) (string, bool) {
	text = strings.TrimSpace(text)
	if text == "" || limit <= 0 {
		return "", false
	}
	p := parser{text: text, torn: torn}
	root, ok := p.value(0, true)
	p.blanks()
	if !ok || p.at != len(text) || root.close == 0 || root.total == 0 {
		return "", false
	}
	for i, l := range levels {
		least := few
		if i == len(levels)-1 {
			least = 1
		}
		for _, n := range counts {
			if n < least {
				break
			}
			w := writer{level: l, items: n, room: perToken * limit}
			if w.value(root, 0) && fits(w.b.String(), limit) {
				return w.b.String(), true
			}
		}
	}
	return "", false
}

// A node is a value. One that is no container has its text in open.
type node struct {
	open  string // for example "[" or "Point("
	close byte   // 0 for what is no container
	items []item // the first ones
	total int
	torn  bool // there may be more
}

// An item is a value in a container, behind its key if it has one.
type item struct {
	key   string // with its colon or equals sign
	value node
	comma bool // one follows
}

// A parser reads data that is written with brackets, commas, and colons or
// equals signs. It knows no language: strings have quotes and backslashes, and
// all else is words.
type parser struct {
	text  string
	at    int
	nodes int
	torn  bool // the text may end before the data does
}

var closing = map[byte]byte{'[': ']', '{': '}', '(': ')'}

// value reads one value. If it is not wanted, it is only skipped.
func (p *parser) value(depth int, wanted bool) (node, bool) {
	p.blanks()
	from := p.at
	if !p.word() {
		return node{}, false
	}
	if p.at < len(p.text) && closing[p.text[p.at]] != 0 {
		end := closing[p.text[p.at]]
		p.at++
		n := node{open: p.text[from:p.at], close: end}
		return n, depth < maxDepth && p.items(&n, depth, wanted)
	}
	p.nodes++
	return node{open: p.text[from:p.at]}, p.at > from
}

// items reads what is in a container, and its end.
func (p *parser) items(n *node, depth int, wanted bool) bool {
	for {
		p.blanks()
		if p.at == len(p.text) {
			n.torn = p.torn
			return p.torn
		}
		if p.text[p.at] == n.close {
			p.at++
			return true
		}
		keep := wanted && p.nodes < maxNodes
		it, ok := p.item(depth, keep)
		if !ok && p.at < len(p.text) {
			return false
		}
		if !ok {
			continue // at the end of what there is
		}
		n.total++
		if keep {
			n.items = append(n.items, it)
		}
	}
}

func (p *parser) item(depth int, wanted bool) (it item, ok bool) {
	if it.value, ok = p.value(depth+1, wanted); !ok {
		return it, false
	}
	p.blanks()
	if p.is(':') || p.is('=') {
		it.key = it.value.key() + p.text[p.at:p.at+1]
		p.at++
		if it.value, ok = p.value(depth+1, wanted); !ok {
			return it, false
		}
		p.blanks()
	}
	if it.comma = p.is(','); it.comma {
		p.at++
	}
	return it, true
}

// key is a value that was a key.
func (n node) key() string {
	if n.close == 0 {
		return n.open
	}
	w := writer{level: levels[3], items: 20, room: 400}
	w.value(n, 0)
	return w.b.String()
}

// word skips a string, or letters, digits and the like; nothing is a word too
// before a bracket. It reports whether strings are whole.
func (p *parser) word() bool {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; c {
		case '"', '\'':
			if !p.quoted(c) {
				return false
			}
			return true
		case '[', ']', '{', '}', '(', ')', ',', ':', '=', ' ', '\t', '\n', '\r':
			return true
		}
		p.at++
	}
	return true
}

func (p *parser) quoted(quote byte) bool {
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case quote:
			p.at++
			return true
		case '\n':
			return false
		}
	}
	return false
}

func (p *parser) blanks() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) is(c byte) bool { return p.at < len(p.text) && p.text[p.at] == c }

// A writer writes a node on one line.
type writer struct {
	b     strings.Builder
	level level
	items int
	room  int // bytes
}

// value writes n. It reports whether there was room.
func (w *writer) value(n node, depth int) bool {
	if n.close == 0 {
		w.b.WriteString(w.level.clip(n.open))
		return w.b.Len() <= w.room
	}
	w.b.WriteString(n.open)
	shown := min(len(n.items), w.items)
	if depth >= w.level.depth {
		shown = 0
	}
	for i, it := range n.items[:shown] {
		if i > 0 {
			w.b.WriteByte(' ')
		}
		w.b.WriteString(it.key)
		if strings.HasSuffix(it.key, ":") {
			w.b.WriteByte(' ')
		}
		if !w.value(it.value, depth+1) {
			return false
		}
		if it.comma && i+1 < n.total {
			w.b.WriteByte(',')
		}
	}
	w.b.WriteString(n.gone(shown))
	w.b.WriteByte(n.close)
	return w.b.Len() <= w.room
}

// gone says how many items are not among those shown, "" if all are.
func (n node) gone(shown int) string {
	gone, plus := n.total-shown, ""
	if n.torn {
		plus = "+"
	}
	switch {
	case gone == 0 && n.torn:
		return " …"
	case gone == 0:
		return ""
	case shown == 0:
		return fmt.Sprintf("…%d%s", gone, plus)
	}
	return fmt.Sprintf(" …%d%s more", gone, plus)
}

// clip leaves out the middle of a long string.
func (l level) clip(s string) string {
	if len(s) <= l.text {
		return s
	}
	n := utf8.RuneCountInString(s)
	if n <= l.text {
		return s
	}
	first, last := boundary(s, l.text*2/3), len(s)-l.text/3
	for last < len(s) && !utf8.RuneStart(s[last]) {
		last++
	}
	return s[:first] + fmt.Sprintf("…[%d]…", utf8.RuneCountInString(s[first:last])) + s[last:]
}
