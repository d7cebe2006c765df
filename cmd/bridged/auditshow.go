package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/audit"
)

// An auditFilter says which lines are shown, and how.
type auditFilter struct {
	session, server, tool, client string
	kinds, outcomes               []string
	since                         string
	last                          int
	asJSON, follow                bool

	from time.Time // what since means; zero is the beginning
}

func (f *auditFilter) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.session, "session", "", "lines of this session, as bridged status names it")
	flags.StringVar(&f.client, "client", "", "lines of this agent's client")
	flags.StringVar(&f.server, "server", "", "calls of this MCP server")
	flags.StringVar(&f.tool, "tool", "", "calls of this tool")
	flags.StringSliceVar(&f.kinds, "kind", nil, "lines of these kinds, such as run or call")
	flags.StringSliceVar(&f.outcomes, "outcome", nil, "lines with these outcomes, such as ok or denied; !ok: with any other")
	flags.StringVar(&f.since, "since", "", "lines not older than this: 10m, 2h, or a time such as 2026-01-31 or 2026-01-31T15:04:05Z")
	flags.IntVarP(&f.last, "last", "n", 50, "only the last so many of them; 0: all")
	flags.BoolVar(&f.asJSON, "json", false, "print the lines as they are in the log")
	flags.BoolVar(&f.follow, "follow", false, "go on with new lines as they are written")
}

// check reads what the flags say.
func (f *auditFilter) check(now time.Time) error {
	for _, glob := range append([]string{f.session, f.server, f.tool, f.client}, append(f.kinds, f.outcomes...)...) {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("%q is no pattern: write * for any text, and ? for any character", glob)
		}
	}
	if f.since == "" {
		return nil
	}
	if d, err := time.ParseDuration(f.since); err == nil {
		f.from = now.Add(-d)
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, f.since, time.Local); err == nil {
			f.from = t
			return nil
		}
	}
	return fmt.Errorf("--since %q: write for example 10m, 2h, 2026-01-31 or 2026-01-31T15:04:05Z", f.since)
}

// matches reports whether a line is to be shown. One that can't be read always
// is.
func (f *auditFilter) matches(l audit.Line) bool {
	if l.Hash == "" {
		return true
	}
	for _, pair := range [][2]string{{f.session, l.Session}, {f.client, l.Client}, {f.server, l.Server}, {f.tool, l.Tool}} {
		if pair[0] != "" && !globMatches(pair[0], pair[1]) {
			return false
		}
	}
	return anyMatches(f.kinds, string(l.Kind)) && anyMatches(f.outcomes, l.Outcome) && !l.Time.Before(f.from)
}

// globMatches is path.Match for names, in which a slash is nothing special.
func globMatches(glob, name string) bool {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	ok, err := path.Match(flat(glob), flat(name))
	return err == nil && ok
}

// anyMatches reports whether one of the globs matches, or there are none. Those
// that begin with ! are there to not match.
func anyMatches(globs []string, name string) bool {
	for _, glob := range globs {
		without, not := strings.CutPrefix(glob, "!")
		if globMatches(without, name) != not && (!not || name != "") {
			return true
		}
	}
	return len(globs) == 0
}

// show prints what matches.
func (f *auditFilter) show(ctx context.Context, dir string, out, notes io.Writer) error {
	var tail []string // the last that match
	left := 0
	place, err := audit.Read(dir, func(l audit.Line, raw []byte) error {
		if !f.matches(l) {
			return nil
		}
		tail = append(tail, f.format(l, raw))
		if f.last > 0 && len(tail) > 2*f.last {
			left += len(tail) - f.last
			tail = append([]string(nil), tail[len(tail)-f.last:]...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if f.last > 0 && len(tail) > f.last {
		left += len(tail) - f.last
		tail = tail[len(tail)-f.last:]
	}
	if left > 0 {
		fmt.Fprintf(notes, "bridged: %d earlier lines are not shown; --last 0 shows all\n", left)
	}
	for _, text := range tail {
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	if !f.follow {
		return nil
	}
	err = audit.Follow(ctx, dir, place, func(l audit.Line, raw []byte) error {
		if !f.matches(l) {
			return nil
		}
		_, err := fmt.Fprintln(out, f.format(l, raw))
		return err
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (f *auditFilter) format(l audit.Line, raw []byte) string {
	switch {
	case f.asJSON:
		return string(raw)
	case l.Hash == "":
		return "? a line that can't be read: see bridged audit verify"
	}
	return formatLine(l)
}

// formatLine is a line for a person.
func formatLine(l audit.Line) string {
	words := []string{l.Time.Local().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("%-8s", l.Kind)}
	add := func(text string, present bool) {
		if present {
			words = append(words, text)
		}
	}
	add(l.Session, l.Session != "")
	add("python "+strconv.Quote(l.Python), l.Python != "")
	add(l.Server+"."+l.Tool, l.Server != "")
	add(l.Outcome, l.Outcome != "")
	add(l.Duration().String(), l.Micros > 0)
	add(fmt.Sprintf("%d B in, %d B out", l.In, l.Out), l.In > 0 || l.Out > 0)
	add("read before: "+strings.Join(l.Sources, ", "), len(l.Sources) > 0)
	add(string(l.Arguments), len(l.Arguments) > 0)
	add(oneLineOf(l.Code), l.Code != "")
	add(l.Detail, l.Detail != "")
	add(fmt.Sprintf("%d lines are missing", l.Missing), l.Missing > 0)
	add("PROBLEM: "+l.Problem, l.Problem != "")
	return printable(strings.Join(words, "  "))
}

// oneLineOf is the beginning of code, for a list.
func oneLineOf(code string) string {
	const most = 100
	text := strings.Join(strings.Fields(code), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

// printable spells out the controls of a text: it holds what agents and servers
// wrote, and is shown on a terminal.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}
