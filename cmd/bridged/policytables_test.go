package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/policy"
)

func TestPolicyTablesAreRules(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	path := writeConfig(t, `
[policy]
default = "deny"
confirm_timeout = "45s"
budget_calls = 100
budget_bytes = "1m"
budget_time = 600

[[policy.rule]]
server = "github"
tool = ["create_*", "update_*"]
client = "claude*"
project = "~/work"
action = "confirm"
auto_approve = "honour"
rate = "10/m"
concurrency = 2
timeout = "5s"
max_result = "64k"
reason = "it writes"

[[policy.rule]]
when = 'args.path.startsWith("/tmp/")'
arg = {path = "mode", matches = "^r$"}
action = "allow"

[[policy.flow]]
from = "private-*"
to = ["web-*", "mail/send"]
action = "confirm"
reason = "personal data"
`)
	c, err := loadConfig(flagsFor(t, "--config", path), env())
	if err != nil {
		t.Fatal(err)
	}
	got := c.Policy.Rule[0].rule(home)
	want := policy.Rule{
		Where: path + ":9", Servers: []string{"github"}, Tools: []string{"create_*", "update_*"}, Clients: []string{"claude*"},
		Projects: []string{filepath.Join(home, "work")}, Action: policy.Confirm, AutoApprove: true,
		Rate: policy.Rate{Calls: 10, Per: time.Minute}, Concurrency: 2, Timeout: 5 * time.Second, MaxResult: 64 << 10, Reason: "it writes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rule 1 (-want +got):\n%s", diff)
	}
	p := c.Policy.compiled
	if p.ConfirmTimeout() != 45*time.Second {
		t.Errorf("confirm_timeout: got %s", p.ConfirmTimeout())
	}
	for _, row := range []struct {
		name string
		s    policy.Subject
		args string
		want policy.Action
	}{
		{"a rule by server, tool, client and project", policy.Subject{Server: "github", Tool: "create_issue", Client: "claude-code", Project: filepath.Join(home, "work/x")}, `{}`, policy.Confirm},
		{"another project", policy.Subject{Server: "github", Tool: "create_issue", Client: "claude-code", Project: home}, `{}`, policy.Deny},
		{"both conditions", policy.Subject{Server: "fs", Tool: "open"}, `{"path":"/tmp/x","mode":"r"}`, policy.Allow},
		{"one condition", policy.Subject{Server: "fs", Tool: "open"}, `{"path":"/tmp/x","mode":"w"}`, policy.Deny},
	} {
		if d := p.Decide(row.s, json.RawMessage(row.args)); d.Action != row.want {
			t.Errorf("%s: got %s by %s, want %s", row.name, d.Action, d.Rule, row.want)
		}
	}
}

