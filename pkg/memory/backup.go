package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// backupForm is the version of the form of a backup.
const backupForm = 1

// A backup is what Export writes.
type backup struct {
	Form     int         `json:"bridged_memories"`
	Exported time.Time   `json:"exported"`
	Memories []backupRow `json:"memories"`
}

type backupRow struct {
	Project  string          `json:"project,omitempty"`
	Key      string          `json:"key"`
	Value    json.RawMessage `json:"value"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"`
	Version  int64           `json:"version"`
}

// All lists the memories of all spaces, the global ones first.
func (s *Store) All() ([]Row, error) {
	rows, err := s.Global().List("")
	if err != nil {
		return nil, err
	}
	projects, err := s.Projects()
	if err != nil {
		return nil, fmt.Errorf("listing the projects: %w", err)
	}
	for _, sp := range projects {
		more, err := sp.List("")
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// Export writes all memories of all spaces as one JSON document, and returns how
// many. Those that can't be read are left out and returned.
func (s *Store) Export(w io.Writer) (n int, broken []error, err error) {
	rows, err := s.All()
	if err != nil {
		return 0, nil, err
	}
	b := backup{Form: backupForm, Exported: s.now().UTC().Round(0), Memories: []backupRow{}}
	for _, r := range rows {
		if r.Broken != nil {
			broken = append(broken, r.Broken)
			continue
		}
		b.Memories = append(b.Memories, backupRow{r.Project, r.Key, r.Value, r.Metadata, r.Created, r.Updated, r.Version})
	}
	text, err := plainJSON(b)
	if err != nil {
		return 0, nil, fmt.Errorf("writing the backup: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", " "); err != nil {
		return 0, nil, fmt.Errorf("writing the backup: %w", err)
	}
	out.WriteByte('\n')
	if _, err := w.Write(out.Bytes()); err != nil {
		return 0, nil, fmt.Errorf("writing the backup: %w", err)
	}
	return len(b.Memories), broken, nil
}

// Imported says what became of the memories of a backup.
type Imported struct {
	Added, Same, Replaced int
	Kept                  []string // keys of those that differ and were not replaced
	Failed                []error
}

// Import saves the memories of a backup. One that is there and differs is
// replaced if replace is set, and else left as it is. One that can't be saved
// keeps none of the others out.
func (s *Store) Import(ctx context.Context, r io.Reader, replace bool) (Imported, error) {
	var done Imported
	text, err := io.ReadAll(r)
	if err != nil {
		return done, fmt.Errorf("reading the backup: %w", err)
	}
	var b backup
	if err := json.Unmarshal(text, &b); err != nil {
		return done, fmt.Errorf("reading the backup: %w", err)
	}
	if b.Form != backupForm {
		return done, fmt.Errorf("reading the backup: it is none, or of another version (bridged_memories is %d, want %d)", b.Form, backupForm)
	}
	for _, row := range b.Memories {
		if err := s.restoreRow(ctx, row, replace, &done); err != nil {
			done.Failed = append(done.Failed, fmt.Errorf("memory %q: %w", row.Key, err))
		}
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
	}
	return done, nil
}

func (s *Store) restoreRow(ctx context.Context, row backupRow, replace bool, done *Imported) error {
	sp := s.Global()
	if row.Project != "" {
		if !filepath.IsAbs(row.Project) {
			return fmt.Errorf("its project %q is no absolute path", row.Project)
		}
		sp = s.space(filepath.Join(s.opts.Dir, projectsDir, slug(row.Project)), row.Project)
	}
	m := Memory{Key: row.Key, Created: row.Created.UTC(), Updated: row.Updated.UTC(), Version: row.Version, Metadata: json.RawMessage("{}")}
	if m.Version < 0 || m.Version >= maxVersion {
		m.Version = 0
	}
	var err error
	if m.Value, err = readable(row.Value); err != nil {
		return err
	}
	if len(row.Metadata) > 0 && row.Metadata[0] == '{' {
		m.Metadata = compact(row.Metadata)
	}
	return sp.put(ctx, m, replace, done)
}

// put saves a memory as it was, unless it is there.
func (sp *Space) put(ctx context.Context, m Memory, replace bool, done *Imported) error {
	if err := checkKey(m.Key); err != nil {
		return err
	}
	unlock, err := sp.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	was, err := sp.find(m.Key)
	switch {
	case err != nil:
		return err
	case was.broken != nil:
		return was.broken
	case was.name == "":
		m.Name = was.free
	case bytes.Equal(was.Value, m.Value) && bytes.Equal(was.Metadata, m.Metadata):
		done.Same++
		return nil
	case !replace:
		done.Kept = append(done.Kept, m.Key)
		return nil
	default:
		m.Name, m.rest = was.name, was.rest
	}
	if _, err := sp.replace(was, m); err != nil {
		return err
	}
	if was.name == "" {
		done.Added++
	} else {
		done.Replaced++
	}
	return nil
}
