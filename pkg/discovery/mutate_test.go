package discovery

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// mutationLimit bounds the reading of one mutated file, generously.
const mutationLimit = time.Minute

// A specimen is a sample with the rows of the table that read it.
type specimen struct {
	file string // as it lies in the tree of samples
	text []byte
	opts Options
	rows []placedRow
}

type placedRow struct {
	row int
	at  location
}

func (sp specimen) isJSON() bool {
	return !slices.Contains([]string{".toml", ".yaml"}, filepath.Ext(sp.file))
}

// specimens returns every sample that defines servers.
func specimens(t *testing.T) []specimen {
	t.Helper()
	want := readExpectations(t)
	tr := copySamples(t, want, func(string) bool { return true })
	var list []specimen
	for _, f := range want.Files {
		if f.Agent == "edge" {
			continue
		}
		project := "project"
		if strings.HasPrefix(f.File, "project-vs") {
			project = "project-vs"
		}
		sp := specimen{file: filepath.Join(tr.root, f.File), opts: tr.options(f.OS, project)}
		sp.opts.Memory = nil
		data, err := readBounded(sp.file, maxStateFile)
		if err != nil {
			t.Fatal(err)
		}
		sp.text, _ = decodeText(data)
		sp.rows = sp.findRows()
		if len(sp.rows) > 0 { // else it holds only lists of what is on
			list = append(list, sp)
		}
	}
	if len(list) < 45 {
		t.Fatalf("only %d samples define servers", len(list))
	}
	return list
}

func (sp specimen) findRows() []placedRow {
	l := newTestLoader(sp.opts)
	var rows []placedRow
	for i := range sources {
		for _, p := range l.places(&sources[i]) {
			if slices.Contains(l.files(p), sp.file) {
				rows = append(rows, placedRow{i, p})
			}
		}
	}
	return rows
}

func newTestLoader(opts Options) *loader {
	l := &loader{opts: opts, docs: map[string]*document{}, rejected: map[string]bool{}, filled: map[string]base{}}
	l.projects = l.projectDirs()
	return l
}

// read reads the file as if it held data, or as a tree if that is given, and
// fails the test when that panics or hangs.
func (sp specimen) read(t *testing.T, what string, data []byte, tree *node) Result {
	t.Helper()
	done := make(chan Result, 1)
	go func() {
		l := newTestLoader(sp.opts)
		if tree != nil {
			l.docs[sp.file] = &document{path: sp.file, report: l.report, tree: tree, warned: map[string]bool{}}
		} else {
			text, _ := decodeText(data)
			l.docs[sp.file] = l.read(sp.file, text)
		}
		for _, r := range sp.rows {
			l.readFile(r.row, sp.file, r.at)
		}
		l.mergeFiles()
		done <- l.resolve()
	}()
	select {
	case res := <-done:
		return res
	case <-time.After(mutationLimit):
		t.Fatalf("%s: %s: it is still being read after %s", sp.file, what, mutationLimit)
	}
	return Result{}
}

// checkProblems checks that every problem of the file says where it is.
func (sp specimen) checkProblems(t *testing.T, what string, res Result, lines int) {
	t.Helper()
	for _, p := range res.Problems {
		if p.Path == "" || p.Line < 0 || p.Path == sp.file && p.Line > lines+1 || !utf8.ValidString(p.Msg) || p.Msg == "" {
			t.Errorf("%s: of %d lines: a problem says %q", what, lines, p)
		}
	}
}

func (sp specimen) told(res Result) bool {
	return slices.ContainsFunc(res.Problems, func(p Problem) bool { return p.Path == sp.file && p.Line > 0 })
}

// byPlace returns the servers of a result by name and line, which two servers of
// one agent and name differ in.
func byPlace(res Result) map[string]Server {
	out := map[string]Server{}
	for _, s := range all(res) {
		out[fmt.Sprint(s.Name, " at ", s.Sources[0].Key)] = s
	}
	return out
}

var sameServer = cmp.AllowUnexported(Server{})

func TestATruncatedSampleIsToldAndNeverHarms(t *testing.T) {
	for _, sp := range specimens(t) {
		whole := byPlace(sp.read(t, "whole", sp.text, nil))
		step := 1 + len(sp.text)/1500
		for cut := 0; cut < len(sp.text); cut += step {
			what := fmt.Sprintf("%s cut at %d", filepath.Base(sp.file), cut)
			text := sp.text[:cut]
			res := sp.read(t, what, text, nil)
			sp.checkProblems(t, what, res, 1+bytes.Count(text, []byte{'\n'}))
			if got := byPlace(res); sp.isJSON() && len(got) < len(whole) && !sp.told(res) && !isBlank(text) {
				t.Errorf("%s: got %q, and no problem with a line:\n%s", what, slices.Sorted(maps.Keys(got)), problems(res))
			}
		}
	}
}

