//go:build integration

package escape

import (
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

func TestMain(m *testing.M) { engines.Main(m) }
