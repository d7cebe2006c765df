package discovery

import (
	"bytes"
	"errors"
	"sync"
	"time"
)

const (
	// keepBroken is how long what a file said before counts while the file
	// can't be read: a person who is editing it, not one who has left it so.
	keepBroken = 5 * time.Minute

	// maxRemembered bounds the texts that a Memory holds, in bytes, and
	// maxRememberedFiles their number.
	maxRemembered      = 64 << 20
	maxRememberedFiles = 2000
)

// A Memory keeps what files said when they could last be read, so that one
// that is half-written takes no server away. It is safe for concurrent use, and
// one can serve all sessions. The zero value is ready; nil remembers nothing.
type Memory struct {
	mu    sync.Mutex // guards the fields below
	files map[string]remembered
	bytes int
}

type remembered struct {
	text   []byte
	broken time.Time // since when the file can't be read; zero if it can
}

// errEmptied is what a file that had something in it and has nothing is told as.
var errEmptied = errors.New("the file is empty, and was not before")

// keep remembers the text of a file that could be read.
func (m *Memory) keep(file string, text []byte) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(file)
	if len(bytes.TrimSpace(text)) == 0 || len(m.files) >= maxRememberedFiles || m.bytes+len(text) > maxRemembered {
		return
	}
	if m.files == nil {
		m.files = map[string]remembered{}
	}
	m.files[file] = remembered{text: text}
	m.bytes += len(text)
}

// drop forgets a file that is gone.
func (m *Memory) drop(file string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(file)
}

func (m *Memory) dropLocked(file string) {
	m.bytes -= len(m.files[file].text)
	delete(m.files, file)
}

// last returns what a file said that can't be read now, for a bounded time.
func (m *Memory) last(file string) (text []byte, ok bool) {
	if m == nil {
		return nil, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.files[file]
	if !ok {
		return nil, false
	}
	if r.broken.IsZero() {
		r.broken = time.Now()
		m.files[file] = r
	}
	if time.Since(r.broken) >= keepBroken {
		m.dropLocked(file)
		return nil, false
	}
	return r.text, true
}

// read decodes the text of a file, or what it said before if that can't be
// decoded. Nil is a file that says nothing.
func (l *loader) read(file string, text []byte) *document {
	doc, err := l.parse(file, text)
	last, kept := []byte(nil), false
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		if last, kept = l.opts.Memory.last(file); kept {
			err = errEmptied
		}
	}
	if err == nil {
		l.opts.Memory.keep(file, text)
		return doc
	}
	msg := err.Error()
	if !kept {
		last, kept = l.opts.Memory.last(file)
	}
	if kept {
		msg += "; what it said before is used for now"
	}
	l.report(Problem{Path: file, Line: lineOf(text, err), Msg: msg})
	if !kept {
		return nil
	}
	if doc, err = l.parse(file, last); err != nil {
		return nil // it could be read before, so this can't be
	}
	return doc
}
