package memory

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBackupBringsAllBack(t *testing.T) {
	s := newStore(t, Options{})
	project := t.TempDir()
	save(t, s.Global(), "Ünï", `{"a":"<é>","n":12345678901234567890}`)
	save(t, s.Global(), "twice", "1")
	save(t, s.Global(), "twice", "2")
	save(t, s.Project(project), "k", "[3]")
	write(t, s.Global(), "broken.json", "{")
	var b bytes.Buffer
	n, broken, err := s.Export(&b)
	if err != nil || n != 3 || len(broken) != 1 {
		t.Fatalf("exported %d, %v, %v", n, broken, err)
	}
	other := newStore(t, Options{})
	save(t, other.Global(), "twice", `"other"`)
	load := func(replace bool) Imported {
		t.Helper()
		done, err := other.Import(t.Context(), bytes.NewReader(b.Bytes()), replace)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	for _, step := range []struct {
		replace bool
		want    Imported
	}{
		{false, Imported{Added: 2, Kept: []string{"twice"}}},
		{false, Imported{Same: 2, Kept: []string{"twice"}}},
		{true, Imported{Same: 2, Replaced: 1}},
	} {
		if diff := cmp.Diff(step.want, load(step.replace)); diff != "" {
			t.Errorf("the import did other things (-want +got):\n%s", diff)
		}
	}
	was, err := s.All()
	if err != nil {
		t.Fatal(err)
	}
	is, err := other.All()
	if err != nil {
		t.Fatal(err)
	}
	facts := func(rows []Row) (list []string) {
		for _, r := range rows {
			if r.Broken == nil {
				list = append(list, strings.Join([]string{r.Project, r.Key, string(r.Value), r.Created.String(), r.Updated.String()}, " "))
			}
		}
		return list
	}
	if diff := cmp.Diff(facts(was), facts(is)); diff != "" {
		t.Errorf("what came back is not what was (-want +got):\n%s", diff)
	}
	if m, err := other.Global().Load("twice"); err != nil || m.Version != 2 {
		t.Errorf("the version is %d, %v", m.Version, err)
	}
}

func TestBackupThatIsNoneIsRefused(t *testing.T) {
	s := newStore(t, Options{MaxBytes: 10})
	for text, want := range map[string]string{
		"":                         "reading the backup",
		"[]":                       "reading the backup",
		"{}":                       "it is none, or of another version",
		`{"bridged_memories": 99}`: "bridged_memories is 99",
	} {
		if _, err := s.Import(t.Context(), strings.NewReader(text), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
	rows := []map[string]any{
		{"key": "", "value": 1}, {"key": "a", "value": 1, "project": "rel"}, {"key": "big", "value": "xxxxxxxxxxxxxxx"}, {"key": "good", "value": 1},
	}
	text, err := json.Marshal(map[string]any{"bridged_memories": 1, "memories": rows})
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.Import(t.Context(), bytes.NewReader(text), false)
	if err != nil || done.Added != 1 || len(done.Failed) != 3 {
		t.Errorf("imported %+v, %v", done, err)
	}
}
