package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An Action is what a rule says of the calls that it matches.
type Action string

// The actions. A rule without one only sets limits.
const (
	Allow    Action = "allow"
	Deny     Action = "deny"
	Confirm  Action = "confirm"   // a person is asked
	ReadOnly Action = "read-only" // denied, unless the tool says that it only reads
)

// ParseAction reads an action of a rule.
func ParseAction(text string) (Action, error) {
	switch a := Action(text); a {
	case Allow, Deny, Confirm, ReadOnly:
		return a, nil
	}
	return "", fmt.Errorf("%q is no action: use allow, deny, confirm or read-only", clip(text, 40))
}

// Limits of a configuration.
const (
	// MaxRules bounds the rules, and the flows: the first call of each tool looks
	// at all of them.
	MaxRules = 1000

	// maxPattern bounds a glob, a regular expression and a CEL expression.
	maxPattern = 4096

	// DefaultConfirmTimeout is how long a person has for an answer.
	DefaultConfirmTimeout = 2 * time.Minute
)

// A Config is what [New] compiles. Its zero value permits everything.
type Config struct {
	Default        Action        // Allow or Deny; empty means Allow
	ConfirmTimeout time.Duration // after which no answer is a denial; 0 means DefaultConfirmTimeout
	Budget         Budget
	Rules          []Rule
	Flows          []Flow
}

// A Budget is what one session may use up. Zero fields are without bound.
type Budget struct {
	Calls int64
	Bytes int64         // of arguments and results
	Time  time.Duration // that calls take, added up
}

// A Rule says what holds for some calls. Patterns are globs; without any, all
// servers, tools, projects or clients are meant.
type Rule struct {
	Where string // where it stands, for a person

	Servers  []string // of the servers' names
	Tools    []string
	Projects []string // of the agents' working folders; what lies below is meant too
	Clients  []string // of the names that agents give themselves

	When string // a CEL expression over args, tool, server, client and project
	Arg  Arg

	Action      Action
	Rate        Rate
	Concurrency int // calls at once, of all sessions
	Timeout     time.Duration
	MaxResult   int64 // bytes

	// AutoApprove spares a person the question of a confirm rule where the
	// agent's own configuration approves the tool.
	AutoApprove bool

	Reason string // told to the model with a denial
}

// An Arg is a condition on arguments: a value at Path matches the regular
// expression. Lists and objects at the path, or on the way to it where the path
// has *, are looked through. An allow rule wants all values there to match and
// at least one to be there; for any other one value is enough.
type Arg struct {
	Path    string // names with dots between, such as repo.owner; * is every entry
	Matches string
}

// A Flow refuses calls in sessions that have read something: results of the
// servers that From matches must not get to those that To matches. Both match a
// server's name, or server/tool.
type Flow struct {
	Where    string
	From, To []string
	Action   Action // Deny or Confirm; empty means Deny
	Reason   string
}

// A Rate is a number of calls in a span of time.
type Rate struct {
	Calls int
	Per   time.Duration
}

// maxRate bounds the calls of a rate, which may all come at once.
const maxRate = 1_000_000

var spans = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// ParseRate reads a rate such as 10/m.
func ParseRate(text string) (Rate, error) {
	number, unit, _ := strings.Cut(text, "/")
	calls, err := strconv.Atoi(strings.TrimSpace(number))
	per, ok := spans[strings.TrimSpace(unit)]
	if err != nil || !ok || calls < 1 || calls > maxRate {
		return Rate{}, fmt.Errorf("%q is no rate: write calls per s, m, h or d, such as 10/m", clip(text, 40))
	}
	return Rate{calls, per}, nil
}

// String writes the rate as ParseRate reads it.
func (r Rate) String() string {
	for unit, per := range spans {
		if per == r.Per {
			return strconv.Itoa(r.Calls) + "/" + unit
		}
	}
	return strconv.Itoa(r.Calls) + " in " + r.Per.String()
}

// CheckGlob refuses patterns that match nothing or cost too much.
func CheckGlob(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("a pattern is empty: write a name, with * for any text and ? for one character")
	case len(pattern) > maxPattern:
		return fmt.Errorf("a pattern is longer than %d bytes", maxPattern)
	}
	return nil
}

// clip bounds a text in a message.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
