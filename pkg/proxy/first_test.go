package proxy

import "testing"

func TestOneCall(t *testing.T) {
	b, s := one(t, quick(), fakeConfig{})
	if got := must(t, s, "sleep_echo", args{"v": "hello"}); got != `"hello"` {
		t.Errorf("got %s", got)
	}
	if n := len(b.processes()); n != 1 {
		t.Errorf("%d processes", n)
	}
}
