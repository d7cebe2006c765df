package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bridged/bridged/pkg/register"
)

// agentFacts are what one agent's file says of us.
type agentFacts struct {
	client  string
	project bool // it is the file of the current folder
	err     error
	reg     register.Registration
	missing error    // why the entry's program can't be started
	other   bool     // it is another build than the shim beside this program
	twice   []string // servers that the agent loads, and we too, and that can be moved
}

// agentsFacts are all agents that are here.
type agentsFacts struct {
	agents  []agentFacts
	shim    string
	shimErr error
}

func checkAgents(_ context.Context, p *patient) outcome {
	if p.pathsErr != nil {
		return outcome{skipped: noFolders}
	}
	var f agentsFacts
	r, err := registerFlags{}.registrar()
	if err != nil {
		f.shimErr = err
		return f.judge()
	}
	f.shim = r.Shim
	for _, name := range r.Present() {
		f.agents = append(f.agents, lookAtAgent(r, name))
	}
	if p.cwd != p.home {
		project := *r
		project.Project = p.cwd
		for _, name := range project.Present() {
			if a := lookAtAgent(&project, name); a.reg.Entry != "" || a.err != nil {
				f.agents = append(f.agents, a)
			}
		}
	}
	return f.judge()
}

func lookAtAgent(r *register.Registrar, name string) agentFacts {
	f := agentFacts{client: name, project: r.Project != ""}
	f.reg, f.err = r.Look(name)
	if f.err != nil || f.reg.Entry == "" {
		return f
	}
	path, err := exec.LookPath(f.reg.Command)
	if err != nil {
		f.missing = err
		return f
	}
	f.other = !sameFile(path, r.Shim)
	if !f.project {
		if change, err := takeOver(r, name); err == nil { // else nothing can be moved
			f.twice = change.Moves()
		}
	}
	return f
}

// sameFile reports whether two programs are the same, be it as copies.
func sameFile(a, b string) bool {
	x, errX := fileDigest(a)
	y, errY := fileDigest(b)
	return errX == nil && errY == nil && x == y
}

func fileDigest(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// linePattern finds where in a file an agent's syntax is wrong.
var linePattern = regexp.MustCompile(`(/[^\n:]+):([0-9]+)[:0-9]*: `)

func (f agentsFacts) judge() outcome {
	if f.shimErr != nil {
		return outcome{findings: []finding{found("agents.shim", "bridge-shim", f.shimErr.Error(), installAgain())}}
	}
	var o outcome
	var registered []string
	for _, a := range f.agents {
		if a.err == nil && a.reg.Entry != "" {
			registered = append(registered, a.client)
		}
		o.findings = append(o.findings, f.judgeAgent(a)...)
	}
	switch {
	case len(f.agents) == 0:
		o.summary = "no agent's file was found"
	case len(registered) == 0:
		o.summary = fmt.Sprintf("%d agents, none of which starts bridge-shim", len(f.agents))
		o.findings = append(o.findings, found("agents.none", "", "bridge-shim is registered with no agent", "bridged register"))
	default:
		o.summary = "registered with " + strings.Join(registered, ", ")
	}
	return o
}

// installAgain is the command that puts both programs in place.
func installAgain() string {
	self, err := os.Executable()
	if err == nil && strings.HasPrefix(self, "/usr/bin/") && onPath("apt-get") {
		return "sudo apt-get install -y --reinstall bridged"
	}
	return "make install" // in a source tree
}

func (f agentsFacts) judgeAgent(a agentFacts) []finding {
	again := []string{"bridged", "register", "--client", a.client, "--yes"}
	if a.project {
		again = append(again, "--project")
	}
	if a.err != nil {
		fix := edit(a.reg.Path, 0)
		if path, line, ok := findPlace(a.err.Error()); ok {
			fix = edit(path, line)
		} else if path, ok := errorPath(a.err); ok {
			fix = edit(path, 0)
		}
		return []finding{found("agents.unreadable", a.client, a.err.Error(), fix)}
	}
	if a.reg.Entry == "" {
		return nil
	}
	var list []finding
	switch {
	case a.missing != nil:
		list = append(list, found("agents.gone", a.client, fmt.Sprintf("%s starts %s (entry %s in %s), which can't be started: %v", a.client, a.reg.Command, a.reg.Entry, a.reg.Path, a.missing), shellLine(again...)))
	case a.other:
		list = append(list, found("agents.other", a.client, fmt.Sprintf("%s starts %s, which is another build of bridge-shim than %s", a.client, a.reg.Command, f.shim), shellLine(again...)))
	}
	if len(a.reg.Twins) > 0 {
		list = append(list, found("agents.twice", a.client, fmt.Sprintf("%s starts bridge-shim more than once, as %s, so that its model has the same tool as often: keep one entry", a.client, strings.Join(append([]string{a.reg.Entry}, a.reg.Twins...), " and ")), edit(a.reg.Path, 0)))
	}
	if len(a.twice) > 0 {
		list = append(list, found("agents.duplicates", a.client, fmt.Sprintf("%s loads the tools of %s itself, and bridged reaches the same servers: their schemas cost the model's context twice", a.client, strings.Join(a.twice, ", ")),
			shellLine("bridged", "register", "--client", a.client, "--take-over")))
	}
	return list
}

func findPlace(text string) (path string, line int, ok bool) {
	m := linePattern.FindStringSubmatch(text)
	if m == nil {
		return "", 0, false
	}
	path, line, _ = placeOf(m[1] + ":" + m[2] + ": ")
	return path, line, path != ""
}

// errorPath is the file that a system's error is about.
func errorPath(err error) (string, bool) {
	e, ok := errors.AsType[*os.PathError](err)
	if !ok || !filepath.IsAbs(e.Path) {
		return "", false
	}
	return e.Path, true
}
