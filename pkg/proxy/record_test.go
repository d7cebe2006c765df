package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/policy"
)

// A fakeAudit keeps records in memory.
type fakeAudit struct {
	mu       sync.Mutex // guards the fields below
	full     error      // of Admit
	admitted int
	records  []CallRecord
	answers  []CallRecord
}

func (a *fakeAudit) Admit(CallRecord) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full == nil {
		a.admitted++
	}
	return a.full
}

func (a *fakeAudit) Record(r CallRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records = append(a.records, r)
}

func (a *fakeAudit) RecordAnswer(r CallRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = append(a.answers, r)
}

// last returns the latest record.
func (a *fakeAudit) last(t *testing.T) CallRecord {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.records) != a.admitted || a.admitted == 0 {
		t.Fatalf("%d records of %d admitted calls", len(a.records), a.admitted)
	}
	return a.records[len(a.records)-1]
}

// failing is a result that says that the tool failed.
const failing = `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"isError":true}}`

func TestEachCallIsRecordedOnce(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	s := open(t, p, b.server("fake", fakeConfig{}))
	audit := &fakeAudit{}
	s.opts.Audit = audit
	must(t, s, "echo", args{}) // starts it
	for _, row := range []struct {
		name, tool, want string
	}{
		{"a call that works", "echo", OutcomeOK},
		{"a tool that fails", "raw", OutcomeToolError},
		{"a server that refuses", "refuse", CodeUpstream},
		{"a tool that there is not", "no_such_tool", CodeUnknownTool},
		{"a server that does not answer", "hang", OutcomeTimeout},
		{"a server that dies", "exit", OutcomeUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			limitCalls(s, time.Minute)
			if row.want == OutcomeTimeout {
				limitCalls(s, 300*time.Millisecond)
			}
			before := time.Now()
			result, _ := call(t, s, "fake", row.tool, args{"raw": failing})
			got := audit.last(t)
			if got.Outcome != row.want || got.Server != "fake" || got.Tool != row.tool || !strings.Contains(string(got.Arguments), "isError") ||
				got.In != int64(len(got.Arguments)) || got.Out != int64(len(result)) || got.Began.Before(before) || got.Duration <= 0 {
				t.Errorf("got %+v of a result of %d bytes, want %s", got, len(result), row.want)
			}
		})
	}
}

func TestAnAuditCanRefuseCalls(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	s := open(t, p, b.server("fake", fakeConfig{}))
	audit := &fakeAudit{full: errors.New("the audit log cannot be written")}
	s.opts.Audit = audit
	_, err := call(t, s, "fake", "echo", args{})
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeBusy || !strings.Contains(e.Message, "the audit log cannot be written") {
		t.Errorf("got %v", err)
	}
	if len(audit.records) != 0 || len(b.processes()) != 0 {
		t.Errorf("%d records, processes %v", len(audit.records), b.processes())
	}
}

func TestOutcomes(t *testing.T) {
	denied := errorf("denied", "no")
	denied.Data = json.RawMessage(`{"rule":"rule 2"}`)
	big := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}],"isError" : true}`
	for _, row := range []struct {
		name, result string
		err          error
		want, rule   string
	}{
		{"a result", `{"content":[]}`, nil, OutcomeOK, ""},
		{"a result that says so", `{"isError":false,"content":[]}`, nil, OutcomeOK, ""},
		{"an error of the tool's", `{"content":[],"isError":true}`, nil, OutcomeToolError, ""},
		{"a large one with spaces", big, nil, OutcomeToolError, ""},
		{"the key within data", `{"structuredContent":{"isError":true}}`, nil, OutcomeOK, ""},
		{"the key twice", `{"structuredContent":{"isError":false},"isError":true}`, nil, OutcomeToolError, ""},
		{"the key in text", `{"content":[{"text":"\"isError\":true"}]}`, nil, OutcomeOK, ""},
		{"an error with a code", "", errorf(CodeServerFailed, "x"), CodeServerFailed, ""},
		{"a denial", "", denied, "denied", "rule 2"},
		{"no answer in time", "", errorf(CodeTimeout, "x"), OutcomeTimeout, ""},
		{"a server that fails", "", errorf(CodeOutcomeUnknown, "x"), OutcomeUnknown, ""},
		{"a run that was interrupted", "", context.Canceled, OutcomeCancelled, ""},
		{"a session that ends", "", ErrClosed, OutcomeCancelled, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got, rule := outcomeOf(json.RawMessage(row.result), row.err); got != row.want || rule != row.rule {
				t.Errorf("got %q by %q, want %q by %q", got, rule, row.want, row.rule)
			}
		})
	}
}

func TestWhatAPersonSaidIsRecorded(t *testing.T) {
	for _, row := range []struct{ name, answer, want, call string }{
		{"once", accept(answerOnce), OutcomeAllowed, OutcomeOK},
		{"for the session", accept(answerAlways), OutcomeAlways, OutcomeOK},
		{"no", accept(answerNo), OutcomeRefused, CodeDenied},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, _ := confirmed(t, policy.Config{}, says(row.answer))
			audit := &fakeAudit{}
			s.opts.Audit = audit
			_, _ = call(t, s, "fake", "echo", args{"x": 1}) // the record tells how it ended
			if got := audit.last(t); got.Outcome != row.call || row.call == CodeDenied && got.Rule == "" {
				t.Errorf("the call: got %+v, want %s", got, row.call)
			}
			if len(audit.answers) != 1 {
				t.Fatalf("%d answers are recorded", len(audit.answers))
			}
			if got := audit.answers[0]; got.Outcome != row.want || got.Rule == "" || got.Tool != "echo" || string(got.Arguments) != `{"x":1}` {
				t.Errorf("the answer: got %+v, want %s", got, row.want)
			}
		})
	}
}

func TestRequestsForWhatIsNoToolAreRecorded(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{Capabilities: everything})
	audit := &fakeAudit{}
	s.opts.Audit = audit
	result, err := ask(t, s, "resources.read", args{"server": "fake", "uri": "file:///a"})
	if err != nil {
		t.Fatal(err)
	}
	got := audit.last(t)
	if got.Tool != "resources/read" || got.Outcome != OutcomeOK || string(got.Arguments) != `{"uri":"file:///a"}` || got.Out != int64(len(result)) {
		t.Errorf("got %+v", got)
	}
}
