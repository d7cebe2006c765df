package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/bridged/bridged/pkg/discovery"
)

// configFacts are what can be wrong with a configuration.
type configFacts struct {
	file    string
	there   bool
	data    string
	mode    fs.FileMode
	uid     int // of its owner
	me      int
	err     error // of reading it all
	getenv  func(string) string
	environ []string // NAME=value
}

func checkConfig(_ context.Context, p *patient) outcome {
	f := configFacts{file: p.file, err: p.confErr, getenv: p.getenv, environ: os.Environ(), me: p.uid}
	if data, err := os.ReadFile(p.file); err == nil {
		f.there, f.data = true, string(data)
	}
	if info, err := os.Stat(p.file); err == nil {
		f.mode, f.uid = info.Mode().Perm(), ownerOf(info)
	}
	o := f.judge()
	switch {
	case p.pathsErr != nil && keyPattern.MatchString(p.pathsErr.Error()):
		o.findings = append(o.findings, f.wrong(p.pathsErr.Error()))
	case p.pathsErr != nil:
		o.findings = append(o.findings, found("config.home", "HOME", p.pathsErr.Error(), "export HOME=~"))
	case p.confErr == nil:
		_, warnings, err := p.mounts()
		o.findings = append(o.findings, judgeMounts(warnings, err)...)
	}
	return o
}

func (f configFacts) judge() outcome {
	o := outcome{summary: "defaults; there is no " + f.file}
	if f.there {
		o.summary = f.file
		if f.uid != f.me && f.uid != 0 {
			o.findings = append(o.findings, found("config.open", f.file, fmt.Sprintf("%s belongs to uid %d, who can have any program run as you", f.file, f.uid),
				shellLine("sudo", "chown", fmt.Sprint(f.me), f.file)))
		} else if f.mode&0o022 != 0 {
			o.findings = append(o.findings, found("config.open", f.file, fmt.Sprintf("others may write to %s (mode %04o), and so have any program run as you", f.file, f.mode),
				shellLine("chmod", "go-w", f.file)).with(repair{deed: repairMode, path: f.file, mode: f.mode &^ 0o022}))
		}
	}
	if f.err != nil {
		for line := range strings.SplitSeq(f.err.Error(), "\n") {
			o.findings = append(o.findings, f.wrong(line))
		}
	}
	o.findings = append(o.findings, unknownVariables(f.environ)...)
	return o
}

// keyPattern finds the key that a check of values is about.
var keyPattern = regexp.MustCompile(`^([a-z_]+)\.([a-z_]+)\b`)

// wrong is one line of the configuration's error, with where it can be put right.
func (f configFacts) wrong(text string) finding {
	if path, line, _ := placeOf(text); path != "" {
		return found("config.invalid", path, text, edit(path, line))
	}
	if rest, ok := strings.CutPrefix(text, "environment variable "); ok {
		name, _, _ := strings.Cut(rest, ":")
		return found("config.invalid", name, text, "unset "+name)
	}
	if m := keyPattern.FindStringSubmatch(text); m != nil {
		for _, k := range defaultConfig().keys() {
			if k.name == m[0] && f.getenv(k.env) != "" {
				return found("config.invalid", k.env, text, "unset "+k.env)
			}
		}
		return found("config.invalid", m[0], text, edit(f.file, lineOfKey(f.data, m[1], m[2])))
	}
	if !f.there && f.getenv("BRIDGED_CONFIG") != "" {
		return found("config.invalid", "BRIDGED_CONFIG", text, "unset BRIDGED_CONFIG")
	}
	return found("config.invalid", f.file, text, edit(f.file, 0))
}

// lineOfKey finds where a file sets a key, 0 if nowhere.
func lineOfKey(data, section, key string) int {
	at := ""
	for i, line := range strings.Split(data, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			at = strings.Trim(line, "[] \t")
			continue
		}
		name, _, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if ok && (at == section && name == key || at == "" && name == section+"."+key) {
			return i + 1
		}
	}
	return 0
}

// unknownVariables finds settings in the environment that nobody reads.
func unknownVariables(environ []string) []finding {
	var known []string
	for _, k := range defaultConfig().keys() {
		known = append(known, k.env)
	}
	var list []finding
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "MCP_BRIDGE_") || slices.Contains(known, name) {
			continue
		}
		text := name + " is no setting of bridged, and does nothing"
		if near := discovery.Nearest(name, known, 1); len(near) > 0 {
			text += "; did you mean " + near[0] + "?"
		}
		list = append(list, found("config.variable", name, text, "unset "+name))
	}
	slices.SortFunc(list, func(a, b finding) int { return strings.Compare(a.Subject, b.Subject) })
	return list
}

// judgeMounts tells of the folders of the user's that sandboxes are to read.
func judgeMounts(warnings []string, err error) []finding {
	var list []finding
	if err != nil {
		path, line, _ := placeOf(err.Error())
		list = append(list, found("config.mount", path, err.Error(), edit(path, line)))
	}
	for _, w := range warnings {
		fix := ""
		if _, rest, ok := strings.Cut(w, "`"); ok {
			fix, _, _ = strings.Cut(rest, "`")
		}
		list = append(list, found("config.unreadable", "", w, fix))
	}
	return list
}
