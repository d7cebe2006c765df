package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
)

// A definition is one place that defines a server, and what became of it.
type definition struct {
	Server string `json:"server"`         // how it is called here
	State  string `json:"state"`          // see below
	Why    string `json:"why,omitempty"`  // it is not used
	Does   string `json:"does,omitempty"` // what approving it allows: the command, or the URL that is contacted
	Agent  string `json:"agent"`
	Scope  string `json:"scope"`
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Key    string `json:"key"`
}

// The states of definitions, beside stateDisabled and stateHeld.
const (
	stateUsed     = "used"
	stateSame     = "same"     // another place with the definition that is used
	stateShadowed = "shadowed" // another one of its agent is stronger
	stateUnusable = "unusable" // a variable is missing, say
)

// A sourceReport is what `bridged servers --sources --json` prints.
type sourceReport struct {
	Definitions []definition        `json:"definitions"`        // by server, those in use first
	Problems    []discovery.Problem `json:"problems,omitempty"` // of entries and files that are no definition
}

// newSourceReport tells where each definition comes from. expand puts a
// server's variables in place.
func newSourceReport(found discovery.Result, expand func(discovery.Server) error) sourceReport {
	r := sourceReport{Definitions: []definition{}, Problems: found.Problems}
	add := func(s discovery.Server, state, why string) {
		does := ""
		if state == stateHeld {
			does = doing(s)
		}
		for i, source := range s.Sources {
			if i > 0 && state == stateUsed {
				state, why = stateSame, "as "+s.Sources[0].String()
			}
			r.Definitions = append(r.Definitions, definition{
				Server: s.Name, State: state, Why: why, Does: does,
				Agent: source.Agent, Scope: string(source.Scope), Path: source.Path, Line: source.Line, Key: source.Key,
			})
		}
	}
	for _, s := range found.Servers {
		if err := expand(s); err != nil {
			add(s, stateUnusable, err.Error())
			continue
		}
		add(s, stateUsed, "")
	}
	for _, s := range found.Held {
		add(s, stateHeld, s.Held)
	}
	for _, s := range found.Disabled {
		add(s, stateDisabled, "switched off: "+s.DisabledBy)
	}
	for _, s := range found.Shadowed {
		add(s.Server, stateShadowed, "by "+s.By.String())
	}
	slices.SortStableFunc(r.Definitions, func(a, b definition) int { return cmp.Compare(a.Server, b.Server) })
	return r
}

// doing says what a definition would do, as it is written.
func doing(s discovery.Server) string {
	if s.Command == "" {
		return "contacts " + plainWord(s.URL)
	}
	return "runs " + commandLine(s)
}

// tellHeld says what a person can do about definitions that are held, for the
// given reasons.
func tellHeld(whys []string) string {
	whys = slices.Compact(slices.Sorted(slices.Values(whys)))
	if slices.ContainsFunc(whys, func(why string) bool { return strings.Contains(why, approveCommand) }) {
		return "held: not used until you have looked at it: " + approveCommand + " [NAME...] shows each and asks\n"
	}
	return "held: " + policy.Plain(strings.Join(whys, "; "), maxPart) + "\n"
}

// showSources prints the report for the current folder and environment.
func showSources(w io.Writer, asJSON bool) error {
	c, p, err := configHere()
	if err != nil {
		return err
	}
	found, err := discoverHere(c, p)
	if err != nil {
		return err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the current folder: %w", err)
	}
	r := newSourceReport(found, func(s discovery.Server) error {
		_, err := s.Expand(os.LookupEnv, os.Getenv("HOME"), cwd)
		return err
	})
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.print(w)
}

func (r sourceReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tSTATE\tAGENT\tSCOPE\tDEFINED IN\tWHY")
	held := []string{}
	for _, d := range r.Definitions {
		place, why := discovery.Source{Path: d.Path, Line: d.Line, Key: d.Key}.String(), d.Why
		if d.State == stateHeld {
			held, why = append(held, d.Why), "the project's own file; it "+d.Does
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", policy.Plain(d.Server, 200), d.State, d.Agent, d.Scope, policy.Plain(place, maxPart), policy.Plain(why, maxPart))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(held) > 0 {
		if _, err := fmt.Fprintf(w, "\n%s", tellHeld(held)); err != nil {
			return err
		}
	}
	for i, p := range r.Problems {
		if i == 0 {
			fmt.Fprintln(w, "\nwhat can't be used:")
		}
		if _, err := fmt.Fprintf(w, "  %s\n", policy.Plain(p.String(), maxPart)); err != nil {
			return err
		}
	}
	return nil
}
