package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// compile compiles a configuration that must be right.
func compile(t testing.TB, c Config) *Policy {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func list(words ...string) []string { return words }

func TestAGlobMatchesTheWholeName(t *testing.T) {
	for _, row := range []struct {
		glob  string
		yes   []string
		not   []string
		title string
	}{
		{"github", list("github"), list("git", "github2", "Github", "x/github", ""), "a name alone"},
		{"*", list("", "a", "cursor/github", "ü"), nil, "a star is any text"},
		{"private-*", list("private-", "private-a/b"), list("private", "my-private-x"), "a star at the end"},
		{"*_read*", list("_read", "file_read_all"), list("read", "_rea"), "stars around"},
		{"a*b*c", list("abc", "aXbYc", "abbcbc"), list("ab", "acb", "abcd"), "stars between"},
		{"?", list("a", "ü", "/"), list("", "ab"), "one character"},
		{"[a]", list("[a]"), list("a"), "brackets are themselves"},
	} {
		t.Run(row.title, func(t *testing.T) {
			for _, text := range row.yes {
				if !glob(row.glob).match(text) {
					t.Errorf("%s does not match %q", row.glob, text)
				}
			}
			for _, text := range row.not {
				if glob(row.glob).match(text) {
					t.Errorf("%s matches %q", row.glob, text)
				}
			}
		})
	}
}

func TestAGlobOfManyStarsIsQuick(t *testing.T) {
	g := glob(strings.Repeat("*a", 500) + "b")
	if g.match(strings.Repeat("a", 5000)) {
		t.Error("it matches")
	}
}

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	p := compile(t, Config{Default: Deny, Rules: []Rule{
		{Servers: list("github"), Tools: list("delete_*"), Action: Deny, Reason: "no deletions"},
		{Servers: list("github"), Tools: list("create_*"), Action: Confirm},
		{Servers: list("github", "git*"), Action: Allow},
		{Projects: list("/work/open"), Action: Allow},
		{Clients: list("cursor*"), Action: Allow},
		{Servers: list("github"), Tools: list("get_me"), Action: Deny}, // never reached
	}})
	for _, row := range []struct {
		name string
		s    Subject
		want string
	}{
		{"a deletion", Subject{Server: "github", Tool: "delete_repo"}, "deny by policy.rule 1: no deletions"},
		{"a creation", Subject{Server: "github", Tool: "create_issue"}, "confirm by policy.rule 2"},
		{"all else of the server", Subject{Server: "github", Tool: "get_me"}, "allow by policy.rule 3"},
		{"the second glob of a rule", Subject{Server: "gitlab", Tool: "x"}, "allow by policy.rule 3"},
		{"a project", Subject{Server: "x", Tool: "y", Project: "/work/open"}, "allow by policy.rule 4"},
		{"a folder of the project", Subject{Server: "x", Tool: "y", Project: "/work/open/a/b"}, "allow by policy.rule 4"},
		{"a folder beside the project", Subject{Server: "x", Tool: "y", Project: "/work/opener"}, "deny by policy.default"},
		{"a client", Subject{Server: "x", Tool: "y", Client: "cursor 1.2"}, "allow by policy.rule 5"},
		{"nothing of these", Subject{Server: "x", Tool: "y"}, "deny by policy.default"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for range 2 { // the second time it is worked out
				if got := show(p.Decide(row.s, json.RawMessage("{}"))); got != row.want {
					t.Errorf("got %s, want %s", got, row.want)
				}
			}
		})
	}
}

// show writes a decision in a line.
func show(d Decision) string {
	text := string(d.Action) + " by " + d.Rule
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	if d.ReadOnly != nil {
		text += ", read-only by " + d.ReadOnly.Rule
	}
	return text
}

