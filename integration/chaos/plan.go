//go:build integration

package chaos

import (
	"math/rand/v2"
	"time"
)

// agents is how many there are.
const agents = 3

// A blow is one fault to come.
type blow struct {
	fault  string
	victim int           // the agent that it is for, where it is for one
	hold   time.Duration // how long it lasts, where it does
}

// A plan makes decks of blows from a seed.
type plan struct{ rng *rand.Rand }

func newPlan(seed uint64) *plan { return &plan{rand.New(rand.NewPCG(seed, 1))} }

// deck returns every fault once, shuffled.
func (p *plan) deck() []blow {
	blows := make([]blow, 0, len(faults))
	for _, f := range faults {
		hold := minHold + time.Duration(p.rng.Int64N(int64(maxHold-minHold)))
		blows = append(blows, blow{f.name, p.rng.IntN(agents), hold})
	}
	p.rng.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
	return blows
}

const (
	minHold = 500 * time.Millisecond
	maxHold = 4 * time.Second
)
