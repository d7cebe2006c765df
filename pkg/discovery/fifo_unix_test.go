//go:build unix

package discovery

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAFIFOInAConfigFolderDoesNotHang(t *testing.T) {
	root := tree{"home/MCPs/good.json": `{"mcpServers": {"good": {"command": "x"}}}`}.write(t)
	if err := syscall.Mkfifo(filepath.Join(root, "home/MCPs/pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	res := Load(Options{Home: filepath.Join(root, "home")})
	find(t, res.Servers, "good")
	if got := problems(res); !strings.Contains(got, "not a regular file") {
		t.Errorf("problems: got %q", got)
	}
}
