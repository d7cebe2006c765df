//go:build integration

package escape

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

const (
	// minAttempts guards against tables that shrank unnoticed.
	minAttempts = 450

	// only names the engine that a child process attacks.
	only = "BRIDGED_TEST_ESCAPE"
)

// TestNothingGetsThrough attacks each engine from a process of its own, whose
// memory and goroutines are watched. Much of an attack is waiting, so two go on
// at a time.
func TestNothingGetsThrough(t *testing.T) {
	if name := os.Getenv(only); name != "" {
		testEngine(t, engines.Name(name))
		return
	}
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			attack := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingGetsThrough$", "-test.timeout=30m")
			attack.Env = append(os.Environ(), only+"="+string(name))
			out, err := attack.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "escape_attempts=") {
				t.Errorf("%v\n%s", err, out)
				return
			}
			fmt.Print(strings.TrimSuffix(string(out), "PASS\n"))
		})
	}
}

func testEngine(t *testing.T, name engines.Name) {
	r, err := Assault(t.Context(), engines.ForTest(t, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Successes {
		t.Error(s)
	}
	if r.Attempts < minAttempts {
		t.Errorf("%d attempts were made, want at least %d", r.Attempts, minAttempts)
	}
	fmt.Printf("%s: %s\n", name, r)
}
