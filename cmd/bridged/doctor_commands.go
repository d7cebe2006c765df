package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// bareWord is a word that a shell takes as it is.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellLine is a command line for a POSIX shell, its words quoted where need be.
func shellLine(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}

func shellWord(w string) string {
	if bareWord.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// edit opens a file in the person's editor, at a line if that is known.
func edit(path string, line int) string {
	if line > 0 {
		return fmt.Sprintf("${EDITOR:-vi} +%d %s", line, shellWord(path))
	}
	return "${EDITOR:-vi} " + shellWord(path)
}

// placeOf splits what begins with file:line or file:line:column.
func placeOf(text string) (path string, line int, rest string) {
	m := placePattern.FindStringSubmatch(text)
	if m == nil {
		return "", 0, text
	}
	line, _ = strconv.Atoi(m[2]) // digits; one without end is no line
	return m[1], line, m[3]
}

var placePattern = regexp.MustCompile(`(?s)^(/[^\n]*?):([0-9]+)(?::[0-9]+)?: (.*)$`)

// A packager installs packages of a distribution.
type packager struct{ program, install string }

var packagers = []packager{
	{"apt-get", "sudo apt-get install -y %s"},
	{"dnf", "sudo dnf install -y %s"},
	{"zypper", "sudo zypper install -y %s"},
	{"pacman", "sudo pacman -S --noconfirm %s"},
	{"apk", "sudo apk add %s"},
	{"brew", "brew install %s"},
}

// installPackage is how a package gets here, "" if nobody knows. names are the
// package's by packager; "" is the name for all others.
func installPackage(have func(string) bool, names map[string]string) string {
	for _, p := range packagers {
		if !have(p.program) {
			continue
		}
		name, other := names[p.program]
		if !other {
			name = names[""]
		}
		if name != "" {
			return fmt.Sprintf(p.install, name)
		}
	}
	return ""
}

// onPath reports whether a program is on PATH.
func onPath(name string) bool { return pathOf(name) != "" }

// pathOf is where PATH has a program, "" if nowhere. Nothing that doctor looks
// up is run.
func pathOf(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}
