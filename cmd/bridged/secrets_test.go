package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/proxy"
)

func TestServersGetSecretsFromSources(t *testing.T) {
	want := map[string]proxy.Secret{
		"PLAIN": {Text: "value"}, "FILE": {File: "/run/secrets/key"}, "ASKED": {Command: []string{"/usr/bin/pass", "show", "key"}},
	}
	for name, text := range map[string]string{
		"a table in a line": `env = {PLAIN = "value", FILE = "file:/run/secrets/key", ASKED = {command = ["/usr/bin/pass", "show", "key"]}}`,
		"a table below":     "[server.env]\nPLAIN = \"value\"\nFILE = \"file:/run/secrets/key\"\nASKED = {command = [\"/usr/bin/pass\", \"show\", \"key\"]}",
	} {
		c, err := loadConfig(flagsFor(t, "--config", writeConfig(t, "[[server]]\nname = \"github\"\nheaders = {A = \"b\"}\n"+text+"\n")), env())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := c.Server.settings()[0]
		if diff := cmp.Diff(want, got.Env); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(map[string]proxy.Secret{"A": {Text: "b"}}, got.Headers); diff != "" {
			t.Errorf("%s, headers (-want +got):\n%s", name, diff)
		}
	}
}

func TestBadSecretsNameTheSpot(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"a number":               {`env = {A = 1}`, "no value"},
		"a relative file":        {`env = {A = "file:key"}`, "absolute path"},
		"a program on a path":    {`env = {A = {command = ["pass"]}}`, "absolute path"},
		"no program":             {`env = {A = {command = []}}`, "absolute path"},
		"a command that is text": {`env = {A = {command = "/bin/pass x"}}`, "no value"},
		"another table":          {`env = {A = {cmd = ["/bin/pass"]}}`, "no value"},
	} {
		_, err := loadConfig(flagsFor(t, "--config", writeConfig(t, "[[server]]\n"+row.text+"\n")), env())
		if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "config.toml:2") {
			t.Errorf("%s: got %v, want %q and the line", name, err, row.want)
		}
	}
}
