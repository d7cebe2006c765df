package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
)

// maxPinFile bounds the file of pins, in bytes. When it would get larger, the
// kept definitions of the servers that were not seen for longest are left out.
const maxPinFile = 64 << 20

// pinFile is the file's content.
type pinFile struct {
	Version int                      `json:"version"`
	Servers map[string]*pinnedServer `json:"servers"`
}

// OpenPins returns pins that are kept in a file, which need not be there yet. A
// file that can't be read is an error: to go on without it would accept
// whatever servers say now.
func OpenPins(path string, strict bool) (*Pins, error) {
	p := NewPins(strict)
	p.save = func(data []byte) error { return writePins(path, data) }
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading pins: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	data, err := io.ReadAll(io.LimitReader(f, 2*maxPinFile))
	if err != nil {
		return nil, fmt.Errorf("reading pins: %w", err)
	}
	var content pinFile
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("reading pins: %s is damaged (%w): remove it to have all tools accepted as they are now", path, err)
	}
	if content.Version != 1 {
		return nil, fmt.Errorf("reading pins: %s is of another version of bridged (%d): remove it to have all tools accepted as they are now", path, content.Version)
	}
	for key, s := range content.Servers {
		if s != nil && s.Tools != nil {
			p.servers[key] = s
		}
	}
	return p, nil
}

func writePins(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("saving pins: %w", err)
	}
	if err := renameio.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("saving pins: %w", err)
	}
	return nil
}

// store saves what there is now. Saves are in order: the last one has it all.
func (p *Pins) store() error {
	if p.save == nil {
		return nil
	}
	p.saving.Lock()
	defer p.saving.Unlock()
	data, err := p.encode()
	if err != nil {
		return fmt.Errorf("saving pins: %w", err)
	}
	return p.save(data)
}

func (p *Pins) encode() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trimLocked(maxPinFile)
	return json.Marshal(pinFile{Version: 1, Servers: p.servers})
}

// trimLocked drops kept definitions until they come to at most limit bytes.
func (p *Pins) trimLocked(limit int) {
	total := 0
	var list []*pinnedServer
	for _, s := range p.servers {
		total += s.kept()
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *pinnedServer) int { return a.Seen.Compare(b.Seen) })
	for _, s := range list {
		if total <= limit {
			return
		}
		total -= s.kept()
		s.drop()
	}
}

// drop forgets the definitions, and keeps what tells whether they change.
func (s *pinnedServer) drop() {
	for name, t := range s.Tools {
		t.Accepted.Definition = nil
		if t.Now != nil {
			now := *t.Now
			now.Definition = nil
			t.Now = &now
		}
		s.Tools[name] = t
	}
}