// isBlank reports whether there is nothing but space and comments so far.
func isBlank(text []byte) bool {
	at, err := scanner{text}.space(0)
	return err == nil && at == len(text)
}

func TestSamplesAreReadInEveryEncoding(t *testing.T) {
	utf16As := func(order binary.AppendByteOrder, text []byte) []byte {
		data := order.AppendUint16(nil, 0xFEFF)
		for _, unit := range utf16.Encode([]rune(string(text))) {
			data = order.AppendUint16(data, unit)
		}
		return data
	}
	encodings := map[string]func(text []byte) []byte{
		"UTF-8 with a mark": func(text []byte) []byte { return append(slices.Clone(bomUTF8), text...) },
		"UTF-16LE":          func(text []byte) []byte { return utf16As(binary.LittleEndian, text) },
		"UTF-16BE":          func(text []byte) []byte { return utf16As(binary.BigEndian, text) },
		"CRLF":              func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")) },
	}
	for _, sp := range specimens(t) {
		text := bytes.ReplaceAll(sp.text, []byte("\r\n"), []byte("\n"))
		want := sp.read(t, "whole", text, nil)
		for name, encode := range encodings {
			got := sp.read(t, name, encode(text), nil)
			if diff := cmp.Diff(byPlace(want), byPlace(got), sameServer); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", sp.file, name, diff)
			}
			if problems(got) != problems(want) {
				t.Errorf("%s in %s: problems\n%swant\n%s", sp.file, name, problems(got), problems(want))
			}
		}
	}
}

func TestADuplicateKeyInASampleIsToldAndTheLastCounts(t *testing.T) {
	for _, sp := range specimens(t) {
		if !sp.isJSON() {
			continue
		}
		want := byPlace(sp.read(t, "whole", sp.text, nil))
		for _, m := range sp.serverMaps(t) {
			for _, server := range m.members {
				text := slices.Concat(sp.text[:m.at+1], fmt.Appendf(nil, "%q: {\"command\": \"loser\"}, ", server.key), sp.text[m.at+1:])
				res := sp.read(t, "duplicate", text, nil)
				if diff := cmp.Diff(want, byPlace(res), sameServer); diff != "" {
					t.Errorf("%s with %s twice (-want +got):\n%s", sp.file, server.key, diff)
				}
				if !strings.Contains(problems(res), "more than once") || !sp.told(res) {
					t.Errorf("%s with %s twice: problems\n%s", sp.file, server.key, problems(res))
				}
			}
		}
	}
}

// A serverMap is a map of servers in the text of a sample in JSON.
type serverMap struct {
	key     []string
	at      int // of its brace
	members []member
}

func (sp specimen) serverMaps(t *testing.T) []serverMap {
	t.Helper()
	var maps []serverMap
	for _, r := range sp.rows {
		l := newTestLoader(sp.opts)
		doc, err := parseDocument(sp.file, sp.text, l.report)
		if err != nil {
			t.Fatal(err)
		}
		key := l.keyIn(&sources[r.row], doc)
		m, ok, err := doc.find(key...)
		if err != nil || !ok || doc.kind(m) != kindObject {
			continue
		}
		list, err := doc.members(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		maps = append(maps, serverMap{key, m.at, list})
	}
	return maps
}

// TestABrokenValueInASampleSparesItsNeighbours puts what is no JSON in place of
// each field's value.
func TestABrokenValueInASampleSparesItsNeighbours(t *testing.T) {
	for _, sp := range specimens(t) {
		if !sp.isJSON() {
			continue
		}
		want := byPlace(sp.read(t, "whole", sp.text, nil))
		for _, m := range sp.serverMaps(t) {
			for _, server := range m.members {
				fields, _, err := scanner{sp.text}.members(server.at)
				if err != nil {
					continue
				}
				for _, f := range fields {
					text := slices.Concat(sp.text[:f.at], []byte("tru"), sp.text[f.end:])
					what := fmt.Sprintf("%s: %s.%s broken", sp.file, server.key, f.key)
					res := sp.read(t, what, text, nil)
					sp.checkNeighbours(t, what, joinKey(append(slices.Clone(m.key), server.key)...), want, res)
					if !sp.told(res) {
						t.Errorf("%s: no problem with a line:\n%s", what, problems(res))
					}
				}
			}
		}
	}
}

// checkNeighbours compares all servers but the one of an entry.
func (sp specimen) checkNeighbours(t *testing.T, what, entry string, want map[string]Server, res Result) {
	t.Helper()
	others := func(all map[string]Server) map[string]Server {
		kept := map[string]Server{}
		for place, s := range all {
			if s.Sources[0].Key != entry {
				s.Sources = []Source{{Agent: s.Agent(), Path: s.Sources[0].Path, Key: s.Sources[0].Key}}
				kept[place] = s
			}
		}
		return kept
	}
	if diff := cmp.Diff(others(want), others(byPlace(res)), sameServer); diff != "" {
		t.Errorf("%s: neighbours (-want +got):\n%s", what, diff)
	}
}

func hasEntry(all map[string]Server, key string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(all)), func(s Server) bool { return s.Sources[0].Key == key })
}

