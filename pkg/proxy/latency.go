package proxy

import (
	"math/bits"
	"sync"
	"time"
)

const (
	// latencyParts is how many parts each doubling of the time has: a quantile
	// is at most an eighth too high.
	latencyParts = 8

	// latencyDoublings reach from a microsecond to more than an hour.
	latencyDoublings = 32

	// latencyWindow is how many calls count in full. Each time it is reached
	// what was counted before weighs half, so that a server that has become
	// slow is seen to be.
	latencyWindow = 4096
)

// A latency counts how long calls took, in one kilobyte. It is safe for
// concurrent use.
type latency struct {
	mu     sync.Mutex // guards the fields below
	counts [latencyDoublings * latencyParts]uint32
	total  uint32
}

// add takes in one call.
func (l *latency) add(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[latencyBucket(took)]++
	if l.total++; l.total < latencyWindow {
		return
	}
	l.total = 0
	for i := range l.counts {
		l.counts[i] /= 2
		l.total += l.counts[i]
	}
}

// quantile returns the time within which a share of the calls ended, 0 before
// the first.
func (l *latency) quantile(share float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := int64(float64(l.total)*share + 0.5)
	for i, n := range l.counts {
		if left -= int64(n); n > 0 && left <= 0 {
			return latencyEnd(i)
		}
	}
	return 0
}

// latencyBucket returns the bucket of a time: the doubling of a microsecond
// that it lies in, and the part of that.
func latencyBucket(took time.Duration) int {
	us := uint64(max(took.Microseconds(), 1))
	doubling := bits.Len64(us) - 1
	part := int((us<<3)>>doubling) - latencyParts
	return min(doubling*latencyParts+part, latencyDoublings*latencyParts-1)
}

// latencyEnd returns the longest time of a bucket.
func latencyEnd(bucket int) time.Duration {
	doubling, part := bucket/latencyParts, bucket%latencyParts
	return time.Duration(uint64(latencyParts+part+1)<<doubling/latencyParts) * time.Microsecond
}
