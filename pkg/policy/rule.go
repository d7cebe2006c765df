package policy

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
)

// A rule is a compiled [Rule]. It does not change, but for what its limiter
// counts.
type rule struct {
	Rule
	name    string      // "policy.rule 3"
	when    cel.Program // nil if there is no expression
	arg     *argument   // nil if there is none
	limiter *limiter    // nil without a rate and a concurrency
}

func compileRule(r Rule, name string) (*rule, error) {
	c := &rule{Rule: r, name: name}
	if err := r.check(); err != nil {
		return nil, err
	}
	var err error
	if r.When != "" {
		if c.when, err = compileWhen(r.When); err != nil {
			return nil, fmt.Errorf("when: %w", err)
		}
	}
	if r.Arg != (Arg{}) {
		if c.arg, err = compileArg(r.Arg); err != nil {
			return nil, err
		}
	}
	if r.Rate.Calls > 0 || r.Concurrency > 0 {
		c.limiter = newLimiter(r.Rate, r.Concurrency)
	}
	return c, nil
}

func (r Rule) check() error {
	for _, globs := range [][]string{r.Servers, r.Tools, r.Projects, r.Clients} {
		for _, g := range globs {
			if err := CheckGlob(g); err != nil {
				return err
			}
		}
	}
	if r.Action != "" {
		if _, err := ParseAction(string(r.Action)); err != nil {
			return err
		}
	}
	switch {
	case r.Action == "" && !r.limits():
		return errors.New("it says nothing: give it an action (allow, deny, confirm or read-only) or a limit (rate, concurrency, timeout or max_result)")
	case r.Action == Deny && r.limits():
		return errors.New("it denies calls and limits them: leave rate, concurrency, timeout and max_result out, or the action")
	case r.AutoApprove && r.Action != Confirm:
		return errors.New("auto_approve is for rules with action = \"confirm\"")
	case r.Rate.Calls < 0 || r.Concurrency < 0 || r.Timeout < 0 || r.MaxResult < 0:
		return errors.New("a limit is negative")
	}
	return nil
}

// limits reports whether the rule limits the calls that it matches.
func (r Rule) limits() bool {
	return r.Rate.Calls > 0 || r.Concurrency > 0 || r.Timeout > 0 || r.MaxResult > 0
}

// concerns reports whether the rule's globs match.
func (r *rule) concerns(s Subject) bool {
	return matchAny(r.Servers, s.Server) && matchAny(r.Tools, s.Tool) &&
		matchFolder(r.Projects, s.Project) && matchAny(r.Clients, s.Client)
}

// conditional reports whether the arguments count.
func (r *rule) conditional() bool { return r.when != nil || r.arg != nil }

// matches reports whether the rule's conditions hold. One that can't be
// evaluated holds unless it would permit something.
func (r *rule) matches(in *input) bool {
	permits := r.Action == Allow
	if r.arg != nil && !r.arg.holds(in.args, permits) {
		return false
	}
	if r.when == nil {
		return true
	}
	is, err := holds(r.when, in)
	if err != nil {
		return !permits
	}
	return is
}
