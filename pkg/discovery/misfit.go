package discovery

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	// maxMisfits bounds the problems that are told of one value.
	maxMisfits = 5

	// maxAllowed bounds the list of what would be allowed, in bytes.
	maxAllowed = 300
)

// A Misfit is one way in which a value breaks its schema.
type Misfit struct {
	Path    string `json:"path"`    // in Python's spelling: ["labels"][0]
	Message string `json:"message"` // what is wrong and what would be right
}

// explain says in a few words what is wrong with a value. ok is false when it
// is the schema that is wrong.
func explain(failed *jsonschema.ValidationError, value, doc any) (misfits []Misfit, ok bool) {
	if refersInCircles(failed) {
		return nil, false
	}
	x := &explainer{value: value, doc: doc}
	x.add(failed)
	slices.SortStableFunc(x.found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	for _, f := range x.found {
		if !slices.Contains(misfits, f.Misfit) {
			misfits = append(misfits, f.Misfit)
		}
	}
	if more := len(misfits) - maxMisfits; more > 0 {
		misfits = misfits[:maxMisfits]
		misfits[maxMisfits-1].Message += fmt.Sprintf(" (and %d more problems)", more)
	}
	return misfits, true
}

func refersInCircles(e *jsonschema.ValidationError) bool {
	switch e.ErrorKind.(type) {
	case *kind.RefCycle, *kind.InvalidJsonValue:
		return true
	}
	return slices.ContainsFunc(e.Causes, refersInCircles)
}

// A finding is a misfit with what decides its place among others: names that
// are wrong come first, since they are mostly the cause of the rest.
type finding struct {
	Misfit
	rank int
}

// An explainer collects what is wrong.
type explainer struct {
	value any
	doc   any
	found []finding
}

func (x *explainer) say(rank int, at []string, format string, args ...any) {
	x.found = append(x.found, finding{Misfit{x.path(at), fmt.Sprintf(format, args...)}, rank})
}

// add takes in an error and what has caused it.
func (x *explainer) add(e *jsonschema.ValidationError) {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		x.addAll(e.Causes)
	case *kind.AnyOf:
		x.choose(e)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			x.say(2, at, "fits several of the alternatives, and must fit one only")
			return
		}
		x.choose(e)
	case *kind.Required:
		x.missing(at, x.withoutDefault(k.Missing, e.SchemaURL), "is missing")
	case *kind.Dependency:
		x.missing(at, k.Missing, "is missing, and is needed with "+strconv.Quote(clip(k.Prop)))
	case *kind.DependentRequired:
		x.missing(at, k.Missing, "is missing, and is needed with "+strconv.Quote(clip(k.Prop)))
	case *kind.AdditionalProperties:
		x.unknown(at, k.Properties, e.SchemaURL)
	case *kind.FalseSchema, *kind.Not:
		x.say(1, at, "is not allowed")
	case *kind.PropertyNames:
		x.say(1, x.holder(at, k.Property), "has the key %s, which is not an allowed name", strconv.Quote(clip(k.Property)))
	default:
		x.say(2, at, "%s", x.unfit(e))
	}
}

func (x *explainer) addAll(causes []*jsonschema.ValidationError) {
	for _, cause := range causes {
		x.add(cause)
	}
}

func (x *explainer) missing(at, names []string, words string) {
	for _, name := range names {
		x.say(1, append(slices.Clone(at), name), "%s", words)
	}
}

// withoutDefault leaves out keys that have a default, whatever the schema says
// of them: some libraries require those too.
func (x *explainer) withoutDefault(names []string, where string) []string {
	props := x.properties(where)
	var out []string
	for _, name := range names {
		fields, _ := props[name].(map[string]any)
		if _, ok := fields["default"]; !ok {
			out = append(out, name)
		}
	}
	return out
}

// unknown tells of keys that a record does not have.
func (x *explainer) unknown(at, names []string, where string) {
	known := slices.Sorted(maps.Keys(x.properties(where)))
	for _, name := range names {
		text := "is unknown"
		near := Nearest(name, known, 2)
		switch {
		case len(near) > 0:
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		case len(known) == 0:
			text += "; there is nothing to pass here"
		default:
			text += "; there are " + list(known)
		}
		x.say(0, append(slices.Clone(at), name), "%s", text)
	}
}

