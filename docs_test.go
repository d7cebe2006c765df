package bridged_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the texts that people read: those here and in docs.
func pages(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	if len(list) < 10 {
		t.Fatalf("found but %d pages", len(list))
	}
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources gives all of the module's files of a kind below a folder, tests only
// or tests left out.
func sources(t *testing.T, dir, suffix string, tests bool) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); !d.IsDir() && strings.HasSuffix(name, suffix) && strings.HasSuffix(name, "_test.go") == tests {
			all.WriteString(read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// found returns what the first group of a pattern matched, each once.
func found(pattern, text string) []string {
	var list []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// anchor is what a heading is linked by.
func anchor(heading string) string {
	kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(strings.TrimSpace(kept), " ", "-")
}

func TestLinksLeadSomewhere(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```|``.*?``|`[^`]*`")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	checked := 0
	for _, page := range pages(t) {
		prose := code.ReplaceAllString(read(t, page), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			checked++
			path, heading, _ := strings.Cut(m[1], "#")
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
				continue
			}
			if heading == "" || !strings.HasSuffix(to, ".md") {
				continue
			}
			var anchors []string
			for _, h := range found(`(?m)^#+ (.+)$`, read(t, to)) {
				anchors = append(anchors, anchor(h))
			}
			if !slices.Contains(anchors, heading) {
				t.Errorf("%s: the link %s names a heading that is not there: %q", page, m[1], anchors)
			}
		}
	}
	if checked < 30 {
		t.Errorf("found but %d links", checked)
	}
}

func TestTheIndexHasEveryPage(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range pages(t) {
		name := filepath.Base(page)
		if filepath.Dir(page) == "docs" && name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

// A README that is longer is not read.
func TestTheReadmeHasTwoScreens(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > 85 {
		t.Errorf("README.md has %d lines: move something to docs", n)
	}
}

func TestErrorCodesAreDocumented(t *testing.T) {
	page := read(t, "docs/helpers.md")
	codes := found(`\bCode\w* *[:=]+ *"([a-z_]+)"`, sources(t, "pkg/proxy", ".go", false)+sources(t, "pkg/memory", ".go", false)+sources(t, "pkg/sandbox", ".go", false))
	if len(codes) < 20 {
		t.Fatalf("found but these codes: %q", codes)
	}
	for _, code := range codes {
		if !strings.Contains(page, "`"+code+"`") {
			t.Errorf("docs/helpers.md does not have the code %s", code)
		}
	}
}

// The page on security says which tests hold its promises.
func TestTestsThatThePageOnSecurityNamesExist(t *testing.T) {
	named := found("`((?:Test|Fuzz)[A-Za-z0-9_]+)`", read(t, "docs/security.md"))
	if len(named) < 60 {
		t.Fatalf("found but %d tests on the page", len(named))
	}
	there := found(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`, sources(t, "cmd", ".go", true)+sources(t, "pkg", ".go", true)+sources(t, "integration", ".go", true))
	for _, name := range named {
		if !slices.Contains(there, name) {
			t.Errorf("docs/security.md names %s, and there is no such test", name)
		}
	}
}

func TestVariablesAreOnThePageOnMigration(t *testing.T) {
	page := read(t, "docs/migration.md")
	variables := found(`"(MCP_BRIDGE_[A-Z_]+)"`, sources(t, "cmd", ".go", false)+sources(t, "pkg", ".go", false))
	if len(variables) < 40 {
		t.Fatalf("found but %d variables", len(variables))
	}
	for _, name := range variables {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/migration.md does not have %s", name)
		}
	}
}

// Frames are named where they are made: in Go and in the harness.
func TestFramesAreOnThePageOnTheProtocol(t *testing.T) {
	page := read(t, "docs/protocol.md")
	frames := slices.Concat(
		found(`\bT: "([a-z]+)"`, sources(t, "pkg/sandbox", ".go", false)),
		found(`"t": "([a-z]+)"`, sources(t, "images/harness", ".py", false)),
		found(`\{"t":"([a-z]+)"`, sources(t, "pkg/sandbox", ".go", false)+sources(t, "images/harness", ".py", false)),
	)
	if len(frames) < 15 {
		t.Fatalf("found but these frames: %q", frames)
	}
	for _, name := range frames {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("docs/protocol.md does not have the frame %s", name)
		}
	}
	for _, name := range found("(?m)^\\| `([a-z]+)` \\|", page) {
		if !strings.Contains(read(t, "pkg/sandbox/doc.go"), "//\t"+name+" ") {
			t.Errorf("docs/protocol.md has the frame %s, and pkg/sandbox/doc.go has not", name)
		}
	}
}
