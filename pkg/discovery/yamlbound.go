package discovery

import (
	"bytes"
	"fmt"
)

// maxYAMLSiblings bounds the keys or items of one block. The decoder's time
// grows with their square.
const maxYAMLSiblings = 3000

// boundYAML refuses texts that are small but would keep the decoder busy for
// long: deep ones, very many siblings or values in all, and lines that are mappings within
// mappings. It counts what looks like structure, also in texts.
func boundYAML(src []byte) error {
	if err := nestingOf(src); err != nil {
		return err
	}
	var b yamlBlocks
	line, total := 0, 0
	for text := range bytes.Lines(src) {
		line++
		rest := bytes.TrimLeft(text, " ")
		if len(bytes.TrimSpace(rest)) == 0 || rest[0] == '#' {
			continue
		}
		marks := bytes.Count(rest, []byte("- ")) + bytes.Count(rest, []byte("? ")) +
			bytes.Count(rest, []byte(": ")) + bytes.Count(rest, []byte(", ")) + bytes.Count(rest, []byte(","))
		if marks > maxYAMLSiblings || bytes.Count(rest, []byte("- "))+bytes.Count(rest, []byte("? ")) > maxDepth ||
			bytes.Count(rest, []byte("!")) > maxYAMLSiblings || bytes.Count(rest, []byte("&")) > maxYAMLSiblings {
			return &lineError{line, fmt.Sprintf("nested more than %d deep, or more than %d values on one line", maxDepth, maxYAMLSiblings)}
		}
		if total += 1 + marks + bytes.Count(rest, []byte{'"'}) + bytes.Count(rest, []byte{'\''}); total > maxNodes {
			return &lineError{line, fmt.Sprintf("more than %d lines, values and quotes in all", maxNodes)}
		}
		if b.add(len(text)-len(rest)) > maxYAMLSiblings {
			return &lineError{line, fmt.Sprintf("more than %d keys, items or lines in one block", maxYAMLSiblings)}
		}
	}
	return nil
}

// yamlBlocks counts the lines of each block that is open.
type yamlBlocks struct {
	indent []int
	count  []int
}

// add counts a line, and returns how many its block has.
func (b *yamlBlocks) add(indent int) int {
	for len(b.indent) > 0 && b.indent[len(b.indent)-1] > indent {
		b.indent, b.count = b.indent[:len(b.indent)-1], b.count[:len(b.count)-1]
	}
	if len(b.indent) == 0 || b.indent[len(b.indent)-1] < indent {
		b.indent, b.count = append(b.indent, indent), append(b.count, 0)
	}
	b.count[len(b.count)-1]++
	return b.count[len(b.count)-1]
}
