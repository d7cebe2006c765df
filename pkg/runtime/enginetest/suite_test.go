package enginetest

import "testing"

func TestMemoryPassesTheSuite(t *testing.T) {
	for name, once := range map[string]bool{"stdin stays open": false, "stdin closes with its stream": true} {
		t.Run(name, func(t *testing.T) {
			Test(t, NewMemory(t, Options{StdinOnce: once}), MemoryImage)
		})
	}
}
