package meaning

import (
	_ "embed"
	"encoding/binary"
	"math"
	"strings"
	"sync"
)

// Dimensions is the length of a vector.
const Dimensions = 192

// A Vector is the meaning of a text: of unit length, or all zero for a text that
// has none, such as one of a script whose words are not known.
type Vector [Dimensions]float32

// Cosine returns how near two vectors are: 1 for the same meaning, around 0 for
// texts that have nothing to do with each other.
func (v *Vector) Cosine(w *Vector) float32 { return dot(v[:], w[:]) }

// dot multiplies vectors of one length, which four divides.
func dot(p, q []float32) float32 {
	// Four sums that do not wait for one another take a third of the time of one.
	var a, b, c, d float32
	for ; len(p) >= 4 && len(q) >= 4; p, q = p[4:], q[4:] {
		a += p[0] * q[0]
		b += p[1] * q[1]
		c += p[2] * q[2]
		d += p[3] * q[3]
	}
	return a + b + c + d
}

// Add adds w times a weight. The sum of vectors means what they have in common;
// [Vector.Normalize] it before comparing.
func (v *Vector) Add(w *Vector, weight float32) {
	for i := range v {
		v[i] += w[i] * weight
	}
}

// Normalize makes a vector one of unit length. The zero vector stays as it is.
func (v *Vector) Normalize() {
	var square float64
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	if square == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(square))
	for i := range v {
		v[i] *= scale
	}
}

// Of returns the meaning of a text of which at most limit words are read. The
// words are what letters and digits stand together; their case does not matter.
func Of(text string, limit int) Vector {
	var v Vector
	t := table()
	for _, word := range fields(text, limit) {
		for _, p := range t.pieces(word) {
			t.addTo(&v, p)
		}
	}
	v.Normalize()
	return v
}

// Knows reports whether a word, in lower case, is one of the vocabulary's,
// which has the commonest of English and is hardly ever misspelt.
func Knows(word string) bool {
	_, ok := table().at[word]
	return ok
}

//go:embed vectors.bin
var file string

const magic = "bridged word pieces 1\n"

// A pieceTable holds the word pieces and their vectors.
type pieceTable struct {
	at      map[string]int32 // those inside a word begin with ##
	longest int              // bytes of the longest piece
	scales  []float32
	numbers string // Dimensions of int8 for each piece
}

// table returns the table, made the first time that it is needed. The file is
// part of the program, so one that is wrong is a mistake of ours.
var table = sync.OnceValue(func() *pieceTable {
	rest, ok := strings.CutPrefix(file, magic)
	if !ok || binary.LittleEndian.Uint32([]byte(rest[4:8])) != Dimensions {
		panic("meaning: vectors.bin is of another version")
	}
	count := int(binary.LittleEndian.Uint32([]byte(rest[:4])))
	rest = rest[8:]
	t := &pieceTable{at: make(map[string]int32, count), scales: make([]float32, count)}
	for i := range count {
		var piece string
		piece, rest, _ = strings.Cut(rest, "\n")
		t.at[piece] = int32(i)
		t.longest = max(t.longest, len(piece))
	}
	for i := range t.scales {
		t.scales[i] = math.Float32frombits(binary.LittleEndian.Uint32([]byte(rest[4*i : 4*i+4])))
	}
	if t.numbers = rest[4*count:]; len(t.numbers) != count*Dimensions {
		panic("meaning: vectors.bin is cut short")
	}
	return t
})

// addTo adds a piece's vector.
func (t *pieceTable) addTo(v *Vector, piece int32) {
	row, scale := t.numbers[int(piece)*Dimensions:][:Dimensions], t.scales[piece]
	for i := range v {
		v[i] += scale * float32(int8(row[i]))
	}
}
