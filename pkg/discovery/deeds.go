package discovery

import (
	"cmp"
	_ "embed"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/bridged/bridged/pkg/meaning"
)

const (
	// nearestDeeds is how many deeds stand for a query, and deedSharpness how
	// much more the nearest of them counts than one that is less near.
	nearestDeeds  = 8
	deedSharpness = 10

	// likelyDeeds is how many deeds are looked at closely, of those that at a
	// glance are nearest.
	likelyDeeds = 96

	// A query that is said less like the nearest deed than deedFloor asks for no
	// known one; from deedSure on there is no doubt.
	deedFloor = 0.45
	deedSure  = 0.7

	// A tool that has less of the deeds' words than this, and nothing else of the
	// query, is not found by them.
	deedLeast = 0.02

	// deedWords is what a tool gets that has all the words of the query's deeds,
	// where one that has all the words of the query gets 1.
	deedWords = 1.4
)

// deedsFile says how tools call what people say in other words: lines of a
// tool's words, a bar, and sentences that mean them.
//
//go:embed deeds.txt
var deedsFile string

// A deed is something that people want done.
type deed struct {
	words []string         // distinct stems of what a tool would call it
	means meaning.Vector   // of these words
	said  []meaning.Packed // of the words, and of the ways to say it
}

// A repertoire is all deeds, and a glance at each way to say one of them.
type repertoire struct {
	deeds   []deed
	glances []meaning.Glance
	of      []int32 // the deed of each glance
}

// deeds returns all deeds, made the first time that they are needed.
var deeds = sync.OnceValue(func() *repertoire {
	r := &repertoire{}
	for line := range knowledge(deedsFile) {
		called, said, _ := strings.Cut(line, " | ")
		d := deed{words: queryWords(called), means: meaning.Of(called, maxQueryWords)}
		r.say(&d, d.means)
		for way := range strings.SplitSeq(said, "; ") {
			r.say(&d, meaning.Of(way, maxQueryWords))
		}
		r.deeds = append(r.deeds, d)
	}
	return r
})

// say adds a way to say the deed that is added next.
func (r *repertoire) say(d *deed, way meaning.Vector) {
	d.said = append(d.said, way.Pack())
	r.glances = append(r.glances, way.Glance())
	r.of = append(r.of, int32(len(r.deeds)))
}

func distinct(list []string) []string {
	var out []string
	for _, w := range list {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// A likelyDeed is a deed that a query may ask for.
type likelyDeed struct {
	*deed
	share float64 // how likely it is that the query asks for it; all add up to 1 at most
}

// deedsLike returns the deeds that are said most like a query, nearest first, or
// none.
func deedsLike(asked *meaning.Vector) []likelyDeed {
	near := deeds().likely(asked)
	for i, d := range near {
		best := float32(-1)
		for j := range d.said {
			best = max(best, d.said[j].Cosine(asked))
		}
		near[i].share = float64(best)
	}
	slices.SortStableFunc(near, func(a, b likelyDeed) int { return -cmp.Compare(a.share, b.share) })
	near = near[:min(nearestDeeds, len(near))]
	first := near[0].share
	if first < deedFloor {
		return nil
	}
	sum := 0.0
	for i := range near {
		near[i].share = math.Exp(deedSharpness * (near[i].share - first))
		sum += near[i].share
	}
	sure := min(1, (first-deedFloor)/(deedSure-deedFloor))
	for i := range near {
		near[i].share *= sure / sum
	}
	return near
}

// likely returns the deeds of which a way to say them is nearest at a glance, in
// their order in the file.
func (r *repertoire) likely(asked *meaning.Vector) []likelyDeed {
	best := make([]float32, len(r.deeds))
	for i := range best {
		best[i] = -1
	}
	glance := asked.Glance()
	for i := range r.glances {
		best[r.of[i]] = max(best[r.of[i]], glance.Cosine(&r.glances[i]))
	}
	sorted := slices.Clone(best)
	slices.Sort(sorted)
	least := sorted[max(0, len(sorted)-likelyDeeds)]
	var near []likelyDeed
	for i := range r.deeds {
		if best[i] >= least && len(near) < likelyDeeds {
			near = append(near, likelyDeed{deed: &r.deeds[i]})
		}
	}
	return near
}
