package register

import (
	"fmt"
	"strings"
)

// context is how many equal lines a diff shows around what differs.
const context = 3

// unified compares two texts line by line. What differs is shown as one hunk,
// which is what edits in one place need.
func unified(path string, before, after content) string {
	from, to := path, path
	if before.absent {
		from = "/dev/null"
	}
	if after.absent {
		to = "/dev/null"
	}
	a, b := strings.SplitAfter(string(before.data), "\n"), strings.SplitAfter(string(after.data), "\n")
	a, b = dropEmpty(a), dropEmpty(b)
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	start, rest := max(0, head-context), min(tail, context)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", from, to,
		span(start, len(a)-tail+rest), span(start, len(b)-tail+rest))
	hunk(&out, " ", a[start:head])
	hunk(&out, "-", a[head:len(a)-tail])
	hunk(&out, "+", b[head:len(b)-tail])
	hunk(&out, " ", a[len(a)-tail:len(a)-tail+rest])
	return out.String()
}

func dropEmpty(lines []string) []string {
	if lines[len(lines)-1] == "" {
		return lines[:len(lines)-1]
	}
	return lines
}

// span writes a range of lines as diffs do: from line 1, or 0 when there are none.
func span(start, end int) string {
	if start == end {
		return fmt.Sprintf("%d,0", start)
	}
	return fmt.Sprintf("%d,%d", start+1, end-start)
}

func hunk(out *strings.Builder, sign string, lines []string) {
	for _, line := range lines {
		text, ended := strings.CutSuffix(line, "\n")
		out.WriteString(sign + text + "\n")
		if !ended {
			out.WriteString("\\ No newline at end of file\n")
		}
	}
}
