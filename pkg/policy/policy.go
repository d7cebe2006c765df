package policy

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// maxPlans bounds the calls whose rules are kept worked out. Names come from
// code, which could make up any number of them.
const maxPlans = 4096

// DefaultRule is what decisions call the default.
const DefaultRule = "policy.default"

// A Subject is a call without its arguments.
type Subject struct {
	Server, Tool string
	Client       string // the name that the agent gives itself; may be empty
	Project      string // the agent's working folder
}

// A Policy is a compiled [Config].
type Policy struct {
	conf  Config
	rules []*rule
	flows []*flow

	mu    sync.RWMutex // guards plans
	plans map[Subject]*plan
}

// A plan is what is known of a call before its arguments are. It does not
// change.
type plan struct {
	rules       []*rule
	conditional bool
	plain       Decision // if no rule looks at the arguments
}

// New compiles a configuration. Errors name the rule and where it stands.
func New(c Config) (*Policy, error) {
	p := &Policy{conf: c, plans: map[Subject]*plan{}}
	if p.conf.Default == "" {
		p.conf.Default = Allow
	}
	if p.conf.ConfirmTimeout == 0 {
		p.conf.ConfirmTimeout = DefaultConfirmTimeout
	}
	if p.conf.Default != Allow && p.conf.Default != Deny {
		return nil, fmt.Errorf("policy.default %q: use allow or deny", clip(string(c.Default), 40))
	}
	if len(c.Rules) > MaxRules || len(c.Flows) > MaxRules {
		return nil, fmt.Errorf("policy: there are %d rules and %d flows; at most %d of each are taken", len(c.Rules), len(c.Flows), MaxRules)
	}
	for i, r := range c.Rules {
		name := fmt.Sprintf("policy.rule %d", i+1)
		compiled, err := compileRule(r, name)
		if err != nil {
			return nil, located(r.Where, name, err)
		}
		p.rules = append(p.rules, compiled)
	}
	for i, f := range c.Flows {
		name := fmt.Sprintf("policy.flow %d", i+1)
		compiled, err := compileFlow(f, name)
		if err != nil {
			return nil, located(f.Where, name, err)
		}
		p.flows = append(p.flows, compiled)
	}
	return p, nil
}

// Open returns the policy that permits everything.
func Open() *Policy {
	p, err := New(Config{})
	if err != nil {
		panic("policy: the empty configuration: " + err.Error()) // cannot happen
	}
	return p
}

func located(where, name string, err error) error {
	if where == "" {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: %s: %w", where, name, err)
}

// ConfirmTimeout is how long a person has for an answer.
func (p *Policy) ConfirmTimeout() time.Duration { return p.conf.ConfirmTimeout }

// A Decision is what the rules say of one call. The zero value permits it
// without limits.
type Decision struct {
	Action Action // Allow, Deny or Confirm
	Rule   string // that decided, such as "policy.rule 3" or DefaultRule
	Where  string // that rule stands, for a log; may be empty
	Reason string // of the rule's author, for the model; may be empty

	// ReadOnly is not nil where a read-only rule matched. When the tool does not
	// say that it only reads, it decides in place of what this one says.
	ReadOnly *Decision

	// Spared means that the question is not asked if the agent's own
	// configuration approves the tool.
	Spared bool

	Timeout   Limit[time.Duration] // of the call
	MaxResult Limit[int64]         // bytes of the result
	limiters  []*rule
}

// A Limit is the lowest value that rules set, and the rule that set it. The
// zero value is none.
type Limit[T int64 | time.Duration] struct {
	Value T
	Rule  string
}

func (l *Limit[T]) lower(v T, rule string) {
	if v > 0 && (l.Value == 0 || v < l.Value) {
		l.Value, l.Rule = v, rule
	}
}

// Decide says what the rules say of a call. args is one JSON object.
func (p *Policy) Decide(s Subject, args json.RawMessage) Decision {
	plan := p.plan(s)
	if !plan.conditional {
		return plan.plain
	}
	in := &input{Subject: s, raw: args}
	if err := in.parse(); err != nil {
		return Decision{Action: Deny, Rule: "policy", Reason: fmt.Sprintf("Its arguments cannot be checked: %v.", err)}
	}
	return p.decide(plan.rules, in)
}

// plan returns what is worked out for a call.
func (p *Policy) plan(s Subject) *plan {
	p.mu.RLock()
	known, ok := p.plans[s]
	p.mu.RUnlock()
	if ok {
		return known
	}
	made := &plan{}
	for _, r := range p.rules {
		if r.concerns(s) {
			made.rules = append(made.rules, r)
			made.conditional = made.conditional || r.conditional()
		}
	}
	if !made.conditional {
		made.plain = p.decide(made.rules, &input{Subject: s})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.plans) >= maxPlans {
		clear(p.plans)
	}
	p.plans[s] = made
	return made
}

// decide goes through the rules that concern a call.
func (p *Policy) decide(rules []*rule, in *input) Decision {
	d := Decision{Action: p.conf.Default, Rule: DefaultRule}
	decided := false
	for _, r := range rules {
		if decided && !r.limits() {
			continue
		}
		if r.conditional() && !r.matches(in) {
			continue
		}
		d.limit(r)
		switch {
		case decided || r.Action == "":
		case r.Action == ReadOnly:
			if d.ReadOnly == nil {
				d.ReadOnly = &Decision{Action: Deny, Rule: r.name, Where: r.Where, Reason: r.Reason}
			}
		default:
			decided = true
			d.Action, d.Rule, d.Where, d.Reason, d.Spared = r.Action, r.name, r.Where, r.Reason, r.AutoApprove
		}
		if d.Action == Deny && decided {
			return d
		}
	}
	return d
}

// limit takes in a rule's limits.
func (d *Decision) limit(r *rule) {
	d.Timeout.lower(r.Timeout, r.name)
	d.MaxResult.lower(r.MaxResult, r.name)
	if r.limiter != nil {
		d.limiters = append(d.limiters, r)
	}
}

// Hides reports whether a tool can never be called, whatever its arguments: a
// rule without conditions denies it.
func (p *Policy) Hides(s Subject) bool {
	plan := p.plan(s)
	return !plan.conditional && plan.plain.Action == Deny
}
