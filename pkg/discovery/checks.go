package discovery

import (
	"encoding/json"
	"slices"
	"sync"
)

// maxCompiled bounds the compiled schemas of a catalogue, by the objects in
// them. Past it those that were compiled first are compiled again when they are
// needed.
const maxCompiled = 200_000

// toolChecks check one tool's arguments and results.
type toolChecks struct{ input, output checker }

// checkers are the checkers with a compiled schema, the oldest first.
type checkers struct {
	mu      sync.Mutex // guards the fields below; never held together with a checker's
	list    []*checker
	objects []int // of each
	total   int
}

// add takes in a checker that was just compiled, and returns those that have to
// make room for it.
func (c *checkers) add(one *checker, objects int) (old []*checker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list, c.objects = append(c.list, one), append(c.objects, objects)
	c.total += objects
	n := 0
	for c.total > maxCompiled && n < len(c.list)-1 {
		c.total -= c.objects[n]
		n++
	}
	old = slices.Clone(c.list[:n])
	c.list, c.objects = slices.Delete(c.list, 0, n), slices.Delete(c.objects, 0, n)
	return old
}

// check checks a value and keeps count of what is compiled for it.
func (c *Catalog) check(one *checker, value json.RawMessage) []Misfit {
	misfits, compiled := one.check(value)
	if compiled > 0 {
		for _, old := range c.checkers.add(one, compiled) {
			old.forget()
		}
	}
	return misfits
}

// Check returns what is wrong with arguments for a tool, by its inputSchema. It
// returns nothing when there is nothing to check them against: a tool that is
// not known, or whose schema can't be used.
func (c *Catalog) Check(ref Ref, tool string, arguments json.RawMessage) []Misfit {
	s, at, ok := c.find(ref, tool)
	if !ok {
		return nil
	}
	return c.check(&s.checks[at].input, arguments)
}

// CheckResult returns what is wrong with a tool's structured result, by its
// outputSchema. It returns nothing when there is none.
func (c *Catalog) CheckResult(ref Ref, tool string, structured json.RawMessage) []Misfit {
	s, at, ok := c.find(ref, tool)
	if !ok {
		return nil
	}
	return c.check(&s.checks[at].output, structured)
}

// Unchecked returns why a tool's arguments can't be checked, and nothing when
// they can be. It compiles the schema to find out.
func (c *Catalog) Unchecked(ref Ref, tool string) string {
	s, at, ok := c.find(ref, tool)
	if !ok {
		return ""
	}
	one := &s.checks[at].input
	c.check(one, nil)
	if why := one.why(); why != "" {
		return "its arguments are not checked: its inputSchema can't be used, since " + why
	}
	return ""
}
