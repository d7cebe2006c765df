package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxKeptLessons bounds what [Catalog.ImportLearnt] reads, in bytes.
const maxKeptLessons = 64 << 20

// keptVersion is the version of the form in which lessons are kept.
const keptVersion = 1

// keptLessons is the form in which what was learnt is kept.
type keptLessons struct {
	Version int          `json:"version"`
	Tools   []keptLesson `json:"tools"`
}

type keptLesson struct {
	Digest string     `json:"digest"`
	Tool   string     `json:"tool"`
	Data   *keptShape `json:"data,omitempty"`
	JSON   *keptShape `json:"json,omitempty"`
	Text   bool       `json:"text,omitempty"`
	Blocks bool       `json:"blocks,omitempty"`
}

// A keptShape is the form in which a shape is kept.
type keptShape struct {
	Kinds  shapeKind            `json:"k"`
	Item   *keptShape           `json:"i,omitempty"`
	Fields map[string]keptField `json:"f,omitempty"`
	Values *keptShape           `json:"v,omitempty"`
	Whole  bool                 `json:"w,omitempty"`
	Wide   bool                 `json:"d,omitempty"`
	Vague  bool                 `json:"g,omitempty"`
}

type keptField struct {
	Of       *keptShape `json:"s"`
	Optional bool       `json:"o,omitempty"`
	Place    int        `json:"p,omitempty"`
}

// ExportLearnt returns what was learnt of all tools' results as JSON, to be kept
// and given to [Catalog.ImportLearnt] later. There are no values in it.
func (c *Catalog) ExportLearnt() ([]byte, error) {
	text, err := json.Marshal(c.lessons.keep())
	if err != nil {
		return nil, fmt.Errorf("writing what was learnt of results: %w", err)
	}
	return text, nil
}

func (l *lessons) keep() keptLessons {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := keptLessons{Version: keptVersion, Tools: []keptLesson{}}
	for key, one := range l.byTool {
		all.Tools = append(all.Tools, keptLesson{key.digest, key.tool, one.data.keep(), one.json.keep(), one.text, one.blocks})
	}
	return all
}

func (s *Shape) keep() *keptShape {
	if s == nil {
		return nil
	}
	k := &keptShape{Kinds: s.kinds, Item: s.item.keep(), Values: s.values.keep(), Whole: s.whole, Wide: s.wide, Vague: s.vague}
	for key, f := range s.fields {
		if k.Fields == nil {
			k.Fields = map[string]keptField{}
		}
		k.Fields[key] = keptField{f.of.keep(), f.optional, f.place}
	}
	return k
}

// ImportLearnt merges what [Catalog.ExportLearnt] returned into what is known.
// The text is not trusted: all bounds are applied to it again.
func (c *Catalog) ImportLearnt(text []byte) error {
	if len(text) > maxKeptLessons {
		return fmt.Errorf("reading what was learnt of results: it is larger than %d MiB", maxKeptLessons>>20)
	}
	var all keptLessons
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("reading what was learnt of results: %w", err)
	}
	if all.Version != keptVersion {
		return errors.New("reading what was learnt of results: it is of another version")
	}
	for _, one := range all.Tools {
		c.lessons.add(toolKey{one.Digest, one.Tool}, learnt{one.Data.shape(0), one.JSON.shape(0), one.Text, one.Blocks})
	}
	return nil
}

// shape makes a shape, within its bounds.
func (k *keptShape) shape(depth int) *Shape {
	if k == nil || depth > maxShapeDepth {
		return nil
	}
	s := &Shape{kinds: k.Kinds & (isDict<<1 - 1), whole: k.Whole, wide: k.Wide, vague: k.Vague}
	if s.kinds < isList {
		return scalarShapes[s.kinds]
	}
	s.item, s.values = k.Item.shape(depth+1), k.Values.shape(depth+1)
	for key, f := range k.Fields {
		of := f.Of.shape(depth + 1)
		switch {
		case of == nil:
		case s.wide || !isFieldName(key) || len(s.fields) > maxShapeFields:
			s.values = s.values.merge(of, depth+1)
		default:
			if s.fields == nil {
				s.fields = map[string]shapeField{}
			}
			s.fields[key] = shapeField{of, f.Optional, f.Place}
		}
	}
	s.settle(depth)
	return s
}
