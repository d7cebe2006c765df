package proxy

import (
	"testing"
	"time"
)

func TestLatencyIsRightToAnEighth(t *testing.T) {
	for _, took := range []time.Duration{time.Microsecond, 7 * time.Microsecond, 100 * time.Microsecond, 3 * time.Millisecond, 999 * time.Millisecond, 2 * time.Minute, time.Hour} {
		var l latency
		l.add(took)
		got := l.quantile(0.5)
		if got < took || got > took+took/8+time.Microsecond {
			t.Errorf("%s: got %s", took, got)
		}
	}
}

func TestLatencyTellsSlowCallsFromQuickOnes(t *testing.T) {
	var l latency
	if got := l.quantile(0.95); got != 0 {
		t.Errorf("before the first call: got %s", got)
	}
	for i := range 100 {
		took := time.Millisecond
		if i%10 == 0 {
			took = time.Second
		}
		l.add(took)
	}
	if p50, p95 := l.quantile(0.5), l.quantile(0.95); p50 > 2*time.Millisecond || p95 < time.Second || p95 > 1200*time.Millisecond {
		t.Errorf("p50 %s, p95 %s", p50, p95)
	}
	for range 3 * latencyWindow {
		l.add(10 * time.Second)
	}
	if p50 := l.quantile(0.5); p50 < 10*time.Second {
		t.Errorf("a server that has become slow: p50 %s", p50)
	}
}

func TestLatencyTakesAnyTime(t *testing.T) {
	var l latency
	for _, took := range []time.Duration{-time.Second, 0, time.Nanosecond, 1000 * time.Hour} {
		l.add(took)
	}
	if got := l.quantile(1); got < time.Hour {
		t.Errorf("got %s", got)
	}
}
