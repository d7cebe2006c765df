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

	// Loose means that the schema does not say which arguments there are, so
	// any may be passed.
	Loose bool

	// Problem says what is odd about the definition; empty means nothing. An
	// odd tool can still be called.
	Problem string
}

// A Param is one argument of a tool.
type Param struct {
	Name        string // as it goes over the wire
	Type        string // in Python's words, such as list[str]
	Description string
	Required    bool
	Default     string // as Python writes it; empty means none is known
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
	for i, raw := range raws {
		t, err := parseTool(raw)
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

func (t *Tool) addProblem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case t.Problem == "":
		t.Problem = text
	case !strings.Contains(t.Problem, text) && len(t.Problem) < 1000:
		t.Problem += "; " + text
	}
}

func parseTool(raw json.RawMessage) (Tool, error) {
	fields, err := objectOf(raw)
	if err != nil {
		return Tool{}, err
	}
	t := Tool{Name: textOf(fields["name"]), Title: textOf(fields["title"]), Description: textOf(fields["description"]), Raw: raw}
	if t.Name == "" {
		return Tool{}, fmt.Errorf("it has no name")
	}
	if len(raw) > maxToolBytes {
		return oversized(t), nil
	}
	(&schemaReader{tool: &t, budget: maxSchemaWork}).readInput(fields["inputSchema"])
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

// objectOf splits a JSON object into its members.
func objectOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("it is not a JSON object")
	}
	return fields, nil
}

// textOf returns a JSON string's text, and nothing for any other value.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
