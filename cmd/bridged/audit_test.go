package main

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/audit"
)

// The reference for people and the code must not drift apart.
func TestDocumentationNamesEveryFieldAndKindOfTheAuditLog(t *testing.T) {
	text, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "## Fields")
	first := map[string]bool{} // what the first cells name
	for line := range strings.Lines(tables) {
		if cell, ok := strings.CutPrefix(line, "| "); ok {
			cell, _, _ = strings.Cut(cell, "|")
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
				first[name[1]] = true
			}
		}
	}
	n := len(audit.Kinds)
	for field := range reflect.TypeFor[audit.Line]().Fields() {
		n++
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !first[name] {
			t.Errorf("docs/audit.md has no row for %s", name)
		}
	}
	for _, k := range audit.Kinds {
		if !first[string(k)] {
			t.Errorf("docs/audit.md has no row for the kind %s", k)
		}
	}
	if len(first) != n {
		t.Errorf("docs/audit.md describes %d fields and kinds, and there are %d", len(first), n)
	}
	for _, k := range defaultConfig().keys() {
		if strings.HasPrefix(k.name, "audit.") && !strings.Contains(string(text), "`"+k.name+"`") {
			t.Errorf("docs/audit.md does not name %s", k.name)
		}
	}
}

// auditLog writes a log with three calls and a run.
func auditLog(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	l, err := audit.Open(audit.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-3 * time.Hour)
	l.Record(audit.Entry{Kind: audit.KindCall, Time: old, Session: "s1", Server: "git", Tool: "log", Outcome: "ok", Arguments: []byte(`{"a":1}`)})
	l.Record(audit.Entry{Kind: audit.KindCall, Session: "s1", Client: "x 1", Server: "github", Tool: "get_issue", Outcome: "tool_error"})
	l.Record(audit.Entry{Kind: audit.KindCall, Session: "s2", Server: "files", Tool: "read", Outcome: "denied", Detail: "rule 1"})
	l.Record(audit.Entry{Kind: audit.KindRun, Session: "s2", Python: "second", Code: "print('\x1b[31m')\nx = 1", Outcome: "ok"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// command runs `bridged audit` and returns what it printed.
func command(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out, notes bytes.Buffer
	root := rootCommand()
	root.SetArgs(append([]string{"audit"}, args...))
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&notes)
	err := root.ExecuteContext(t.Context())
	return out.String() + notes.String(), err
}

func TestFiltersOfTheAuditLog(t *testing.T) {
	dir := auditLog(t)
	for _, row := range []struct {
		name, args string
		want       []string // server.tool, or run
	}{
		{"all calls and runs", "--kind call --kind run", []string{"git.log", "github.get_issue", "files.read", "run"}},
		{"a kind", "--kind call", []string{"git.log", "github.get_issue", "files.read"}},
		{"kinds", "--kind run,stop", []string{"run"}},
		{"a session", "--session s2", []string{"files.read", "run"}},
		{"a server", "--server git", []string{"git.log"}},
		{"servers by a glob", "--server git*", []string{"git.log", "github.get_issue"}},
		{"a tool", "--tool get_*", []string{"github.get_issue"}},
		{"a client", "--client x*", []string{"github.get_issue"}},
		{"an outcome", "--outcome denied", []string{"files.read"}},
		{"every outcome but one", "--outcome !ok", []string{"github.get_issue", "files.read"}},
		{"what is new", "--since 1h --kind call", []string{"github.get_issue", "files.read"}},
		{"what is newer than a day", "--since 2020-01-02 --server git", []string{"git.log"}},
		{"the last ones", "--kind call --last 1", []string{"files.read"}},
		{"several filters", "--session s1 --outcome ok", []string{"git.log"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, err := command(t, "", append(strings.Fields(row.args), "--path", dir, "--json")...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(out) {
				var l audit.Line
				if json.Unmarshal([]byte(line), &l) != nil {
					continue // the note on what is left out
				}
				switch l.Kind {
				case audit.KindCall:
					got = append(got, l.Server+"."+l.Tool)
				case audit.KindRun:
					got = append(got, "run")
				}
			}
			if strings.Join(got, " ") != strings.Join(row.want, " ") {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
	for _, bad := range []string{"--since=yesterday", "--server=[", "--outcome=["} {
		if _, err := command(t, "", "--path", dir, bad); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}

func TestAuditLogForPeople(t *testing.T) {
	out, err := command(t, "", "--path", auditLog(t), "--last", "3")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"files.read", "denied", "rule 1", `python "second"`, `print('\x1b[31m') x = 1`, "4 earlier lines are not shown", "--last 0"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if strings.ContainsAny(out, "\x1b") {
		t.Errorf("a control character gets to the terminal: %q", out)
	}
}

func TestAuditHeadVerifyAndDigest(t *testing.T) {
	dir := auditLog(t)
	head, err := command(t, "", "head", "--path", dir)
	if err != nil || !regexp.MustCompile(`^7:[0-9a-f]{64}\n$`).MatchString(head) {
		t.Fatalf("head: %q, %v", head, err)
	}
	out, err := command(t, "", "verify", "--path", dir, "--anchor", strings.TrimSpace(head))
	if err != nil || !strings.Contains(out, "ok: 7 lines in 1 files") || !strings.Contains(out, "head "+head) {
		t.Errorf("verify: %q, %v", out, err)
	}
	file := dir + "/audit-000001.jsonl"
	if out, err = command(t, "", "verify", file); err != nil || !strings.Contains(out, "ok: 7 lines") {
		t.Errorf("verify of a file: %q, %v", out, err)
	}
	if _, err = command(t, "", "verify", "--path", dir, "--anchor", "x"); err == nil {
		t.Error("a bad anchor is taken")
	}
	digest, err := command(t, ` { "a" : 1 } `, "digest", "--path", dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"arguments_digest":"`+strings.TrimSpace(digest)+`"`) {
		t.Errorf("digest: %q is not in the log", digest)
	}
	edited := strings.Replace(string(text), "get_issue", "got_issue", 1)
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = command(t, "", "verify", "--path", dir); err == nil || !strings.Contains(err.Error(), file+":4: ") {
		t.Errorf("verify of an edited line: %v", err)
	}
}

func TestAnAuditLogThatCannotBeOpened(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := defaultConfig()
	a, err := startAudit(c, file, zerolog.Nop())
	if err != nil {
		t.Fatalf("continue: %v", err)
	}
	if s := a.status(); s == nil || s.Error == "" || s.Path != file {
		t.Errorf("status: %+v", s)
	}
	if err := a.close(); err == nil || !strings.Contains(err.Error(), file) || a.session(nil) == nil {
		t.Errorf("close: got %v, want what was wrong with %s", err, file)
	}
	c.Audit.OnError = onErrorRefuse
	if _, err := startAudit(c, file, zerolog.Nop()); err == nil {
		t.Error("refuse: got no error")
	}
	c.Audit.Enabled = false
	if a, err = startAudit(c, file, zerolog.Nop()); err != nil || a.status() != nil {
		t.Errorf("switched off: %+v, %v", a.status(), err)
	}
}
