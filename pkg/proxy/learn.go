package proxy

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bridged/bridged/pkg/discovery"
)

const (
	// maxLessons and maxLessonBytes bound the results that wait to be learnt
	// from. More are passed over: there will be others.
	maxLessons     = 64
	maxLessonBytes = 48 << 20

	// maxMisfits bounds the tools whose results are known to break their
	// schema.
	maxMisfits = 10_000
)

// A lesson is a result to learn from.
type lesson struct {
	backend  *backend
	ref      discovery.Ref
	tool     string
	promised bool // the tool has an outputSchema
	result   json.RawMessage
}

// A learner learns from results what tools return, and whether they keep to
// their own outputSchema. It does so beside the calls, one result at a time.
type learner struct {
	queue   chan lesson
	waiting atomic.Int64 // bytes

	mu      sync.Mutex // guards misfits
	misfits map[toolOf]misfit
}

// A toolOf names a tool of a definition.
type toolOf struct{ digest, tool string }

// A misfit counts the results of a tool that broke its outputSchema.
type misfit struct {
	count int64
	first string // what was wrong with the first
}

func newLearner() *learner {
	return &learner{queue: make(chan lesson, maxLessons), misfits: map[toolOf]misfit{}}
}

// learn takes in a result, which nobody may change from then on. It does not
// wait.
func (c *toolCall) learn(result json.RawMessage) {
	p := c.session.proxy
	if c.definition == nil || !p.opts.Catalog.Wants(c.target.ref, c.tool) {
		return
	}
	p.learner.offer(lesson{c.backend, c.target.ref, c.tool, c.definition.Promises(), result})
}

func (l *learner) offer(one lesson) {
	size := int64(len(one.result))
	if l.waiting.Add(size) > maxLessonBytes {
		l.waiting.Add(-size)
		return
	}
	select {
	case l.queue <- one:
	default:
		l.waiting.Add(-size)
	}
}

// study learns until Close.
func (p *Proxy) study() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case one := <-p.learner.queue:
			p.opts.Catalog.Learn(one.ref, one.tool, one.result)
			if one.promised {
				p.learner.compare(p.opts.Catalog, one)
			}
			p.learner.waiting.Add(-int64(len(one.result)))
		}
	}
}

// compare checks a result against the tool's outputSchema. One that breaks it
// was delivered all the same, and is told of once.
func (l *learner) compare(catalog *discovery.Catalog, one lesson) {
	structured := discovery.Structured(one.result)
	if structured == nil {
		return
	}
	misfits := catalog.CheckResult(one.ref, one.tool, structured)
	if len(misfits) == 0 {
		return
	}
	text := "result" + misfits[0].Path + " " + misfits[0].Message
	if l.note(toolOf{one.ref.Digest, one.tool}, text) {
		one.backend.log.Warn().Str("tool", one.tool).Str("problem", text).Msg("result breaks its schema")
	}
}

// note counts a misfit and reports whether it is the tool's first.
func (l *learner) note(key toolOf, text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.misfits[key]
	if !ok {
		if len(l.misfits) >= maxMisfits {
			return false
		}
		m.first = text
	}
	m.count++
	l.misfits[key] = m
	return !ok
}

// problem says how a tool's results break its schema, if any did.
func (l *learner) problem(ref discovery.Ref, tool string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.misfits[toolOf{ref.Digest, tool}]
	if !ok {
		return ""
	}
	return fmt.Sprintf("its results break its outputSchema: %s", m.first)
}

// warning says the same of a definition's tools.
func (l *learner) warning(digest string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var results int64
	tool := ""
	for key, m := range l.misfits {
		if key.digest != digest {
			continue
		}
		results += m.count
		if tool == "" || key.tool < tool {
			tool = key.tool
		}
	}
	if tool == "" {
		return ""
	}
	return fmt.Sprintf("%d results broke their tool's outputSchema, so of %s: %s", results, clip(tool, 100), l.misfits[toolOf{digest, tool}].first)
}

// warningLocked says what is odd about the server's tools and their results.
func (b *backend) warningLocked() string {
	list, results := b.shelf.warning, b.proxy.learner.warning(b.digest)
	if list != "" && results != "" {
		return list + "; " + results
	}
	return list + results
}
