//go:build integration

package integration

import (
	"testing"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/integration/misbehave"
)

func TestMain(m *testing.M) {
	misbehave.Main()
	hold()
	engines.Main(m)
}
