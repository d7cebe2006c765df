package bridge

import (
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
	"github.com/bridged/bridged/pkg/tokens"
)

const (
	maxNotices = 10
	maxNotice  = 400 // bytes
)

// statusNotRun is the status of a call whose code never began.
const statusNotRun = "not_run"

// structured is the structuredContent of a result. Empty fields are left out.
type structured struct {
	Status     string           `json:"status"`
	Stdout     any              `json:"stdout,omitempty"` // a string, or JSON that the code printed
	Stderr     string           `json:"stderr,omitempty"`
	Background string           `json:"background,omitempty"` // of code that earlier calls left running
	Result     any              `json:"result,omitempty"`     // a string, or the value as JSON
	Error      *structuredError `json:"error,omitempty"`
	Notices    []string         `json:"notices,omitempty"`
	Files      []structuredFile `json:"files,omitempty"` // published
	StateLost  string           `json:"state_lost,omitempty"`
	DurationMS int64            `json:"duration_ms"`
}

type structuredError struct {
	Type      string `json:"type,omitempty"`
	Message   string `json:"message,omitempty"`
	Traceback string `json:"traceback,omitempty"`
}

// refusal is the result of a call that ran nothing.
func (v view) refusal(why error, notices []string) *mcp.CallToolResult {
	text := tokens.Cut(why.Error(), v.budget)
	told := structured{Status: statusNotRun, Error: &structuredError{Message: text}, Notices: notices}
	return v.answer(told, true, []mcp.Content{mcp.NewTextContent(text)}, nil, notices)
}

// answer puts a result together: the text in the form of the mode, plain and
// notices being that of Compact, then what is no text.
func (v view) answer(told structured, failed bool, plain, rich []mcp.Content, notices []string) *mcp.CallToolResult {
	res := &mcp.CallToolResult{IsError: failed}
	if v.structured {
		res.StructuredContent = told
	}
	if v.mode != Compact {
		if text, err := v.document(told); err == nil {
			res.Content = append([]mcp.Content{mcp.NewTextContent(text)}, rich...)
			return res
		}
	}
	res.Content = append(plain, rich...)
	return withNotices(res, notices)
}

// tag begins each line that is bridged's own word.
const tag = "[bridged] "

