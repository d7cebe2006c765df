//go:build integration

package integration

import (
	"testing"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// Every driver is held to the suites by every engine.
func TestEngines(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			t.Run("behaviour", func(t *testing.T) { enginetest.Test(t, r.Engine, r.Image) })
		})
	}
}
