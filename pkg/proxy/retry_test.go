package proxy

import (
	"encoding/json"
	"testing"
)

func TestReadsThatTheOperatorNamesAreMadeOnceMore(t *testing.T) {
	for _, row := range []struct {
		name  string
		reads []string
		calls int // that the server gets
		code  string
	}{
		{"a tool that is named", []string{"x", "p?y"}, 2, CodeOutcomeUnknown},
		{"a tool that is not", []string{"get_*"}, 1, CodeOutcomeUnknown},
		{"nothing is named", nil, 1, CodeOutcomeUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := quick()
			o.Settings = []Setting{{RetryReads: row.reads}}
			b, s := one(t, o, fakeConfig{})
			must(t, s, "echo", args{})
			_, err := call(t, s, "fake", "pay", args{"file": b.path("paid"), "code": 1})
			wantCode(t, err, row.code, "may or may not")
			if n := len(b.lines("paid")); n != row.calls {
				t.Errorf("the server got %d calls, want %d", n, row.calls)
			}
		})
	}
}

func TestReadOfAServerThatEndedOnceSucceeds(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{RetryReads: []string{"pay"}}}
	b, s := one(t, o, fakeConfig{})
	must(t, s, "echo", args{})
	if got := must(t, s, "pay", args{"file": b.path("paid"), "code": 1, "once": true}); got != "paid" {
		t.Errorf("got %s", got)
	}
	if n := len(b.lines("paid")); n != 2 {
		t.Errorf("the server got %d calls, want 2", n)
	}
}

func TestReadThatTheServerRefusesIsNotMadeAgain(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{RetryReads: []string{"*"}}}
	b, s := one(t, o, fakeConfig{Log: "log"})
	_, err := call(t, s, "fake", "refuse", args{})
	wantCode(t, err, CodeUpstream)
	calls := 0
	for _, line := range b.lines("log") {
		if containsText([]string{line}, `"refuse"`) {
			calls++
		}
	}
	if calls != 1 {
		t.Errorf("the server got %d calls", calls)
	}
}

func TestRequestsThatMayBeMadeAgain(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{RetryReads: []string{"get_*"}}}
	_, s := one(t, o, fakeConfig{})
	for _, row := range []struct {
		method, params string
		want           bool
	}{
		{"docs.search", `{"query":"x"}`, true},
		{"servers.load", `{"names":["fake"]}`, true},
		{"tools.call", `{"server":"fake","tool":"get_x","arguments":{}}`, true},
		{"tools.call", `{"server":"fake","tool":"pay","arguments":{}}`, false},
		{"tools.call", `{"server":"nobody","tool":"get_x","arguments":{}}`, false},
		{"tools.call", `[]`, false},
		{"resources.read", `{"server":"fake","uri":"x"}`, false},
		{"", `{}`, false},
	} {
		if got := s.Repeatable(row.method, json.RawMessage(row.params)); got != row.want {
			t.Errorf("%s %s: got %v, want %v", row.method, row.params, got, row.want)
		}
	}
}
