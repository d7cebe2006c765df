package main

import (
	"path/filepath"

	"github.com/bridged/bridged/pkg/memory"
)

// openMemories is what code saves under keys, in the folder of the user whose
// daemon this is.
func openMemories(c *config, p paths) *memory.Store {
	m := c.Memory
	history := int(m.History)
	if history == 0 {
		history = -1
	}
	return memory.Open(memory.Options{
		Dir: filepath.Join(p.kept, "memory"), MaxBytes: int(m.MaxBytes), MaxTotal: int64(m.MaxTotal), MaxCount: int(m.MaxCount), History: history,
	})
}
