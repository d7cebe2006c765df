package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxPart bounds how much of a part of a definition is shown on each side of
	// a change, in bytes, and margin how much of what is the same around it.
	maxPart = 400
	margin  = 40
)

// partNames are the parts of a tool's definition that count: what a model reads
// and what decides on arguments. Others, such as icons, may change.
var partNames = []string{"title", "description", "inputSchema", "outputSchema", "annotations"}

// editionOf returns the edition of a tool object, its definition included.
func editionOf(raw json.RawMessage) edition {
	text, err := canonical(raw)
	if err != nil {
		text = nil // no JSON object: whatever it is, its bytes are it
	}
	sum := sha256.Sum256([]byte(cmp.Or(string(text), string(raw))))
	return edition{Hash: hex.EncodeToString(sum[:]), Since: time.Now().UTC(), Definition: text}
}

// within leaves the definition out if there is no room for it, and else takes
// the room.
func (e edition) within(room *int) edition {
	if len(e.Definition) > *room {
		e.Definition = nil
	}
	*room -= len(e.Definition)
	return e
}

// canonical is the text of the parts that count, the same for equal values.
func canonical(raw json.RawMessage) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	some := map[string]any{}
	for _, name := range partNames {
		if part, ok := all[name]; ok {
			some[name] = sorted(part)
		}
	}
	return json.Marshal(some)
}

// sorted is a JSON value whose objects will be written with their names sorted,
// and its numbers as they are.
func sorted(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	return v
}

// A Part is one part of a definition before and after it changed, without what
// is the same at its start and its end. The texts are as [Plain] leaves them.
type Part struct{ Name, Was, Is string }

// parts tells what is different between two definitions.
func parts(was, is json.RawMessage) []Part {
	var before, after map[string]json.RawMessage
	if json.Unmarshal(was, &before) != nil || json.Unmarshal(is, &after) != nil {
		return nil
	}
	var list []Part
	for _, name := range partNames {
		a, b := text(before[name]), text(after[name])
		if a != b {
			a, b = around(a, b)
			list = append(list, Part{name, Plain(a, maxPart), Plain(b, maxPart)})
		}
	}
	return list
}

// text is a JSON text's value, and of other values what they are written as.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// around cuts what two texts have in common at their starts and ends, but for a
// little of it.
func around(a, b string) (string, string) {
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < min(len(a), len(b))-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return window(a, start, end), window(b, start, end)
}

func window(text string, start, end int) string {
	from, to := max(0, start-margin), min(len(text), len(text)-end+margin)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	var b strings.Builder
	if from > 0 {
		b.WriteString("...")
	}
	b.WriteString(text[from:to])
	if to < len(text) {
		b.WriteString("...")
	}
	return b.String()
}
