package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/sandbox"
)

// rowsOf returns what the rows of the table under a heading of a page name
// first.
func rowsOf(t *testing.T, page, heading string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/%s has no %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, row[1])
	}
	return names
}

func expectSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("docs/operations.md has no row for the %s %s", what, name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("docs/operations.md has a row for the %s %s, which there is not", what, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("docs/operations.md has %d rows of %ss, want %d", len(got), what, len(want))
	}
}

func TestTheDocsNameAllEvents(t *testing.T) {
	var want []string
	for _, e := range ops.EventTypes() {
		want = append(want, string(e))
	}
	expectSame(t, "event", rowsOf(t, "operations.md", "## Events"), want)
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range sandbox.Reasons() {
		if !strings.Contains(string(text), "`"+string(r)+"`") {
			t.Errorf("docs/operations.md does not say that a sandbox may end %s", r)
		}
	}
}

func TestTheDocsNameAllMetrics(t *testing.T) {
	expectSame(t, "metric", rowsOf(t, "operations.md", "## Metrics"), newWatching(nil, nil).metrics.Names())
}
