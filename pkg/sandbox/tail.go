package sandbox

import "sync"

// stderrTail is how much of a container's stderr is kept, in bytes. It holds
// what Python says when it can't start; a harness that runs writes nothing.
const stderrTail = 8 << 10

// A tailBuffer keeps the last stderrTail bytes written to it.
type tailBuffer struct {
	mu  sync.Mutex
	buf []byte
}

// Write never blocks and never fails.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-stderrTail):]...)
	t.trim()
	return len(p), nil
}

// add is Write for text.
func (t *tailBuffer) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, text[max(0, len(text)-stderrTail):]...)
	t.trim()
}

// trim drops what is too much. The caller holds the lock.
func (t *tailBuffer) trim() {
	if over := len(t.buf) - stderrTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
