package sandbox

import (
	"slices"
	"unicode/utf8"
)

const (
	// pieceCost is what a piece of output costs besides its text, in bytes.
	pieceCost = 64

	// maxMerged is the length up to which a piece grows when the next one is
	// like it. Growing copies.
	maxMerged = 32 << 10
)

// A Record keeps output within a bound: its head and its tail. What falls out
// between them is counted by the piece that follows.
type Record struct {
	half     int // bytes of head and tail each
	head     []Output
	tail     []Output
	headSize int // bytes of text
	tailSize int
	torn     bool // something has fallen out
}

// NewRecord returns an empty record that keeps about size bytes.
func NewRecord(size int) *Record { return &Record{half: size / 2} }

// Add appends a piece, in the place of what it replaces.
func (r *Record) Add(o Output) {
	if o.Back > 0 {
		r.retract(o)
		o.Back = 0
	}
	if len(r.tail) == 0 {
		o = r.addHead(o)
	}
	if o.Text == "" && o.Cut == 0 {
		return
	}
	r.tailSize += len(o.Text)
	if n := len(r.tail); n == 0 || !r.tail[n-1].merge(o) {
		r.tail = append(r.tail, o)
	}
	for len(r.tail) > 1 && r.tailSize+pieceCost*len(r.tail) > r.half {
		r.drop(len(r.tail[0].Text))
	}
	if over := len(r.tail[0].Text) - r.half; over > 0 {
		r.drop(over)
	}
}

// addHead puts as much of a piece into the head as fits, and returns the rest.
func (r *Record) addHead(o Output) (rest Output) {
	room := r.half - r.headSize - pieceCost*(len(r.head)+1)
	n := len(prefix(o.Text, room))
	if n == 0 && (len(o.Text) > 0 || room < 0) {
		return o
	}
	rest = o
	rest.Text, rest.Cut = o.Text[n:], 0
	o.Text = o.Text[:n]
	r.headSize += n
	if last := len(r.head) - 1; o.Text != "" || o.Cut > 0 {
		if last < 0 || !r.head[last].merge(o) {
			r.head = append(r.head, o)
		}
	}
	return rest
}

// drop lets go of at least n bytes at the start of the tail, up to a
// character. Nothing is left of a piece without text.
func (r *Record) drop(n int) {
	first := &r.tail[0]
	for n < len(first.Text) && !utf8.RuneStart(first.Text[n]) {
		n++
	}
	first.Cut += int64(n)
	first.Text = first.Text[n:]
	r.tailSize -= n
	r.torn = true
	if first.Text == "" && len(r.tail) > 1 {
		r.tail[1].Cut += first.Cut
		r.tail = r.tail[1:]
	}
}

// retract takes back what o replaces. What has fallen out was counted.
func (r *Record) retract(o Output) {
	want := o.Back
	r.tail, o.Back = Retract(r.tail, o)
	r.tailSize -= int(want - o.Back)
	if r.torn {
		if len(r.tail) > 0 {
			r.tail[0].Cut -= min(o.Back, r.tail[0].Cut)
		}
		return
	}
	want = o.Back
	r.head, o.Back = Retract(r.head, o)
	r.headSize -= int(want - o.Back)
}

// all returns what there is, for reading only.
func (r *Record) all() []Output { return slices.Concat(r.head, r.tail) }

// Take returns what there is and empties the record.
func (r *Record) Take() []Output {
	out := append(r.head, r.tail...)
	*r = Record{half: r.half}
	return out
}
