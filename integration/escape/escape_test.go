//go:build integration

package escape

import (
	"fmt"
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

// minAttempts guards against tables that shrank unnoticed.
const minAttempts = 450

func TestNothingGetsThrough(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
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
		})
	}
}