func TestBadPolicyTablesNameTheSpot(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"an unknown key", "[policy]\ndefualt = \"deny\"\n", []string{"config.toml:2", "policy.defualt", "did you mean policy.default"}},
		{"an unknown key of a rule", "[[policy.rule]]\naction = \"deny\"\nsevrer = \"x\"\n", []string{"config.toml:3", "did you mean policy.rule.server"}},
		{"an unknown key of arg", "[[policy.rule]]\naction = \"deny\"\narg = {path = \"x\", match = \"y\"}\n", []string{"config.toml:3", "did you mean policy.rule.arg.matches"}},
		{"a default", "[policy]\ndefault = \"ask\"\n", []string{"config.toml:2", "allow, deny"}},
		{"a pin", "[policy]\npin = true\n", []string{"config.toml:2", "off, warn, deny"}},
		{"an action", "[[policy.rule]]\n\naction = \"block\"\n", []string{"config.toml:3", "allow, deny, confirm, read-only"}},
		{"a rate", "[[policy.rule]]\nrate = \"ten\"\n", []string{"config.toml:2", "10/m"}},
		{"a rate that is a number", "[[policy.rule]]\nrate = 10\n", []string{"config.toml:2", "no rate"}},
		{"a concurrency", "[[policy.rule]]\nconcurrency = 0\n", []string{"config.toml:2", "from 1"}},
		{"a size", "[[policy.rule]]\nmax_result = \"much\"\n", []string{"config.toml:2", "512m"}},
		{"a time", "[policy]\nconfirm_timeout = \"never\"\n", []string{"config.toml:2", "30s"}},
		{"an expression", "[[policy.rule]]\naction = \"deny\"\nwhen = \"args.\"\n", []string{"config.toml:3", "can't be compiled"}},
		{"an expression over what there is not", "[[policy.rule]]\naction = \"deny\"\nwhen = \"user == 'x'\"\n", []string{"config.toml:3", "user", "args, tool, server, client and project"}},
		{"a regular expression", "[[policy.rule]]\naction = \"deny\"\narg = {path = \"x\", matches = \"(\"}\n", []string{"config.toml:3", "missing closing )"}},
		{"an empty pattern", "[[policy.rule]]\naction = \"deny\"\nserver = \"\"\n", []string{"config.toml:3", "pattern is empty"}},
		{"an empty list", "[[policy.rule]]\naction = \"deny\"\nserver = []\n", []string{"config.toml:3", "would match nothing"}},
		{"a list of numbers", "[[policy.rule]]\naction = \"deny\"\nserver = [1]\n", []string{"config.toml:3", "texts"}},
		{"auto_approve", "[[policy.rule]]\naction = \"confirm\"\nauto_approve = true\n", []string{"config.toml:3", "honour, ignore"}},
		{"a rule that says nothing", "[policy]\n[[policy.rule]]\nserver = \"a\"\n", []string{"config.toml:2", "policy.rule 1", "says nothing"}},
		{"the second of two rules", "[[policy.rule]]\naction=\"deny\"\n[[policy.rule]]\naction=\"deny\"\ntimeout=\"1s\"\n", []string{"config.toml:3", "policy.rule 2", "denies calls and limits them"}},
		{"arg without matches", "[[policy.rule]]\naction = \"deny\"\narg = {path = \"x\"}\n", []string{"config.toml:1", "no matches"}},
		{"a flow to nowhere", "\n[[policy.flow]]\nfrom = \"a\"\n", []string{"config.toml:2", "policy.flow 1", "from and to"}},
		{"a flow that is permitted", "[[policy.flow]]\nfrom=\"a\"\nto=\"b\"\naction=\"allow\"\n", []string{"config.toml:1", "deny or confirm"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			wantRefused(t, row.text, row.want...)
		})
	}
}

func FuzzPolicyTables(f *testing.F) {
	f.Add("action = \"deny\"\nserver = [\"a\", \"b*\"]\nrate = \"10/m\"")
	f.Add("arg = {path = \"a.b\", matches = \"^x\"}\nwhen = \"args.x > 1\"\naction = \"allow\"")
	f.Add("timeout = 1\nmax_result = 5\nconcurrency = 1\nauto_approve = \"honour\"")
	f.Fuzz(func(t *testing.T, text string) {
		c := defaultConfig()
		if err := c.parse("config.toml", []byte("[[policy.rule]]\n"+text)); err != nil {
			return
		}
		if err := c.Policy.check("/home/eve"); err != nil && !strings.Contains(err.Error(), "policy") {
			t.Errorf("the error %q does not say that it is about the policy", err)
		}
	})
}

func TestDocumentationNamesEveryKeyOfThePolicy(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Count(string(text), "\n| `")
	keys := policyKeys()
	if rows != len(keys) {
		t.Errorf("docs/policy.md has %d rows, and there are %d keys", rows, len(keys))
	}
	for _, key := range keys {
		if !strings.Contains(string(text), "\n| `"+key+"` |") {
			t.Errorf("docs/policy.md has no row for %s", key)
		}
	}
}
