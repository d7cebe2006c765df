package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/policy"
)

// doctorSchema is the version of what `bridged doctor --json` prints. Fields are
// only ever added under one version.
const doctorSchema = 1

// The statuses of checks, mildest first. Findings have them as levels, but for
// the first two, and levelNote.
const (
	statusSkipped = "skipped" // there was nothing to look at, or no way to
	statusOK      = "ok"
	levelNote     = "note"    // worth knowing, and no fault
	levelWarning  = "warning" // it works, and less well or not for long
	levelError    = "error"   // something does not work, or is not safe
)

// worse returns the worse of a status and another or a level. A note changes
// nothing.
func worse(status, other string) string {
	order := []string{levelNote, statusSkipped, statusOK, levelWarning, levelError}
	if slices.Index(order, other) > max(slices.Index(order, status), slices.Index(order, statusOK)) {
		return other
	}
	return status
}

// A doctorReport is what doctor prints. docs/doctor.md describes it.
type doctorReport struct {
	Schema  int            `json:"schema"`
	Version string         `json:"version"` // of this program
	Time    time.Time      `json:"time"`
	Status  string         `json:"status"` // "ok", "warning" or "error"
	Checks  []checkReport  `json:"checks"`
	Repairs []repairReport `json:"repairs"` // what --fix has done
}

// A checkReport is what became of one check.
type checkReport struct {
	Name         string    `json:"name"`
	Status       string    `json:"status"` // "ok", "warning", "error" or "skipped"
	Summary      string    `json:"summary,omitempty"`
	Milliseconds int64     `json:"milliseconds"`
	Findings     []finding `json:"findings"`
}

// A finding is one thing that a check has found.
type finding struct {
	Code    string `json:"code"`              // its kind, for programs
	Level   string `json:"level"`             // "note", "warning" or "error"
	Subject string `json:"subject,omitempty"` // what it is about: a path, a server, an agent
	Text    string `json:"text"`              // what is wrong
	Command string `json:"command,omitempty"` // what mends it, for a shell
	Fixable bool   `json:"fixable"`           // --fix does it

	repair repair
}

// A repairReport is one thing that --fix has done, or could not do.
type repairReport struct {
	Code    string `json:"code"` // of the finding
	Subject string `json:"subject,omitempty"`
	Done    string `json:"done,omitempty"`
	Error   string `json:"error,omitempty"` // why it was not done
}

// found makes a finding of a known kind.
func found(code, subject, text, command string) finding {
	f := finding{Code: code, Level: levelError, Subject: subject, Text: text, Command: command}
	for _, k := range kinds {
		if k.code == code {
			f.Level = k.level
		}
	}
	return f
}

// with says how --fix mends it.
func (f finding) with(r repair) finding {
	f.repair, f.Fixable = r, true
	return f
}

// exit is the exit code that the report stands for.
func (r doctorReport) exit() error {
	switch r.Status {
	case levelError:
		return exitCode(exitWrong)
	case levelWarning:
		return exitCode(exitWarnings)
	}
	return nil
}

// show prints the report, for people or for programs.
func (r doctorReport) show(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	var b strings.Builder
	for _, done := range r.Repairs {
		if done.Error != "" {
			fmt.Fprintf(&b, "not mended: %s\n", plainLines(done.Error, ""))
			continue
		}
		fmt.Fprintf(&b, "mended: %s\n", plainLines(done.Done, ""))
	}
	for _, c := range r.Checks {
		c.print(&b)
	}
	fmt.Fprintln(&b, r.conclusion())
	_, err := io.WriteString(w, b.String())
	return err
}

// marks begin the lines of checks and findings.
var statusMarks = map[string]string{statusSkipped: "-", statusOK: "\u2713", levelNote: "\u00b7", levelWarning: "!", levelError: "\u2717"}

func (c checkReport) print(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n", strings.TrimRight(fmt.Sprintf("%s %-9s %s", statusMarks[c.Status], c.Name, plainLines(c.Summary, "            ")), " "))
	for _, f := range c.Findings {
		text := f.Text
		if f.Subject != "" && !strings.Contains(text, f.Subject) {
			text = f.Subject + ": " + text
		}
		fmt.Fprintf(b, "    %s %s\n", statusMarks[f.Level], plainLines(text, "      "))
		if f.Command != "" {
			fmt.Fprintf(b, "      $ %s\n", plainLines(f.Command, "        "))
		}
	}
}

// maxDoctorLine bounds each line, in bytes. What is in one may be a stranger's.
const maxDoctorLine = 2000

// plainLines makes a text safe to show on a terminal, its lines after the first
// indented.
func plainLines(text, indent string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = policy.Plain(strings.ReplaceAll(line, "\t", " "), maxDoctorLine)
	}
	return strings.Join(lines, "\n"+indent)
}

// conclusion counts what was found.
func (r doctorReport) conclusion() string {
	count := map[string]int{}
	fixable := 0
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			count[f.Level]++
			if f.Fixable && f.Level != levelNote {
				fixable++
			}
		}
	}
	if r.Status == statusOK {
		return "\nall is well"
	}
	text := fmt.Sprintf("\n%s and %s", plural(count[levelError], "error"), plural(count[levelWarning], "warning"))
	if fixable > 0 {
		text += fmt.Sprintf("; `bridged doctor --fix` mends %d of them", fixable)
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
