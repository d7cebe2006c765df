package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

// TestMain fails the tests if goroutines of this package outlive them.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftover(hang); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines outlive the tests:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leftover returns the stacks of this package's goroutines, "" if there are
// none. It waits up to patience for them to end.
func leftover(patience time.Duration) string {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			return err.Error()
		}
		var found []byte
		for stack := range bytes.SplitSeq(b.Bytes(), []byte("\n\n")) {
			if bytes.Contains(stack, []byte("bridged/pkg/")) && !bytes.Contains(stack, []byte("TestMain")) {
				found = append(append(found, stack...), '\n')
			}
		}
		if len(found) == 0 || time.Now().After(end) {
			return string(found)
		}
	}
}
