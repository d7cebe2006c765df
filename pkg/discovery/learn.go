package discovery

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
)

const (
	// maxLearnt and maxLearntCost bound the tools whose results are remembered,
	// and what is remembered of them. Past either, the tools that were called
	// or asked about longest ago are forgotten.
	maxLearnt     = 20_000
	maxLearntCost = 300_000

	// calmResults is after how many results that tell nothing new fewer are
	// looked at: half of them, and so on down to one of maxSkipped.
	calmResults = 8
	maxSkipped  = 256
)

// Learnt is what a tool's results were like. Nobody changes it.
type learnt struct {
	data   *Shape // of what code gets as data
	json   *Shape // of texts that are JSON
	text   bool   // there were texts that are none
	blocks bool   // there were results that code gets as a list of blocks
}

func (l learnt) merge(o learnt) learnt {
	return learnt{l.data.Merge(o.data), l.json.Merge(o.json), l.text || o.text, l.blocks || o.blocks}
}

func (l learnt) equal(o learnt) bool {
	return l.text == o.text && l.blocks == o.blocks && l.data.equal(o.data) && l.json.equal(o.json)
}

func (l learnt) cost() int {
	n := 1
	for _, s := range []*Shape{l.data, l.json} {
		if s != nil {
			n += s.cost
		}
	}
	return n
}

// returns writes what code gets of a result.
func (l learnt) returns(width int) string {
	var types []*pyType
	if l.data != nil {
		types = append(types, l.data.pyType())
	}
	if l.blocks {
		types = append(types, listOfType(nil))
	}
	if l.text || l.json != nil {
		types = append(types, pyStr)
	}
	text := unionOf(types).text(width)
	if l.json == nil {
		return text
	}
	often := "JSON: "
	if l.text {
		often = "sometimes JSON: "
	}
	return text + " (" + often + l.json.pyType().text(width) + ")"
}

// A toolKey names a tool of a server.
type toolKey struct{ digest, tool string }

// lessons are what was learnt of all tools.
type lessons struct {
	mu     sync.Mutex // guards the fields below
	byTool map[toolKey]*lesson
	cost   int
	clock  uint64 // counts uses
}

// A lesson is what was learnt of one tool.
type lesson struct {
	learnt
	used uint64 // the clock's time of the last use
	calm int    // results in a row that told nothing new
	skip int    // results that need not be looked at
}

// wants reports whether the tool's next result should be looked at, and counts
// it.
func (l *lessons) wants(key toolKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.byTool[key]
	if one == nil || one.skip == 0 {
		return true
	}
	one.skip--
	return false
}

// add takes in what was seen of one result, or of many.
func (l *lessons) add(key toolKey, seen learnt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byTool == nil {
		l.byTool = map[toolKey]*lesson{}
	}
	one := l.byTool[key]
	if one == nil {
		one = &lesson{}
		l.byTool[key] = one
		l.cost += one.cost()
	}
	l.clock++
	one.used = l.clock
	all := one.merge(seen)
	if all.equal(one.learnt) {
		one.calm++
		one.skip = min(maxSkipped, 1<<min(one.calm/calmResults, 16)) - 1
		return
	}
	l.cost += all.cost() - one.cost()
	one.learnt, one.calm, one.skip = all, 0, 0
	if l.cost > maxLearntCost || len(l.byTool) > maxLearnt {
		l.forgetLocked()
	}
}

// forgetLocked makes room, somewhat more than is needed now.
func (l *lessons) forgetLocked() {
	keys := slices.SortedFunc(maps.Keys(l.byTool), func(a, b toolKey) int {
		return cmp.Compare(l.byTool[a].used, l.byTool[b].used)
	})
	for _, key := range keys {
		if l.cost <= maxLearntCost*9/10 && len(l.byTool) <= maxLearnt*9/10 {
			return
		}
		l.cost -= l.byTool[key].cost()
		delete(l.byTool, key)
	}
}

// of returns what was learnt of a tool.
func (l *lessons) of(key toolKey) (seen learnt, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.byTool[key]
	if one == nil {
		return learnt{}, false
	}
	l.clock++
	one.used = l.clock
	return one.learnt, true
}

// Unlearn forgets what was learnt of all tools.
func (c *Catalog) Unlearn() {
	c.lessons.mu.Lock()
	defer c.lessons.mu.Unlock()
	c.lessons.byTool, c.lessons.cost = nil, 0
}

// Wants reports whether the next result of a tool is worth to be learnt from:
// the better its results are known, the fewer are.
func (c *Catalog) Wants(ref Ref, tool string) bool {
	return c.lessons.wants(toolKey{ref.Digest, tool})
}

// Learn takes in the shape of a tool's result, as its server sent it; see
// [Shape]. It keeps nothing of the result itself. Errors teach nothing. What is
// learnt shows in the tool's [Tool.Returns], also after the server's tools were
// dropped and put again.
func (c *Catalog) Learn(ref Ref, tool string, result json.RawMessage) {
	t, _ := c.Tool(ref, tool)
	parts := readResult(result)
	if t.wrapped {
		parts.unwrap()
	}
	seen, sound := parts.learnt(t.hasOutput)
	if sound {
		c.lessons.add(toolKey{ref.Digest, tool}, seen)
	}
}
