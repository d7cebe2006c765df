package bridge

import (
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
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
	Stdout     string           `json:"stdout,omitempty"`
	Stderr     string           `json:"stderr,omitempty"`
	Background string           `json:"background,omitempty"` // of code that earlier calls left running
	Result     string           `json:"result,omitempty"`
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
	text := cutMiddle(why.Error(), v.budget)
	res := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{mcp.NewTextContent(text)}}
	if v.structured {
		res.StructuredContent = structured{
			Status: statusNotRun, Error: &structuredError{Message: text}, Notices: notices,
		}
	}
	return v.withNotices(res, notices)
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
	text, cut := v.text(out, r)
	if cut > 0 {
		r.Notices = append(r.Notices, fmt.Sprintf("%d characters were cut; the session still has the values, so print slices of them, or filter before printing (the last value is _)", cut))
	}
	notices := boundNotices(r.Notices)
	res := &mcp.CallToolResult{IsError: r.Status != sandbox.StatusOK && r.Status != statusRunning}
	if text := out.background.cut(v.budget / 4); text != "" {
		res.Content = append(res.Content, mcp.NewTextContent("Output of code that an earlier call left running:\n"+own(text)))
	}
	if text != "" {
		res.Content = append(res.Content, mcp.NewTextContent(own(text)))
	}
	res.Content = append(append(res.Content, rich...), links...)
	if v.structured {
		res.StructuredContent = v.structure(out, r, notices)
	}
	return v.withNotices(res, append(headline(r), notices...))
}

// headline says how a run ended, if the traceback does not.
func headline(r sandbox.Result) []string {
	var lines []string
	switch r.Status {
	case sandbox.StatusTimeout:
		lines = append(lines, "timeout: the code was stopped at its time limit of "+r.Limit)
	case sandbox.StatusInterrupted:
		lines = append(lines, fmt.Sprintf("interrupted after %.1f s", r.Duration.Seconds()))
	case sandbox.StatusLost:
		lines = append(lines, fmt.Sprintf("lost: the sandbox ended after %.1f s, before the code did", r.Duration.Seconds()))
	}
	if r.StateLost != "" {
		lines = append(lines, "state lost: "+cutMiddle(r.StateLost, maxNotice))
	}
	return lines
}

// withNotices appends the notices as one block and makes sure that the content
// is not empty, which some agents take for a failure.
func (v view) withNotices(res *mcp.CallToolResult, notices []string) *mcp.CallToolResult {
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
	all        part // stdout and stderr as they came
	stdout     part
	stderr     part
	background part
}

// A tape collects output for one part.
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

func (t *tape) part() part { return part{t.b.String(), t.gone, t.at} }

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
	return printed{all.part(), stdout.part(), stderr.part(), background.part()}
}

// text puts together the output, the value and the traceback, and says how many
// characters it had to leave out.
func (v view) text(out printed, r sandbox.Result) (string, int64) {
	parts, cut := fit(v.budget, out.all, part{text: r.Value}, part{text: trace(r.Error)})
	var b strings.Builder
	for _, p := range parts {
		if p == "" {
			continue
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(p)
	}
	return strings.TrimSuffix(b.String(), "\n"), cut
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

func (v view) structure(out printed, r sandbox.Result, notices []string) structured {
	var e sandbox.PyError
	if r.Error != nil {
		e = *r.Error
	}
	parts, _ := fit(v.budget, out.stdout, out.stderr, part{text: r.Value}, part{text: e.Traceback}, part{text: e.Message})
	s := structured{
		Status:     string(r.Status),
		Stdout:     parts[0],
		Stderr:     parts[1],
		Background: out.background.cut(v.budget / 4),
		Result:     parts[2],
		Notices:    notices,
		Files:      structuredFiles(r.Files),
		StateLost:  cutMiddle(r.StateLost, maxNotice),
		DurationMS: r.Duration.Milliseconds(),
	}
	if r.Error != nil {
		s.Error = &structuredError{Type: cutMiddle(e.Type, maxNotice), Message: parts[4], Traceback: parts[3]}
	}
	return s
}
