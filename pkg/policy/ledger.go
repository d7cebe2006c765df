package policy

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxRead bounds the servers that a ledger names. A session can load fewer.
const maxRead = 1024

// A flow is a compiled [Flow].
type flow struct {
	Flow
	name string
}

func compileFlow(f Flow, name string) (*flow, error) {
	if len(f.From) == 0 || len(f.To) == 0 {
		return nil, errors.New("it needs from and to: names of servers, or server/tool, with * for any text")
	}
	for _, g := range slices.Concat(f.From, f.To) {
		if err := CheckGlob(g); err != nil {
			return nil, err
		}
	}
	switch f.Action {
	case "":
		f.Action = Deny
	case Deny, Confirm:
	default:
		return nil, fmt.Errorf("action %q: a flow is denied, or left to a person: use deny or confirm", f.Action)
	}
	return &flow{f, name}, nil
}

// either reports whether globs match a server or one tool of it.
func either(globs []string, s Source) bool {
	return matchAny(globs, s.Server) || matchAny(globs, s.Server+"/"+s.Tool)
}

// A Source is a tool whose result was read.
type Source struct{ Server, Tool string }

// reads are what was read of where one flow comes from. Two servers are enough
// to know: one of them is another than the one that is called.
type reads struct {
	servers []Source // of at most two servers, which from names
	tool    *Source  // which from names as server/tool
}

func (r *reads) add(f *flow, s Source) {
	switch {
	case matchAny(f.From, s.Server):
		if len(r.servers) == 0 || (len(r.servers) == 1 && r.servers[0].Server != s.Server) {
			r.servers = append(r.servers, s)
		}
	case r.tool == nil && either(f.From, s):
		r.tool = &s
	}
}

// reaching returns what was read and would get to a server now. What came from
// a server may go back to it, except where from names its tools.
func (r *reads) reaching(server string) (Source, bool) {
	for _, s := range r.servers {
		if s.Server != server {
			return s, true
		}
	}
	if r.tool != nil {
		return *r.tool, true
	}
	return Source{}, false
}

// A Ledger is what one session has used up and read. Make one with
// [Policy.NewLedger].
type Ledger struct {
	policy *Policy

	mu      sync.Mutex // guards the fields below
	used    Budget
	servers []string // sorted; replaced and never changed
	flows   []reads  // one for each flow
	allowed map[permission]bool
}

// NewLedger returns the ledger of a session that has done nothing.
func (p *Policy) NewLedger() *Ledger {
	return &Ledger{policy: p, flows: make([]reads, len(p.flows)), allowed: map[permission]bool{}}
}

// A BudgetError says that a session has used up a budget.
type BudgetError struct {
	Rule string // "policy.budget_calls" and the like
	Used string // "100 calls"
}

func (e *BudgetError) Error() string { return fmt.Sprintf("%s is used up (%s)", e.Rule, e.Used) }

// Begin counts one call. The error is a *BudgetError, and nothing is counted
// then. Bytes and time are counted when calls end, so calls that are under way
// together may pass those budgets together.
func (l *Ledger) Begin() error {
	most := l.policy.conf.Budget
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case most.Calls > 0 && l.used.Calls >= most.Calls:
		return &BudgetError{"policy.budget_calls", fmt.Sprintf("%d calls", l.used.Calls)}
	case most.Bytes > 0 && l.used.Bytes >= most.Bytes:
		return &BudgetError{"policy.budget_bytes", fmt.Sprintf("%d of %d bytes", l.used.Bytes, most.Bytes)}
	case most.Time > 0 && l.used.Time >= most.Time:
		return &BudgetError{"policy.budget_time", fmt.Sprintf("%s of %s", l.used.Time.Round(time.Millisecond), most.Time)}
	}
	l.used.Calls++
	return nil
}

// End counts what a call took.
func (l *Ledger) End(bytes int, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Bytes += int64(bytes)
	l.used.Time += took
}

// Read notes that the session's code may have got something from a server:
// a result, or an error in its words.
func (l *Ledger) Read(server, tool string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, there := slices.BinarySearch(l.servers, server); !there && len(l.servers) < maxRead {
		l.servers = slices.Insert(slices.Clone(l.servers), at, server)
	}
	for i, f := range l.policy.flows {
		l.flows[i].add(f, Source{server, tool})
	}
}

// Servers returns the servers whose results were read, sorted. The caller must
// not change the list.
func (l *Ledger) Servers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers
}

// Forget forgets what was read, as the interpreter that held it is gone.
// Budgets stay used: a fresh interpreter is there for the asking.
func (l *Ledger) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = nil
	clear(l.flows)
}

// Flow says whether a call would take what was read where it must not go: the
// zero Decision, which permits the call, or what the first flow says that
// refuses it, and what was read. A denial comes before a question.
func (l *Ledger) Flow(server, tool string) (Decision, Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var asked Decision
	var from Source
	for i, f := range l.policy.flows {
		source, reaches := l.flows[i].reaching(server)
		if !reaches || !either(f.To, Source{server, tool}) {
			continue
		}
		d := Decision{Action: f.Action, Rule: f.name, Where: f.Where, Reason: f.Reason}
		if f.Action == Deny {
			return d, source
		}
		if asked.Action == "" {
			asked, from = d, source
		}
	}
	return asked, from
}

// A permission is what a person has allowed for the rest of a session: what a
// rule asks about one tool.
type permission struct{ rule, server, tool string }

// Always notes that a person need not be asked again about a rule and a tool.
func (l *Ledger) Always(rule, server, tool string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.allowed) < maxPlans {
		l.allowed[permission{rule, server, tool}] = true
	}
}

// Allowed reports whether Always was said.
func (l *Ledger) Allowed(rule, server, tool string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allowed[permission{rule, server, tool}]
}
