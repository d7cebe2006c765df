package sandbox

const (
	// maxPieces bounds the pieces of a record. One costs some 60 bytes besides
	// its text.
	maxPieces = 50_000

	// maxMerged is the length up to which a piece grows when the next one is
	// like it. Growing copies.
	maxMerged = 32 << 10
)

// A record is output that is kept within a bound. What does not fit is counted.
type record struct {
	pieces []Output
	size   int   // bytes of text
	cut    int64 // bytes left out
}

// add keeps a piece, as far as it fits into limit bytes of text in all.
func (r *record) add(o Output, limit int) {
	if o.Back > 0 {
		r.retract(o)
		o.Back = 0
	}
	if r.size+len(o.Text) > limit || len(r.pieces) >= maxPieces {
		o.Cut, o.Text = o.Cut+int64(len(o.Text)), ""
	}
	r.cut += o.Cut
	r.size += len(o.Text)
	if o.Text == "" && o.Cut == 0 {
		return
	}
	if n := len(r.pieces); n > 0 && r.pieces[n-1].merge(o) {
		return
	}
	r.pieces = append(r.pieces, o)
}

// retract takes back what o replaces. What was not kept was counted.
func (r *record) retract(o Output) {
	var missing int64
	r.pieces, missing = Retract(r.pieces, o)
	r.size -= int(o.Back - missing)
	for i := len(r.pieces) - 1; i >= 0 && missing > 0; i-- {
		p := &r.pieces[i]
		if p.Text != "" {
			continue
		}
		n := min(missing, p.Cut)
		p.Cut -= n
		r.cut -= n
		missing -= n
	}
}