func TestAReadOnlyRuleOnlyTakesAway(t *testing.T) {
	rules := []Rule{{Servers: list("db"), Action: ReadOnly}, {Servers: list("db"), Tools: list("admin_*"), Action: Deny}}
	p := compile(t, Config{Default: Deny, Rules: rules})
	if got, want := show(p.Decide(Subject{Server: "db", Tool: "q"}, nil)), "deny by policy.default, read-only by policy.rule 1"; got != want {
		t.Errorf("where all is denied: got %s, want %s", got, want)
	}
	p = compile(t, Config{Rules: rules})
	if got, want := show(p.Decide(Subject{Server: "db", Tool: "q"}, nil)), "allow by policy.default, read-only by policy.rule 1"; got != want {
		t.Errorf("where all is permitted: got %s, want %s", got, want)
	}
	if got, want := show(p.Decide(Subject{Server: "db", Tool: "admin_q"}, nil)), "deny by policy.rule 2, read-only by policy.rule 1"; got != want {
		t.Errorf("a rule after it: got %s, want %s", got, want)
	}
}

func TestConditionsOnArguments(t *testing.T) {
	arg := func(path, matches string) Rule { return Rule{Arg: Arg{path, matches}} }
	when := func(text string) Rule { return Rule{When: text} }
	for _, row := range []struct {
		name        string
		rule        Rule
		args        string
		deny, allow bool // whether a rule with that action matches
	}{
		{"a text that matches", arg("path", "^/etc/"), `{"path":"/etc/passwd"}`, true, true},
		{"a text that does not", arg("path", "^/etc/"), `{"path":"/tmp"}`, false, false},
		{"an argument that is not there", arg("path", "."), `{}`, false, false},
		{"a path of two names", arg("repo.owner", "^acme$"), `{"repo":{"owner":"acme"}}`, true, true},
		{"a number", arg("n", "^7$"), `{"n":7}`, true, true},
		{"a large number", arg("n", "^9007199254740993$"), `{"n":9007199254740993}`, true, true},
		{"true", arg("force", "^true$"), `{"force":true}`, true, true},
		{"null", arg("x", "^null$"), `{"x":null}`, true, true},
		{"one of a list", arg("paths", "^/etc"), `{"paths":["/tmp","/etc"]}`, true, false},
		{"all of a list", arg("paths", "^/etc"), `{"paths":["/etc/a","/etc/b"]}`, true, true},
		{"an empty list", arg("paths", "^/etc"), `{"paths":[]}`, false, false},
		{"deep in an object", arg("q", "secret"), `{"q":{"a":[{"b":"a secret"}]}}`, true, true},
		{"the second of a list", arg("paths.1", "^/etc"), `{"paths":["/tmp","/etc"]}`, true, true},
		{"every entry", arg("files.*.path", "^/etc"), `{"files":[{"path":"/etc/a"},{"path":"/tmp"}]}`, true, false},
		{"below a text there is nothing", arg("a.b", "."), `{"a":"b"}`, false, false},

		{"an expression that is true", when(`args.n > 10`), `{"n":11}`, true, true},
		{"an expression that is false", when(`args.n > 10`), `{"n":10}`, false, false},
		{"a fraction against a whole number", when(`args.n > 10`), `{"n":10.5}`, true, true},
		{"an expression on the call itself", when(`server == "s" && tool.startsWith("t") && client == "c" && project == "/p"`), `{}`, true, true},
		{"a list", when(`args.tags.exists(t, t == "prod")`), `{"tags":["a","prod"]}`, true, true},
		{"has", when(`has(args.x)`), `{}`, false, false},
		{"an argument that the expression misses", when(`args.x == 1`), `{}`, true, false},
		{"a type that does not fit", when(`args.x.startsWith("a")`), `{"x":1}`, true, false},
		{"a value that is neither true nor false", when(`args.x`), `{"x":"yes"}`, true, false},
		{"an expression that works too long", when(`args.l.all(a, args.l.all(b, args.l.all(c, a + b + c >= 0)))`),
			`{"l":[` + strings.Repeat("1,", 999) + `1]}`, true, false},
		{"both conditions", Rule{Arg: Arg{"a", "1"}, When: "args.b == 2"}, `{"a":1,"b":2}`, true, true},
		{"one of both", Rule{Arg: Arg{"a", "1"}, When: "args.b == 2"}, `{"a":1,"b":3}`, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			subject := Subject{Server: "s", Tool: "t", Client: "c", Project: "/p"}
			deny, allow, ask, limit := row.rule, row.rule, row.rule, row.rule
			deny.Action, allow.Action, ask.Action, limit.Timeout = Deny, Allow, Confirm, time.Second
			got := compile(t, Config{Rules: []Rule{deny}}).Decide(subject, json.RawMessage(row.args))
			if (got.Action == Deny) != row.deny {
				t.Errorf("a rule that denies: got %s", show(got))
			}
			got = compile(t, Config{Default: Deny, Rules: []Rule{allow}}).Decide(subject, json.RawMessage(row.args))
			if (got.Action == Allow) != row.allow {
				t.Errorf("a rule that allows: got %s", show(got))
			}
			got = compile(t, Config{Rules: []Rule{ask}}).Decide(subject, json.RawMessage(row.args))
			if (got.Action == Confirm) != row.deny {
				t.Errorf("a rule that asks: got %s", show(got))
			}
			got = compile(t, Config{Rules: []Rule{limit}}).Decide(subject, json.RawMessage(row.args))
			if (got.Timeout.Value > 0) != row.deny {
				t.Errorf("a rule that limits: got %v", got.Timeout)
			}
		})
	}
}

