package proxy

import (
	"strings"
	"sync"
)

const (
	// tailBytes bounds what is kept of a server's stderr.
	tailBytes = 16 << 10
	// quoteBytes bounds what an error message quotes of it.
	quoteBytes = 2 << 10
)

// A tail keeps the last bytes written to it, at most tailBytes. It takes any
// volume, with newlines or without. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex // guards buf
	buf []byte     // at most twice tailBytes, so that it is rarely moved
}

// Write never fails and never blocks.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > tailBytes {
		p = p[n-tailBytes:]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf)+len(p) > 2*tailBytes {
		keep := tailBytes - len(p)
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-min(keep, len(t.buf)):]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// last returns the last limit bytes as text that is safe to show: valid UTF-8
// without control characters other than tab and newline.
func (t *tail) last(limit int) string {
	t.mu.Lock()
	b := t.buf
	if len(b) > limit {
		b = b[len(b)-limit:]
	}
	text := string(b)
	t.mu.Unlock()
	return plainText(text)
}

// plainText makes a stranger's text safe for logs and messages.
func plainText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text))
}

// clip bounds a stranger's text in a message.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// A strayLog keeps what a server wrote to its stdout that is no protocol: the
// first line, which usually tells what it is, and the end.
type strayLog struct {
	end tail

	mu    sync.Mutex // guards first
	first string
}

// add notes one line.
func (s *strayLog) add(line []byte) {
	_, _ = s.end.Write(append(line[:len(line):len(line)], '\n')) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == "" {
		s.first = plainText(clip(string(line[:min(len(line), 400)]), 200))
	}
}

// quote returns the first line, and empty when there was none.
func (s *strayLog) quote() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}
