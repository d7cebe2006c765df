package register

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// A manifest says what was done to which file, by the file's path.
type manifest struct {
	Version int               `json:"version"` // 1
	Files   map[string]record `json:"files"`
}

// A record is what was done to one file.
type record struct {
	Client string `json:"client"`
	Entry  string `json:"entry"`            // name of the entry in the file
	Backup string `json:"backup,omitempty"` // file in the folder with what was before; "" if there was none
	Before string `json:"before"`           // digest of what was before
	After  string `json:"after"`            // digest of what was written; "" if others have changed it in between
	Made   int    `json:"made,omitempty"`   // keys that were made for the servers

	Moved    map[string]moved `json:"moved,omitempty"`     // servers that are in ~/MCPs now
	SeedMade bool             `json:"seed_made,omitempty"` // their file was not there before
}

// A store keeps manifest and backups in a folder of the person's alone.
type store struct{ dir string }

func (s store) path() string { return filepath.Join(s.dir, "manifest.json") }

func (s store) load() (manifest, error) {
	m := manifest{Version: 1, Files: map[string]record{}}
	data, err := os.ReadFile(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil && m.Version != 1 {
		err = fmt.Errorf("version %d is not known", m.Version)
	}
	if err != nil {
		return m, fmt.Errorf("reading %s: %w", s.path(), err)
	}
	if m.Files == nil {
		m.Files = map[string]record{}
	}
	return m, nil
}

func (s store) save(m manifest) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(s.path(), append(data, '\n'), 0o600)
}

// keep writes a backup of a file, and returns its name.
func (s store) keep(path string, c content) (string, error) {
	if c.absent {
		return "", nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	name := content{data: []byte(path)}.digest()[:16] + "-" + filepath.Base(path)
	return name, renameio.WriteFile(filepath.Join(s.dir, name), c.data, 0o600)
}

// before returns what a file was, if the backup still says so.
func (s store) before(r record) (content, bool) {
	c := content{absent: true}
	if r.Backup != "" {
		data, err := os.ReadFile(filepath.Join(s.dir, filepath.Base(r.Backup)))
		if err != nil {
			return c, false
		}
		c = content{data: data}
	}
	return c, c.digest() == r.Before
}