func TestArgumentsThatCanBeReadInTwoWaysAreRefused(t *testing.T) {
	p := compile(t, Config{Rules: []Rule{{Tools: list("write"), Arg: Arg{"path", "^/etc"}, Action: Deny}}})
	for _, row := range []struct{ name, args, want string }{
		{"a name that stands twice", `{"path":"/tmp","path":"/etc"}`, `the name "path" stands twice`},
		{"a name that stands twice, deeper", `{"a":[{"b":1,"b":2}]}`, `the name "b" stands twice`},
		{"a name that stands twice, escaped", `{"path":"/tmp","p\u0061th":"/etc"}`, `the name "path" stands twice`},
		{"nesting without end", `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, "nested"},
		{"no object", `[]`, "no JSON object"},
		{"no JSON", `{"a":`, "no JSON"},
		{"two objects", `{} {}`, "something follows"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := p.Decide(Subject{Server: "fs", Tool: "write"}, json.RawMessage(row.args))
			if d.Action != Deny || !strings.Contains(d.Reason, row.want) {
				t.Errorf("got %s, want a denial with %q", show(d), row.want)
			}
			if d := p.Decide(Subject{Server: "fs", Tool: "read"}, json.RawMessage(row.args)); d.Action != Allow {
				t.Errorf("a tool whose arguments no rule looks at: got %s", show(d))
			}
		})
	}
}

func TestTheLowestLimitOfAllRulesHolds(t *testing.T) {
	p := compile(t, Config{Rules: []Rule{
		{Timeout: time.Minute, MaxResult: 100},
		{Servers: list("s"), Action: Allow, Timeout: 5 * time.Second},
		{Servers: list("s"), MaxResult: 50},
		{Servers: list("s"), Action: Allow}, // has no say any more
		{Servers: list("other"), Timeout: time.Second},
	}})
	d := p.Decide(Subject{Server: "s", Tool: "t"}, nil)
	if want := (Limit[time.Duration]{5 * time.Second, "policy.rule 2"}); d.Timeout != want {
		t.Errorf("timeout: got %v, want %v", d.Timeout, want)
	}
	if want := (Limit[int64]{50, "policy.rule 3"}); d.MaxResult != want {
		t.Errorf("result: got %v, want %v", d.MaxResult, want)
	}
}

func TestToolsThatNoArgumentsCanCallAreHidden(t *testing.T) {
	p := compile(t, Config{Rules: []Rule{
		{Tools: list("never"), Action: Deny},
		{Tools: list("sometimes"), Arg: Arg{"x", "1"}, Action: Deny},
		{Tools: list("asked"), Action: Confirm},
	}})
	for tool, want := range map[string]bool{"never": true, "sometimes": false, "asked": false, "other": false} {
		if got := p.Hides(Subject{Server: "s", Tool: tool}); got != want {
			t.Errorf("%s: got %v, want %v", tool, got, want)
		}
	}
}

func TestWrongConfigurationsNameTheRuleAndTheReason(t *testing.T) {
	rule := func(r Rule) Config { r.Where = "config.toml:7"; return Config{Rules: []Rule{{Action: Allow}, r}} }
	for _, row := range []struct {
		name string
		c    Config
		want []string
	}{
		{"a default that is no verdict", Config{Default: Confirm}, list("policy.default", "allow or deny")},
		{"a rule that says nothing", rule(Rule{Servers: list("x")}), list("config.toml:7: policy.rule 2", "says nothing")},
		{"an action that is none", rule(Rule{Action: "block"}), list("allow, deny, confirm or read-only")},
		{"an empty glob", rule(Rule{Action: Deny, Tools: list("")}), list("pattern is empty")},
		{"a denial with a limit", rule(Rule{Action: Deny, Timeout: 1}), list("denies calls and limits them")},
		{"auto_approve without a question", rule(Rule{Action: Allow, AutoApprove: true}), list("auto_approve")},
		{"a broken expression", rule(Rule{Action: Deny, When: "args.x =="}), list("when: ", "can't be compiled")},
		{"an expression over something else", rule(Rule{Action: Deny, When: "user == 1"}), list("args, tool, server")},
		{"an expression that is a number", rule(Rule{Action: Deny, When: "1 + 1"}), list("true or false")},
		{"an argument without a path", rule(Rule{Action: Deny, Arg: Arg{Matches: "x"}}), list("no path")},
		{"an argument without a pattern", rule(Rule{Action: Deny, Arg: Arg{Path: "x"}}), list("no matches")},
		{"a broken path", rule(Rule{Action: Deny, Arg: Arg{"a..b", "x"}}), list("empty part")},
		{"a broken pattern", rule(Rule{Action: Deny, Arg: Arg{"a", "("}}), list("arg.matches", "missing closing )")},
		{"a flow to nowhere", Config{Flows: []Flow{{From: list("a")}}}, list("policy.flow 1", "from and to")},
		{"a flow that is permitted", Config{Flows: []Flow{{From: list("a"), To: list("b"), Action: Allow}}}, list("deny or confirm")},
		{"too many rules", Config{Rules: make([]Rule, MaxRules+1)}, list("1001 rules")},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := New(row.c)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range row.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestARateIsCallsInASpan(t *testing.T) {
	for text, want := range map[string]Rate{"10/m": {10, time.Minute}, "1/s": {1, time.Second}, " 5 / h ": {5, time.Hour}, "2/d": {2, 24 * time.Hour}} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
		if again, err := ParseRate(got.String()); err != nil || again != got {
			t.Errorf("%s written as %s is %v, %v", text, got, again, err)
		}
	}
	for _, text := range list("", "10", "10/", "/m", "0/m", "-1/m", "1.5/m", "10/minute", "9999999/s") {
		if _, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), "10/m") {
			t.Errorf("%q: got %v, want an error with an example", text, err)
		}
	}
}

func TestALedgerKnowsWhatMustNotFlow(t *testing.T) {
	p := compile(t, Config{Flows: []Flow{
		{From: list("private-*"), To: list("web-*"), Reason: "customers' data"},
		{From: list("mail/read_*"), To: list("mail/send"), Action: Confirm},
		{From: list("*"), To: list("pastebin")},
	}})
	l := p.NewLedger()
	flows := func(server, tool string) string {
		t.Helper()
		d, from := l.Flow(server, tool)
		if d.Action == "" {
			return ""
		}
		return string(d.Action) + " by " + d.Rule + ": " + from.Server + "/" + from.Tool
	}
	check := func(server, tool, want string) {
		t.Helper()
		if got := flows(server, tool); got != want {
			t.Errorf("%s/%s: got %q, want %q", server, tool, got, want)
		}
	}
	check("web-search", "go", "")
	l.Read("pastebin", "get")
	check("pastebin", "put", "") // what came from it may go back
	l.Read("private-crm", "customers")
	check("web-search", "go", "deny by policy.flow 1: private-crm/customers")
	check("private-crm", "customers", "")
	check("pastebin", "put", "deny by policy.flow 3: private-crm/customers")
	l.Read("mail", "list")
	check("mail", "send", "")
	l.Read("mail", "read_all")
	check("mail", "send", "confirm by policy.flow 2: mail/read_all")
	if diff := cmp.Diff(list("mail", "pastebin", "private-crm"), l.Servers()); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	l.Forget()
	check("web-search", "go", "")
	if got := l.Servers(); len(got) != 0 {
		t.Errorf("read after Forget: %v", got)
	}
}

func TestABudgetEnds(t *testing.T) {
	for _, row := range []struct {
		name   string
		budget Budget
		rule   string
	}{
		{"of calls", Budget{Calls: 2}, "policy.budget_calls"},
		{"of bytes", Budget{Bytes: 20}, "policy.budget_bytes"},
		{"of time", Budget{Time: 2 * time.Second}, "policy.budget_time"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := compile(t, Config{Budget: row.budget}).NewLedger()
			for range 2 {
				if err := l.Begin(); err != nil {
					t.Fatal(err)
				}
				l.End(10, time.Second)
			}
			l.Forget() // frees nothing
			err := l.Begin()
			if spent, ok := errors.AsType[*BudgetError](err); !ok || spent.Rule != row.rule {
				t.Errorf("got %v, want that %s is used up", err, row.rule)
			}
		})
	}
}

func FuzzConfigurationNeverPanics(f *testing.F) {
	f.Add("private-*", "args.x == 1", "a.b", "^x$", "10/m", `{"x":1}`)
	f.Add("*", "", "", "", "", `{"a":[1,{"b":null}]}`)
	f.Fuzz(func(t *testing.T, pattern, when, path, matches, rate, args string) {
		r := Rule{Servers: list(pattern), When: when, Arg: Arg{path, matches}, Action: Deny}
		if limit, err := ParseRate(rate); err == nil {
			r.Action, r.Rate = Confirm, limit
		}
		p, err := New(Config{Rules: []Rule{r}})
		if err != nil {
			return
		}
		d := p.Decide(Subject{Server: "s", Tool: "t"}, json.RawMessage(args))
		if again := p.Decide(Subject{Server: "s", Tool: "t"}, json.RawMessage(args)); again.Action != d.Action {
			t.Errorf("got %s, then %s", show(d), show(again))
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	var rules []Rule
	for range 100 {
		rules = append(rules, Rule{Servers: list("other-*"), Tools: list("x*"), Action: Deny})
	}
	subject, args := Subject{Server: "github", Tool: "create_issue", Client: "claude-code", Project: "/work"}, json.RawMessage(`{"title":"x","n":3}`)
	for name, last := range map[string]Rule{
		"plain": {Action: Allow}, "arg": {Action: Allow, Arg: Arg{"title", "^x"}}, "cel": {Action: Allow, When: `args.n < 10`},
	} {
		p := compile(b, Config{Rules: append(rules, last)})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(subject, args)
			}
		})
	}
}
