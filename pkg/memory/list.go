package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lithammer/fuzzysearch/fuzzy"
)

// A Row is a memory in a list. Broken is why its file can't be read, nil if it
// can.
type Row struct {
	Memory
	Project string // its space's
	Broken  error
}

// List returns the memories whose keys have a prefix, by key, those that can't
// be read among them.
func (sp *Space) List(prefix string) ([]Row, error) {
	files, err := sp.files()
	if err != nil {
		return nil, err
	}
	byKey := map[string]found{}
	for _, e := range files {
		f, err := sp.open(e.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if other, twice := byKey[f.Key]; !strings.HasPrefix(f.Key, prefix) || twice && rank(other) <= rank(f) {
			continue
		}
		byKey[f.Key] = f
	}
	rows := make([]Row, 0, len(byKey))
	for _, f := range byKey {
		rows = append(rows, Row{f.Memory, sp.root, f.broken})
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Key, b.Key) })
	return rows, nil
}

// rank is how early find looks at a file for its key.
func rank(f found) int {
	if f.Key == "" {
		return 0
	}
	return slices.IndexFunc(candidates(f.Key), func(c string) bool { return strings.EqualFold(c, f.name) })
}

// A Hit is a memory that a search has found.
type Hit struct {
	Row
	Snippet string // where the words are, "" if that is the key alone
	score   int
}

// Bounds of a snippet, in bytes.
const (
	snippetBefore = 40
	snippetSize   = 160
)

// Search returns the memories that hold words, of any letter case, in key,
// metadata or value: those with more of the words first, then those that have
// them in the key. If none has any, it returns those whose key is like the query.
func (sp *Space) Search(query string) ([]Hit, error) {
	rows, err := sp.List("")
	if err != nil {
		return nil, err
	}
	words := wordsOf(query)
	var hits []Hit
	for _, row := range rows {
		if h := match(row, words); h.score > 0 {
			hits = append(hits, h)
		}
	}
	if len(hits) == 0 {
		hits = alike(rows, query)
	}
	sortHits(hits)
	return hits, nil
}

func sortHits(hits []Hit) {
	slices.SortStableFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), b.Updated.Compare(a.Updated))
	})
}

func wordsOf(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	slices.Sort(words)
	return slices.Compact(words)
}

// match scores a memory: 100 for each word that it has, and a little for where.
func match(row Row, words []string) Hit {
	h := Hit{Row: row}
	key, metadata := strings.ToLower(row.Key), strings.ToLower(string(row.Metadata))
	value := string(bytes.TrimSpace(row.Value))
	lower := strings.ToLower(value)
	for _, w := range words {
		at := strings.Index(lower, w)
		switch {
		case strings.Contains(key, w):
			h.score += 103
		case strings.Contains(metadata, w):
			h.score += 102
		case at >= 0:
			h.score += 101
		}
		if at >= 0 && h.Snippet == "" && len(lower) == len(value) {
			h.Snippet = snippet(value, at)
		}
	}
	return h
}

// snippet is the part of a value around a place, on one line.
func snippet(value string, at int) string {
	start := max(at-snippetBefore, 0)
	for start > 0 && !utf8.RuneStart(value[start]) {
		start--
	}
	end := min(start+snippetSize, len(value))
	for end < len(value) && !utf8.RuneStart(value[end]) {
		end--
	}
	text := strings.Join(strings.Fields(value[start:end]), " ")
	if start > 0 {
		text = "..." + text
	}
	if end < len(value) {
		text += "..."
	}
	return text
}

// alike returns the memories whose key has the query's letters in their order,
// or few others.
func alike(rows []Row, query string) []Hit {
	var hits []Hit
	query = strings.TrimSpace(query)
	if query == "" || len(query) > 100 {
		return nil
	}
	for _, row := range rows {
		if len(row.Key) > 200 {
			continue
		}
		distance := fuzzy.LevenshteinDistance(strings.ToLower(query), strings.ToLower(row.Key))
		if fuzzy.MatchNormalizedFold(query, row.Key) || distance <= len(query)/3 {
			hits = append(hits, Hit{Row: row, score: 100 - min(distance, 99)})
		}
	}
	return hits
}

// MarshalJSON writes a row as code in the sandbox has it.
func (r Row) MarshalJSON() ([]byte, error) { return plainJSON(r.wire()) }

func (r Row) wire() wireRow {
	w := wireRow{Key: r.Key, Bytes: r.Bytes}
	if r.Project != "" {
		w.Scope = scopeProject
	}
	if r.Broken != nil {
		w.Error = r.Broken.Error()
		return w
	}
	w.Metadata, w.Version = r.Metadata, r.Version
	w.Created, w.Updated = wireTime(r.Created), wireTime(r.Updated)
	return w
}

// plainJSON writes JSON with its characters as they are.
func plainJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
