//go:build integration

package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// engineCommand finds what would drive an engine by its command line.
var engineCommand = regexp.MustCompile(`(podman|docker|nerdctl|buildah) (run|exec|create|start|stop|attach|rm|kill|ps|build|pull|import|inspect|logs)\b`)

// What the product is made of, libraries included, has no command line of a
// container tool in it.
func TestBinariesHaveNoEngineCommand(t *testing.T) {
	for _, name := range []string{"bridged", "bridge-shim"} {
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), name)
			out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../cmd/"+name).CombinedOutput()
			if err != nil {
				t.Fatalf("building: %v\n%s", err, out)
			}
			text, err := os.ReadFile(binary)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range engineCommand.FindAllIndex(text, -1) {
				near := text[max(0, at[0]-40):min(len(text), at[1]+40)]
				t.Errorf("it has %q", bytes.ToValidUTF8(near, []byte("?")))
			}
		})
	}
}
