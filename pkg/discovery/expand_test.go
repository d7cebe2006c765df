package discovery

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpandText(t *testing.T) {
	env := environment(map[string]string{"A": "a ${B} \"q\" $HOME", "B": "b", "EMPTY": ""})
	tests := []struct {
		name    string
		dialect dialect
		text    string
		want    string
		missing []string
	}{
		{"a value is not expanded again", claudeDialect, "<${A}>", "<a ${B} \"q\" $HOME>", nil},
		{"a default is not used for what is set", claudeDialect, "${B:-dflt}", "b", nil},
		{"a default is used for what is not set", claudeDialect, "${UNSET:-dflt}/${UNSET:-}", "dflt/", nil},
		{"set to nothing is set", claudeDialect, "<${EMPTY:-dflt}>", "<>", nil},
		{"a bare name is literal", claudeDialect, "$A $$ ${A", "$A $$ ${A", nil},
		{"what is no name is literal", claudeDialect, "${env:A} ${} ${1x} ${a b}", "${env:A} ${} ${1x} ${a b}", nil},
		{"a missing one stays and is named", claudeDialect, "${B} ${UNSET}", "b ${UNSET}", []string{"UNSET"}},
		{"editors have a prefix", editorDialect, "${env:B} ${A} ${env:UNSET}", "b ${A} ${env:UNSET}", []string{"UNSET"}},
		{"editors know folders", editorDialect, "${userHome}|${workspaceFolder}|${workspaceFolderBasename}", "/home/dev|/srv/site|site", nil},
		{"files without a dialect are literal", literalDialect, "${A} $A", "${A} $A", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Server{
				Name: "x", Transport: Stdio, dialect: tt.dialect, Command: tt.text, Args: []string{tt.text}, Cwd: tt.text,
				Env: map[string]string{"E": tt.text}, URL: tt.text, Headers: map[string]string{"H": tt.text},
			}
			got, err := s.Expand(env, "/home/dev", "/srv/site")
			fields := []string{got.Command, got.Args[0], got.Cwd, got.Env["E"], got.URL, got.Headers["H"]}
			for i, field := range fields {
				if field != tt.want {
					t.Errorf("field %d: got %q, want %q", i, field, tt.want)
				}
			}
			var missing *MissingError
			if errors.As(err, &missing) != (tt.missing != nil) {
				t.Fatalf("error: got %v, want missing %q", err, tt.missing)
			}
			if missing == nil {
				return
			}
			if diff := cmp.Diff(tt.missing, missing.Vars); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "\"q\"") {
				t.Errorf("the error holds a value: %v", err)
			}
		})
	}
}

func TestExpandNamesInputs(t *testing.T) {
	s := Server{Name: "tickets", dialect: editorDialect, Env: map[string]string{"T": "${input:token}", "U": "${input:id}${input:token}"}}
	_, err := s.Expand(environment(nil), "/h", "/w")
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("got %v, want a MissingError", err)
	}
	if diff := cmp.Diff([]string{"id", "token"}, missing.Inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(err.Error(), "server tickets needs a value: ") {
		t.Errorf("got %v", err)
	}
}

func TestExpandTilde(t *testing.T) {
	s := Server{Command: "~/bin/x", Cwd: "~", Args: []string{"~/a"}, Env: map[string]string{"A": "~/b"}}
	got, err := s.Expand(environment(nil), "/home/dev", "")
	if err != nil {
		t.Fatal(err)
	}
	want := Server{Command: "/home/dev/bin/x", Cwd: "/home/dev", Args: []string{"~/a"}, Env: map[string]string{"A": "~/b"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Server{})); diff != "" {
		t.Errorf("expanded (-want +got):\n%s", diff)
	}
	if s.Args[0] != "~/a" || s.Command != "~/bin/x" {
		t.Error("the original was changed")
	}
}

func TestExpandUsesTheProjectsFolder(t *testing.T) {
	s := Server{dialect: editorDialect, Root: "/srv/site", Args: []string{"${workspaceFolder}"}}
	got, err := s.Expand(environment(nil), "/h", "/srv/site/deep/inside")
	if err != nil || got.Args[0] != "/srv/site" {
		t.Errorf("got %q, %v", got.Args, err)
	}
}

func TestDigest(t *testing.T) {
	base := func() Server {
		return Server{Name: "a", Transport: Stdio, Command: "c", Args: []string{"x"}, Env: map[string]string{"K": "v"}}
	}
	same := []struct {
		name   string
		change func(*Server)
	}{
		{"the name", func(s *Server) { s.Name = "b" }},
		{"the description", func(s *Server) { s.Description = "d" }},
		{"the sources", func(s *Server) { s.Sources = []Source{{Agent: "z"}} }},
		{"an empty map of headers", func(s *Server) { s.Headers = map[string]string{} }},
	}
	for _, tt := range same {
		s := base()
		tt.change(&s)
		if s.Digest() != base().Digest() {
			t.Errorf("%s changes the digest", tt.name)
		}
	}
	different := []struct {
		name   string
		change func(*Server)
	}{
		{"another argument", func(s *Server) { s.Args = []string{"y"} }},
		{"arguments split otherwise", func(s *Server) { s.Command, s.Args = "c x", nil }},
		{"another variable", func(s *Server) { s.Env = map[string]string{"K": "w"} }},
		{"a variable taken out", func(s *Server) { s.Unset = []string{"P"} }},
		{"another folder", func(s *Server) { s.Cwd = "/x" }},
		{"another project", func(s *Server) { s.Root = "/p" }},
		{"another transport", func(s *Server) { s.Transport = SSE }},
	}
	seen := map[string]string{base().Digest(): "the original"}
	for _, tt := range different {
		s := base()
		tt.change(&s)
		if other, ok := seen[s.Digest()]; ok {
			t.Errorf("%s has the digest of %s", tt.name, other)
		}
		seen[s.Digest()] = tt.name
	}
}

func TestDir(t *testing.T) {
	tests := []struct {
		name   string
		server Server
		want   string
	}{
		{"a user's server starts at home", Server{}, "/home/dev"},
		{"a project's server starts in the project", Server{Root: "/work"}, "/work"},
		{"a relative folder is the project's", Server{Root: "/work", Cwd: "tools"}, "/work/tools"},
		{"an absolute folder is itself", Server{Root: "/work", Cwd: "/srv"}, "/srv"},
	}
	for _, tt := range tests {
		if got := tt.server.Dir("/home/dev"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
