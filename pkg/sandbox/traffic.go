package sandbox

import "sync/atomic"

// Traffic counts what goes between sandboxes and the daemon once they run. The
// zero value has counted nothing; it is safe for concurrent use. A nil one does
// not count.
type Traffic struct {
	received, sent, refused atomic.Int64
}

// Received returns the bytes from sandboxes, without the ends of lines.
func (t *Traffic) Received() int64 { return t.received.Load() }

// Sent returns the bytes to sandboxes.
func (t *Traffic) Sent() int64 { return t.sent.Load() }

// Refused returns the lines from sandboxes that are no frames.
func (t *Traffic) Refused() int64 { return t.refused.Load() }

func (t *Traffic) receive(n int) {
	if t != nil {
		t.received.Add(int64(n))
	}
}

func (t *Traffic) send(n int) {
	if t != nil {
		t.sent.Add(int64(n))
	}
}

func (t *Traffic) refuse() {
	if t != nil {
		t.refused.Add(1)
	}
}
