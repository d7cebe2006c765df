package sandbox

import (
	"fmt"
	"strings"
	"time"
)

// A limit is a run's time limit and what to say of it.
type limit struct {
	span    time.Duration
	words   string // for a run that reached it: the value, whose it is, what to do
	notices []string
}

// limit applies the session's default and cap to a caller's time limit.
func (s *Session) limit(d time.Duration) limit {
	most := s.opts.MaxTimeout
	more := fmt.Sprintf("pass a larger timeout if it needs longer, at most %s (run.max_timeout)", Brief(most))
	full := fmt.Sprintf("%s, the most that run.max_timeout allows; do less in one call", Brief(most))
	switch {
	case d <= 0 && s.opts.Timeout >= most:
		return limit{span: s.opts.Timeout, words: full}
	case d <= 0:
		return limit{span: s.opts.Timeout, words: fmt.Sprintf("%s, the default (run.timeout); %s", Brief(s.opts.Timeout), more)}
	case d > most:
		return limit{span: most, words: full, notices: []string{
			fmt.Sprintf("The time limit was lowered to %s, the most that the configuration allows (run.max_timeout).", Brief(most))}}
	case d == most:
		return limit{span: d, words: full}
	}
	return limit{span: d, words: fmt.Sprintf("%s, as the call asked; %s", Brief(d), more)}
}

// kept says how long variables last.
func (s *Session) kept() string {
	if d := s.pool.opts.SessionIdle; d > 0 {
		return fmt.Sprintf("Variables are kept until the session has been idle for %s.", Brief(d))
	}
	return "Variables are kept."
}

// Brief writes a span of time as people do: 30m and not 30m0s.
func Brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
