package discovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEnvFile(t *testing.T) {
	got := parseEnvFile("# a comment\r\nA=1\r\nexport B = two words # not this\nC='$A # kept'\nD=\"x\\n\\\"y\\\"\"\nE=\n\nno line\n1X=bad\nF=\"open\n")
	want := map[string]string{"A": "1", "B": "two words", "C": "$A # kept", "D": "x\n\"y\"", "E": "", "F": "\"open"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestExpandReadsTheEnvFile(t *testing.T) {
	root := tree{"work/.env": "A=file\nB=file\n", "work/sub/x": ""}.write(t)
	s := Server{
		Name: "x", Transport: Stdio, Command: "c", dialect: editorDialect, Root: filepath.Join(root, "work"),
		EnvFile: "${workspaceFolder}/.env", Env: map[string]string{"B": "entry"},
	}
	got, err := s.Expand(environment(nil), root, root)
	if diff := cmp.Diff(map[string]string{"A": "file", "B": "entry"}, got.Env); err != nil || diff != "" {
		t.Errorf("err %v, env (-want +got):\n%s", err, diff)
	}
	before := got.Digest()
	if err := os.WriteFile(filepath.Join(root, "work/.env"), []byte("A=new"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.EnvFile = ".env" // relative to the project
	if got, err = s.Expand(environment(nil), root, root); err != nil || got.Env["A"] != "new" || got.Digest() == before {
		t.Errorf("after a change: got %v, %v", got.Env, err)
	}
	s.EnvFile = "gone.env"
	if got, err = s.Expand(environment(nil), root, root); err != nil || len(got.Env) != 1 {
		t.Errorf("without a file: got %v, %v", got.Env, err)
	}
	s.EnvFile = "sub"
	if _, err = s.Expand(environment(nil), root, root); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: got %v", err)
	}
}