// properties returns what the schema at a place names.
func (x *explainer) properties(where string) map[string]any {
	_, pointer, _ := strings.Cut(where, "#")
	v := x.doc
	for _, step := range strings.Split(pointer, "/")[1:] {
		if text, err := url.PathUnescape(step); err == nil {
			step = text
		}
		v = inside(v, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	fields, _ := v.(map[string]any)
	props, _ := fields["properties"].(map[string]any)
	return props
}

// unfit says what is wrong with one value.
func (x *explainer) unfit(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type, *kind.Enum, *kind.Const:
		return x.mustBe(e.InstanceLocation, wanted(e))
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.Pattern:
		return "must match the regular expression " + clip(k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, not %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, not %d", k.Want, k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d items too many", k.Count)
	case *kind.UniqueItems:
		return fmt.Sprintf("must not have an item twice; %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d keys, not %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d keys, not %d", k.Want, k.Got)
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return "does not have the items that it must have"
	}
	return "does not fit " + clip(strings.Join(e.ErrorKind.KeywordPath(), " "))
}

// mustBe says which types or values would be right.
func (x *explainer) mustBe(at []string, wants []string) string {
	got := x.at(at)
	text := fmt.Sprintf("must be %s, not %s", list(wants), pythonTypeOf(got))
	if s, ok := got.(string); ok {
		var texts []string
		for _, want := range wants {
			if quoted, err := strconv.Unquote(want); err == nil {
				texts = append(texts, quoted)
			}
		}
		if len(texts) == len(wants) { // the type is right
			text = "must be one of " + list(wants)
			if len(wants) == 1 {
				text = "must be " + wants[0]
			}
			if near := Nearest(s, texts, 1); len(near) > 0 && len(wants) > 1 {
				text += "; did you mean " + strconv.Quote(near[0]) + "?"
			}
		}
	}
	if got == nil {
		text += "; leave it out if there is nothing to pass"
	}
	return text
}

// wanted lists the types or values that an error asks for.
func wanted(e *jsonschema.ValidationError) []string {
	var wants []string
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		for _, name := range k.Want {
			if name != "integer" || !slices.Contains(k.Want, "number") {
				wants = append(wants, pythonNames[name])
			}
		}
	case *kind.Enum:
		for _, v := range k.Want {
			wants = append(wants, literalOf(v))
		}
	case *kind.Const:
		wants = append(wants, literalOf(k.Want))
	}
	return wants
}

// choose explains why none of several alternatives fits: by what any of them
// wants when it is all about one value's type, else by the one that comes
// nearest.
func (x *explainer) choose(e *jsonschema.ValidationError) {
	var wants []string
	simple := len(e.Causes) > 0
	for _, cause := range e.Causes {
		leaf := only(cause)
		w := wanted(leaf)
		simple = simple && len(w) > 0 && len(leaf.InstanceLocation) == len(e.InstanceLocation)
		wants = append(wants, w...)
	}
	depth := len(e.InstanceLocation)
	switch {
	case len(e.Causes) == 0:
		x.say(2, e.InstanceLocation, "fits none of the alternatives")
	case simple:
		x.say(2, e.InstanceLocation, "%s", x.mustBe(e.InstanceLocation, compact(wants)))
	default:
		x.add(slices.MinFunc(e.Causes, func(a, b *jsonschema.ValidationError) int {
			return cmp.Compare(farOff(a, depth), farOff(b, depth))
		}))
	}
}

// farOff reckons how far a value at a depth is from an alternative. One of
// another type is not what was meant, and a constant mostly tells alternatives
// apart.
func farOff(e *jsonschema.ValidationError, depth int) int {
	far := 0
	for _, cause := range e.Causes {
		far += farOff(cause, depth)
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		if far++; len(e.InstanceLocation) == depth {
			far += 1000
		}
	case *kind.Const, *kind.Enum:
		far += 20
	case *kind.Required:
		far += len(k.Missing)
	case *kind.AdditionalProperties:
		far += len(k.Properties)
	default:
		far++
	}
	return far
}

// compact removes what is listed twice, and keeps the order.
func compact(texts []string) []string {
	var out []string
	for _, text := range texts {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// only follows errors with one cause to their end.
func only(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(e.Causes) == 1 {
		e = e.Causes[0]
	}
	return e
}
