package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxCheckedSchema and maxSchemaObjects bound a schema that values are
	// checked against, in bytes and in objects: the compiler's time grows with
	// the square of the latter. Real ones have a few hundred.
	maxCheckedSchema = 256 << 10
	maxSchemaObjects = 3000

	// maxChecked bounds the JSON of a value that is checked, and maxSteps the
	// schemas that are applied to it: alternatives within alternatives can ask
	// for more than a lifetime of them. It is a fraction of a second.
	maxChecked = 4 << 20
	maxSteps   = 200_000

	// maxDigits bounds a number in a value or schema, as written, and
	// maxExponent what follows its e: their exact arithmetic takes as long as
	// they are large.
	maxDigits   = 400
	maxExponent = 4

	// maxPattern and maxMatched bound a pattern, and a text that is matched
	// with one, in bytes. What is longer matches.
	maxPattern = 1 << 10
	maxMatched = 64 << 10
)

// A checker compares values with one JSON schema. It compiles the schema when
// it is first used. Nothing about a schema keeps a value from passing but that
// the value breaks it: one that can't be compiled, or is too much work, is
// passed by everything.
type checker struct {
	of  json.RawMessage // the schema, or the object that has it under key
	key string

	mu      sync.Mutex // guards the fields below, and is held while a value is checked
	ready   bool
	schema  *jsonschema.Schema // nil when values are not checked
	doc     any                // the schema as data
	objects int                // in the schema
	meter   *meter
	problem string // why values are not checked
}

// A meter counts the schemas that are applied to one value. It is part of every
// compiled schema, as a keyword that is always there.
type meter struct{ left int }

// errTooMuch is what a meter panics with.
var errTooMuch = errors.New("too much work")

// Validate counts one.
func (m *meter) Validate(*jsonschema.ValidatorContext, any) {
	if m.left--; m.left < 0 {
		panic(errTooMuch)
	}
}

// check returns what is wrong with a value. compiled is the number of objects
// in the schema if it was compiled for that.
func (c *checker) check(value json.RawMessage) (misfits []Misfit, compiled int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compile() {
		compiled = c.objects
	}
	return c.checkLocked(value), compiled
}

func (c *checker) checkLocked(value json.RawMessage) []Misfit {
	if c.schema == nil || len(value) > maxChecked {
		return nil
	}
	v, err := decodeExact(value)
	if err != nil || !sane(v) {
		return nil
	}
	failed := c.validate(v)
	if failed == nil {
		return nil
	}
	misfits, ok := explain(failed, v, c.doc)
	if !ok {
		c.drop("it refers to itself without end")
	}
	return misfits
}

// validate runs the library, which panics when the meter runs out.
func (c *checker) validate(v any) (failed *jsonschema.ValidationError) {
	defer func() {
		if recover() != nil { // also an oddity of the library's: not the caller's fault
			failed = nil
		}
	}()
	c.meter.left = maxSteps
	failed, _ = errors.AsType[*jsonschema.ValidationError](c.schema.Validate(v))
	return failed
}

// drop gives the schema up.
func (c *checker) drop(why string) {
	c.schema, c.doc, c.meter, c.objects = nil, nil, nil, 0
	c.problem = why
}

// forget makes room: the schema is compiled again when it is needed.
func (c *checker) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schema != nil {
		c.drop("")
		c.ready = false
	}
}

// why returns why values are not checked, as far as that is known.
func (c *checker) why() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// compile makes the schema ready and reports whether it was not.
func (c *checker) compile() bool {
	if c.ready {
		return false
	}
	c.ready = true
	raw := c.of
	if c.key != "" {
		fields, _ := objectOf(c.of) // none when there is no object
		raw = fields[c.key]
	}
	if len(raw) == 0 || string(raw) == "null" {
		return false
	}
	if len(raw) > maxCheckedSchema {
		c.drop(fmt.Sprintf("it is larger than %d KiB", maxCheckedSchema>>10))
		return false
	}
	doc, err := decodeExact(raw)
	if err != nil {
		c.drop(err.Error())
		return false
	}
	c.objects = countObjects(doc)
	if c.objects > maxSchemaObjects || !sane(doc) {
		c.drop("it is too large")
		return false
	}
	c.doc = doc
	if err := c.compileAs(drafts(doc)); err != nil {
		c.drop(compileProblem(err))
		return false
	}
	return true
}