// own makes sure that no line of a program's looks like bridged's, for clients
// that join the content blocks to one text.
func own(text string) string {
	if !strings.Contains(text, tag) {
		return text
	}
	text = strings.ReplaceAll(text, "\n"+tag, "\n\\"+tag)
	if strings.HasPrefix(text, tag) {
		text = `\` + text
	}
	return text
}

// result is what an agent gets to see of a run. What bridged itself has to say
// stands in content blocks of its own, which no print can imitate.
func (v view) result(r sandbox.Result) *mcp.CallToolResult {
	out := split(r.Output)
	rich, left := v.rich(r.Rich)
	links, unnamed := v.links(r.Files)
	r.Notices = append(append(r.Notices, left...), unnamed...)
	told, cut := v.tight(out, r)
	text, lost := v.text(out, r)
	if v.mode == Compact {
		cut = lost
	}
	told.Notices = boundNotices(append(cut, r.Notices...))
	var plain []mcp.Content
	if text := foldBlank(v.behind(out.background)); text != "" {
		plain = append(plain, mcp.NewTextContent("Output of code that an earlier call left running:\n"+own(text)))
	}
	if text != "" {
		plain = append(plain, mcp.NewTextContent(own(text)))
	}
	failed := r.Status != sandbox.StatusOK && r.Status != statusRunning
	return v.answer(told, failed, plain, append(rich, links...), append(headline(r), told.Notices...))
}

// headline says how a run ended, if the traceback does not.
func headline(r sandbox.Result) []string {
	var lines []string
	if how := ending(r); how != "" {
		lines = append(lines, how)
	}
	if r.StateLost != "" {
		lines = append(lines, "state lost: "+cutMiddle(r.StateLost, maxNotice))
	}
	return lines
}

// ending says why a run ended before its code did, and what can be done; "" if
// it did not.
func ending(r sandbox.Result) string {
	switch r.Status {
	case sandbox.StatusTimeout:
		return "timeout: the code was stopped at its time limit of " + r.Limit
	case sandbox.StatusInterrupted:
		return fmt.Sprintf("interrupted after %.1f s", r.Duration.Seconds())
	case sandbox.StatusLost:
		return fmt.Sprintf("lost: the sandbox ended after %.1f s, before the code did; the next call gets a fresh one, so run again what it needs", r.Duration.Seconds())
	}
	return ""
}

// withNotices appends the notices as one block and makes sure that the content
// is not empty, which some agents take for a failure.
func withNotices(res *mcp.CallToolResult, notices []string) *mcp.CallToolResult {
	if len(notices) > 0 {
		res.Content = append(res.Content, mcp.NewTextContent(tag+strings.Join(notices, "\n"+tag)))
	}
	if len(res.Content) == 0 {
		res.Content = append(res.Content, mcp.NewTextContent("(no output)"))
	}
	return res
}

func boundNotices(notices []string) []string {
	left := len(notices) - maxNotices
	if left > 0 {
		notices = notices[:maxNotices]
	}
	out := make([]string, 0, len(notices)+1)
	for _, n := range notices {
		out = append(out, cutMiddle(strings.ReplaceAll(n, "\n", " "), maxNotice))
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("%d more notices were left out", left))
	}
	return out
}

// printed is a run's output, taken apart.
type printed struct {
	all        tokens.Text // stdout and stderr as they came
	stdout     tokens.Text
	stderr     tokens.Text
	background tokens.Text
}

// A tape collects output for one text.
type tape struct {
	b    strings.Builder
	gone int64
	at   int
}

func (t *tape) add(o sandbox.Output) {
	if o.Cut > 0 && t.gone == 0 {
		t.at = t.b.Len()
	}
	t.gone += max(o.Cut, 0)
	t.b.WriteString(o.Text)
}

func (t *tape) text() tokens.Text { return tokens.Text{Text: t.b.String(), Gone: t.gone, At: t.at} }

func split(output []sandbox.Output) printed {
	var all, stdout, stderr, background tape
	for _, o := range output {
		if o.Background {
			background.add(o)
			continue
		}
		all.add(o)
		if o.Stream == sandbox.Stderr {
			stderr.add(o)
			continue
		}
		stdout.add(o)
	}
	return printed{all.text(), stdout.text(), stderr.text(), background.text()}
}

// text puts together the output, the value and the traceback, and says what it
// had to leave out.
func (v view) text(out printed, r sandbox.Result) (text string, cut []string) {
	f := v.fit(out.all, tokens.Text{Text: r.Value}, tokens.Text{Text: trace(r.Error)})
	var b strings.Builder
	for _, p := range f.texts {
		if p == "" {
			continue
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(p)
	}
	return foldBlank(b.String()), rest(r, f.missing[0], f.missing[1], f.missing[2])
}

// trace is what to show of an exception.
func trace(e *sandbox.PyError) string {
	switch {
	case e == nil:
		return ""
	case e.Traceback != "":
		return e.Traceback
	case e.Message == "":
		return e.Type
	}
	return e.Type + ": " + e.Message
}

// structure makes the structured result, without notices, and says what it had
// to leave out.
func (v view) structure(out printed, r sandbox.Result) (s structured, cut []string) {
	var e sandbox.PyError
	if r.Error != nil {
		e = *r.Error
	}
	value, cost := v.value(r)
	v.budget -= cost
	f := v.fit(out.stdout, out.stderr, tokens.Text{Text: value.text}, tokens.Text{Text: e.Traceback}, tokens.Text{Text: e.Message})
	parts := f.texts
	s = structured{
		Status:     string(r.Status),
		Stdout:     v.printed(parts[0], out.stdout.Text),
		Stderr:     parts[1],
		Background: v.behind(out.background),
		Result:     value.shown(parts[2]),
		Files:      structuredFiles(r.Files),
		StateLost:  cutMiddle(r.StateLost, maxNotice),
		DurationMS: r.Duration.Milliseconds(),
	}
	if r.Error != nil {
		s.Error = &structuredError{Type: cutMiddle(e.Type, maxNotice), Message: parts[4], Traceback: parts[3]}
	}
	if how := ending(r); how != "" {
		s.Error = &structuredError{Message: how, Traceback: parts[3]}
	}
	return s, rest(r, f.missing[0]+f.missing[1], f.missing[2], f.missing[3]+f.missing[4])
}
