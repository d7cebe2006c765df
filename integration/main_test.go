//go:build integration

package integration

import (
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

func TestMain(m *testing.M) { engines.Main(m) }
