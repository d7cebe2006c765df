package bridge

import "testing"

// BenchmarkCall measures what a call costs beside the sandbox: one line each
// way over the socket and everything in between.
func BenchmarkCall(b *testing.B) {
	_, path := start(b, (&bench{}).open, Options{})
	a := connect(b, path, Hello{})
	line := callLine("1", `{"code":"x+1"}`)
	for b.Loop() {
		a.send(line)
		a.recv()
	}
}