// wrongValues are values of every type.
var wrongValues = []node{
	{kind: kindNull}, {kind: kindTrue, text: "true"}, {kind: kindNumber, text: "-1e999"}, {kind: kindString, text: ""},
	{kind: kindString, text: "\x00${UNSET:-x} {file:/nowhere} $(id) {{x}}"}, {kind: kindArray}, {kind: kindObject},
	{kind: kindArray, items: []node{{kind: kindNull}, {kind: kindObject}, {kind: kindString, text: "w"}}},
	{kind: kindObject, fields: []field{{"a", 1, node{kind: kindArray, line: 1}}, {"", 1, node{kind: kindNull, line: 1}}}},
}

func TestAWrongTypeInASampleSparesItsNeighbours(t *testing.T) {
	for _, sp := range specimens(t) {
		tree, err := treeOf(sp)
		if err != nil {
			t.Fatal(err)
		}
		lines := 1 + bytes.Count(sp.text, []byte{'\n'})
		want := byPlace(sp.read(t, "whole", nil, &tree))
		for _, r := range sp.rows {
			key := newTestLoader(sp.opts).keyIn(&sources[r.row], &document{path: sp.file, tree: &tree, warned: map[string]bool{}})
			list := at(&tree, key)
			if list == nil {
				continue
			}
			for i := range list.fields {
				sp.mistype(t, lines, &tree, append(slices.Clone(key), list.fields[i].key), &list.fields[i].val, want)
			}
			for i := range list.items {
				sp.mistype(t, lines, &tree, append(slices.Clone(key), strconv.Itoa(i)), &list.items[i], want)
			}
		}
	}
}

// mistype puts every wrong value in place of a server's entry and of each of
// its fields, in turn.
func (sp specimen) mistype(t *testing.T, lines int, tree *node, key []string, entry *node, want map[string]Server) {
	t.Helper()
	name := joinKey(key...)
	good := *entry
	try := func(place *node, what string) {
		was := *place
		for i, wrong := range wrongValues {
			wrong.line = max(was.line, 1)
			*place = wrong
			what := fmt.Sprintf("%s: %s with value %d", sp.file, what, i)
			res := sp.read(t, what, nil, tree)
			sp.checkNeighbours(t, what, name, want, res)
			sp.checkProblems(t, what, res, lines)
			if hasEntry(want, name) && !hasEntry(byPlace(res), name) && !sp.told(res) {
				t.Errorf("%s: it is gone, and no problem says so:\n%s", what, problems(res))
			}
		}
		*place = was
	}
	try(entry, name)
	*entry = good
	entry.fields = slices.Clone(good.fields)
	for i := range entry.fields {
		try(&entry.fields[i].val, name+"."+entry.fields[i].key)
	}
	*entry = good
}

// treeOf decodes a sample as a whole.
func treeOf(sp specimen) (node, error) {
	switch filepath.Ext(sp.file) {
	case ".toml":
		return parseTOML(sp.text)
	case ".yaml":
		return parseYAML(sp.text)
	}
	return parseValue(sp.text, 1)
}

// at returns the value at a path of keys.
func at(n *node, path []string) *node {
	for _, key := range path {
		i := slices.IndexFunc(n.fields, func(f field) bool { return f.key == key })
		if i < 0 {
			return nil
		}
		n = &n.fields[i].val
	}
	return n
}

func TestAPaddedFileIsReadOrToldToBeTooLarge(t *testing.T) {
	padding := strings.Repeat(" ", 10<<20)
	tests := []struct {
		file, text string
		read       bool
	}{
		{"home/.claude.json", `{"mcpServers": {"s": {"command": "x"}}}`, true},
		{"home/.config/Code/User/settings.json", `{"mcp": {"servers": {"s": {"command": "x"}}}}`, true},
		{"home/.cursor/mcp.json", `{"mcpServers": {"s": {"command": "x"}}}`, false},
		{"home/.codex/config.toml", "[mcp_servers.s]\ncommand = 'x'\n", false},
		{"home/.continue/config.yaml", "mcpServers:\n- {name: s, command: x}\n", false},
	}
	for _, tt := range tests {
		res, root := tree{tt.file: tt.text + padding, "home/.gemini/settings.json": `{"mcpServers": {"other": {"command": "x"}}}`, "work/x": ""}.loadAs(t, "linux", nil)
		want := []string{"other"}
		if tt.read {
			want = []string{"other", "s"}
		}
		told := strings.Contains(problems(res), filepath.Join(root, tt.file)+": reading the file: it is larger than 4 MiB")
		if diff := cmp.Diff(want, names(res.Servers)); diff != "" || told == tt.read {
			t.Errorf("%s: servers (-want +got):\n%sproblems %s", tt.file, diff, problems(res))
		}
	}
}