// compileAs tries drafts in order and returns the first's error.
func (c *checker) compileAs(drafts []*jsonschema.Draft) (first error) {
	for _, d := range drafts {
		m := &meter{}
		schema, err := compileSchema(c.doc, d, m)
		if err == nil {
			c.schema, c.meter = schema, m
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// schemaURL is what a schema is called for the time in which it is compiled.
const schemaURL = "bridged:///schema"

// compileSchema compiles a schema with a meter in it. Formats are not asserted:
// what they mean differs from server to server.
func compileSchema(doc any, d *jsonschema.Draft, m *meter) (schema *jsonschema.Schema, err error) {
	defer func() {
		if oops := recover(); oops != nil {
			err = fmt.Errorf("compiling it: %v", oops)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(d)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(lenient)
	for _, name := range formatNames {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: schemaURL + "/meter",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return m, nil }})
	c.AssertVocabs()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

var formatNames = strings.Fields(`json-pointer relative-json-pointer uuid duration period ipv4 ipv6 hostname email date time
	date-time uri iri uri-reference iri-reference uri-template semver`)

// errElsewhere is why a schema with a reference to another document is not
// compiled.
var errElsewhere = errors.New("it refers to another document, which is not fetched")

// A noLoader fetches nothing.
type noLoader struct{}

// Load refuses.
func (noLoader) Load(string) (any, error) { return nil, errElsewhere }

// A pattern is a regular expression of a schema. One that Go can't read, such
// as one that looks ahead, matches everything.
type pattern struct {
	text string
	re   *regexp.Regexp
}

func lenient(text string) (jsonschema.Regexp, error) {
	p := &pattern{text: text}
	if len(text) <= maxPattern {
		p.re, _ = regexp.Compile(text) // nil when it can't be read
	}
	return p, nil
}

// String returns the expression as the schema has it.
func (p *pattern) String() string { return p.text }

// MatchString reports whether the text matches as far as we can tell.
func (p *pattern) MatchString(text string) bool {
	return p.re == nil || len(text) > maxMatched || p.re.MatchString(text)
}

// knownDrafts are the dialects by what $schema calls them, without the scheme.
var knownDrafts = map[string]*jsonschema.Draft{
	"json-schema.org/schema":               jsonschema.Draft2020,
	"json-schema.org/draft/2020-12/schema": jsonschema.Draft2020,
	"json-schema.org/draft/2019-09/schema": jsonschema.Draft2019,
	"json-schema.org/draft-07/schema":      jsonschema.Draft7,
	"json-schema.org/draft-06/schema":      jsonschema.Draft6,
	"json-schema.org/draft-04/schema":      jsonschema.Draft4,
}

// drafts returns the dialects that a schema may be written in, the likeliest
// first. A $schema that nobody knows is taken out of doc.
func drafts(doc any) []*jsonschema.Draft {
	if fields, ok := doc.(map[string]any); ok {
		name, _ := fields["$schema"].(string)
		_, name, _ = strings.Cut(strings.TrimSuffix(name, "#"), "://")
		if d := knownDrafts[name]; d != nil {
			return []*jsonschema.Draft{d}
		}
		delete(fields, "$schema")
	}
	return []*jsonschema.Draft{jsonschema.Draft2020, jsonschema.Draft7, jsonschema.Draft4}
}

// compileProblem says in a line why a schema can't be compiled.
func compileProblem(err error) string {
	if errors.Is(err, errElsewhere) {
		return errElsewhere.Error()
	}
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok && errors.Is(load.Err, errElsewhere) {
		return errElsewhere.Error()
	}
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if e, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			return "it is no valid schema at " + pointerOf(deepest(e).InstanceLocation)
		}
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return "it is no valid schema: " + clip(strings.ReplaceAll(text, schemaURL, ""))
}

func deepest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	for _, cause := range e.Causes {
		if d := deepest(cause); len(d.InstanceLocation) > len(best.InstanceLocation) {
			best = d
		}
	}
	return best
}

func pointerOf(path []string) string { return "#/" + clip(strings.Join(path, "/")) }

// sane reports whether all numbers of a value are of a size that can be
// reckoned with.
func sane(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return saneNumber(string(v))
	case []any:
		for _, item := range v {
			if !sane(item) {
				return false
			}
		}
	case map[string]any:
		for _, item := range v {
			if !sane(item) {
				return false
			}
		}
	}
	return true
}

func saneNumber(text string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	return len(text) <= maxDigits && len(exponent) <= maxExponent
}

func countObjects(v any) int {
	n := 0
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += countObjects(item)
		}
	case map[string]any:
		n = 1
		for _, item := range v {
			n += countObjects(item)
		}
	}
	return n
}
