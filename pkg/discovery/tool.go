package discovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxTools bounds one server's tools.
	maxTools = 10_000

	// maxToolBytes bounds one tool's object. A larger one keeps its name.
	maxToolBytes = 1 << 20
)

// A Tool is one tool of one server.
type Tool struct {
	Server      string // as the session calls it; see [Ref]
	Name        string // the exact name that calls must carry
	Title       string
	Description string
	Raw         json.RawMessage // the server's own object, untouched
	Params      []Param         // required ones first
	ReadOnly    bool            // the server says that it changes nothing, which proves nothing

	// Loose means that the schema does not say which arguments there are, so
	// any may be passed.
	Loose bool

	// Problem says what is odd about the definition; empty means nothing. An
	// odd tool can still be called.
	Problem string

	output    *pyType // what its outputSchema says; nil means nothing
	hasOutput bool    // it has an outputSchema
	wrapped   bool    // code gets what is under the key result of its data
	learnt    learnt  // what its results were like, if known
	known     bool
}

// ParseTools reads the tool objects of a tools/list result. Each tool stands
// alone: an odd one is kept with a loose schema and its Problem. skipped tells
// about the objects that are no tools at all, or that repeat a name: since a
// call could not tell them apart, only the first of them is kept.
func ParseTools(raws []json.RawMessage) (tools []Tool, skipped []string) {
	if len(raws) > maxTools {
		skipped = append(skipped, fmt.Sprintf("only the first %d of %d tools are kept", maxTools, len(raws)))
		raws = raws[:maxTools]
	}
	at := make(map[string]int, len(raws))
	work := maxListWork
	for i, raw := range raws {
		t, err := parseTool(raw, &work)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("tool %d: %v", i, err))
			continue
		}
		if first, ok := at[t.Name]; ok {
			skipped = append(skipped, fmt.Sprintf("tool %d: the name %q is taken by tool %d", i, clip(t.Name), first))
			tools[first].addProblem("its server lists the name more than once; this is the first of them")
			continue
		}
		at[t.Name] = len(tools)
		tools = append(tools, t)
	}
	return tools, skipped
}

func saysReadOnly(annotations json.RawMessage) bool {
	fields, err := objectOf(annotations)
	return err == nil && string(fields["readOnlyHint"]) == "true"
}

func (t *Tool) addProblem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case t.Problem == "":
		t.Problem = text
	case !strings.Contains(t.Problem, text) && len(t.Problem) < 1000:
		t.Problem += "; " + text
	}
}

// parseTool reads one tool, with what is left of the work for all of them.
func parseTool(raw json.RawMessage, work *int) (Tool, error) {
	fields, err := objectOf(raw)
	if err != nil || !json.Valid(raw) {
		return Tool{}, errNoObject
	}
	t := Tool{Name: textOf(fields["name"]), Title: textOf(fields["title"]), Description: textOf(fields["description"]), Raw: raw}
	if t.Name == "" {
		return Tool{}, fmt.Errorf("it has no name")
	}
	t.ReadOnly = saysReadOnly(fields["annotations"])
	if len(raw) > maxToolBytes {
		return oversized(t), nil
	}
	budget := min(*work, maxSchemaWork)
	r := &schemaReader{tool: &t, budget: budget}
	r.readInput(fields["inputSchema"])
	r.readOutput(fields["outputSchema"])
	*work -= budget - max(r.budget, 0)
	if *work <= 0 {
		t.addProblem("some of its types are not shown: the schemas of its server are too much work")
	}
	return t, nil
}

// oversized keeps what is needed to call a tool whose object is too large.
func oversized(t Tool) Tool {
	t.addProblem("its definition is larger than %d KiB and was cut", maxToolBytes>>10)
	t.Loose = true
	t.Title, t.Description = "", clip(t.Description)
	raw, err := json.Marshal(map[string]any{
		"name": t.Name, "description": t.Description, "inputSchema": map[string]string{"type": "object"},
	})
	if err != nil {
		panic("discovery: marshaling strings: " + err.Error()) // cannot happen
	}
	t.Raw = raw
	return t
}

// clip bounds a text of a stranger's in a message.
func clip(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	cut := limit
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

// Schemas returns the tool's schemas as its server wrote them, nil where there
// is none.
func (t Tool) Schemas() (input, output json.RawMessage) {
	eachMember(t.Raw, func(key string, value json.RawMessage) {
		switch key {
		case "inputSchema":
			input = value
		case "outputSchema":
			output = value
		}
	})
	return input, output
}
