package meaning

import "math"

// glanced is how many of its numbers a Glance has of a vector.
const glanced = 64

// A Glance is the beginning of a vector, which has the directions in which texts
// differ most.
type Glance [glanced]float32

// Glance returns the beginning of v.
func (v *Vector) Glance() Glance { return Glance(v[:glanced]) }

// Cosine is about that of the vectors, for a third of the cost.
func (g *Glance) Cosine(h *Glance) float32 { return dot(g[:], h[:]) }

// A Packed is a vector in a quarter of the memory, each number to one part in 254
// of the largest.
type Packed struct {
	scale   float32
	numbers [Dimensions]int8
}

// Pack returns v packed.
func (v *Vector) Pack() Packed {
	var most float32
	for _, x := range v {
		most = max(most, x, -x)
	}
	p := Packed{scale: most / math.MaxInt8}
	if most == 0 {
		return p
	}
	for i, x := range v {
		p.numbers[i] = int8(math.Round(float64(x / p.scale)))
	}
	return p
}

// Cosine returns how near v is to p.
func (p *Packed) Cosine(v *Vector) float32 {
	var sum float32
	for i, x := range p.numbers {
		sum += float32(x) * v[i]
	}
	return sum * p.scale
}
