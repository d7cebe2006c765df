package proxy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/bridged/bridged/pkg/discovery"
)

func TestAServerGetsTheOperatorsSecrets(t *testing.T) {
	b := newBench(t)
	writeFile(t, b.path("key"), "from-a-file-7fd1\n")
	writeFile(t, b.path("print.sh"), "#!/bin/sh\necho run >> "+b.path("runs")+"\necho from-a-command-93ac\n")
	if err := os.Chmod(b.path("print.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := quick()
	o.Settings = []Setting{
		{Name: "fake", Env: map[string]Secret{"FROM_FILE": {File: b.path("key")}, "FROM_COMMAND": {Text: "weaker"}}},
		{Name: "*", Env: map[string]Secret{"FROM_COMMAND": {Command: []string{b.path("print.sh")}}, "BENCH_TEXT": {Text: "plain"}}},
	}
	p := newProxy(t, o)
	for range 2 {
		raw, err := call(t, open(t, p, b.server("fake", fakeConfig{})), "fake", "env", args{})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"FROM_FILE=from-a-file-7fd1", "FROM_COMMAND=from-a-command-93ac", "BENCH_TEXT=plain"} {
			if !strings.Contains(string(raw), `"`+want+`"`) {
				t.Errorf("the environment lacks %s: %s", want, raw)
			}
		}
	}
	if n := len(b.lines("runs")); n != 1 {
		t.Errorf("the command ran %d times, want once", n)
	}
}

func TestAProjectsDefinitionGetsNoSecrets(t *testing.T) {
	b := newBench(t)
	o := quick()
	o.Settings = []Setting{{Name: "fake", Env: map[string]Secret{"TOKEN": {Text: "the-users-own-token"}}}}
	server := b.server("fake", fakeConfig{})
	server.Sources = []discovery.Source{{Scope: discovery.ScopeProject}}
	raw, err := call(t, open(t, newProxy(t, o), server), "fake", "env", args{})
	if err != nil || strings.Contains(string(raw), "the-users-own-token") {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestASecretThatCannotBeReadSaysWhy(t *testing.T) {
	b := newBench(t)
	writeFile(t, b.path("empty"), "\n")
	for name, row := range map[string]struct {
		from Secret
		want string
	}{
		"a file that is not there": {Secret{File: b.path("none")}, "no such file"},
		"a folder":                 {Secret{File: b.dir}, "no regular file"},
		"an empty file":            {Secret{File: b.path("empty")}, "gives nothing"},
		"a command that fails":     {Secret{Command: []string{"/bin/sh", "-c", "echo the-secret-value; exit 3"}}, "sh: exit status 3"},
		"a command that floods":    {Secret{Command: []string{"/bin/sh", "-c", "head -c 100000 /dev/zero | tr '\\\\0' x"}}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			o := quick()
			o.Settings = []Setting{{Env: map[string]Secret{"TOKEN": row.from}}}
			s := newProxy(t, o).NewSession(SessionOptions{Servers: func() []discovery.Server { return []discovery.Server{b.server("fake", fakeConfig{})} }})
			defer s.Close()
			_, err := s.Load([]string{"fake"})
			wantCode(t, err, CodeNotAvailable, "env.TOKEN", row.want)
			if strings.Contains(err.Error(), "the-secret-value") {
				t.Errorf("the error holds the secret: %v", err)
			}
		})
	}
}

func TestSecretsAreMaskedInEveryForm(t *testing.T) {
	const secret = `p@ss/w"rd+1 ü?`
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	m := masker(map[string]string{"KEY": secret, "SHORT": "abc"})
	for _, text := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted[1 : len(quoted)-1]),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	} {
		if got := m.Replace("wrong key " + text + "!"); strings.Contains(got, text) || !strings.Contains(got, "wrong key [KEY]") {
			t.Errorf("%s: got %s", text, got)
		}
	}
	if got := m.Replace("abc"); got != "abc" {
		t.Errorf("a short value: got %s", got)
	}
}

func TestAServersErrorsAreMasked(t *testing.T) {
	b := newBench(t)
	server := b.server("fake", fakeConfig{})
	server.Env["TOKEN"] = "a-token-of-the-user"
	s := open(t, newProxy(t, quick()), server)
	_, err := call(t, s, "fake", "raw", args{"Raw": `{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"bad a-token-of-the-user","data":{"key":"a-token-of-the-user"}}}`})
	wantCode(t, err, CodeUpstream, "bad [TOKEN]")
	if e, ok := errors.AsType[*Error](err); !ok || strings.Contains(string(e.Data), "a-token") || !strings.Contains(string(e.Data), "[TOKEN]") {
		t.Errorf("data of %v", err)
	}
}
