package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhereRunReadsCode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "code.py")
	if err := os.WriteFile(file, []byte("1 + 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, code string
		args       []string
		want, err  string
	}{
		{name: "file", args: []string{file}, want: "1 + 1"},
		{name: "stdin", args: []string{"-"}, want: "2 + 2"},
		{name: "flag", code: "3 + 3", want: "3 + 3"},
		{name: "nothing", err: "either a FILE"},
		{name: "both", code: "3 + 3", args: []string{file}, err: "either a FILE"},
		{name: "code for a file", args: []string{"print(1)"}, err: "give it with -c"},
		{name: "code too long for a file's name", args: []string{strings.Repeat("1 + ", 2000) + "1"}, err: "give it with -c"},
		{name: "folder", args: []string{filepath.Dir(file)}, err: "is a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := runFlags{code: tt.code}
			got, err := f.read(strings.NewReader("2 + 2"), tt.args)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v, want %q, an error with %q", got, err, tt.want, tt.err)
			}
		})
	}
}
