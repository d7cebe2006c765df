package discovery

import (
	"path/filepath"
	"strings"
)

// maxValueFile bounds a file whose text becomes a value.
const maxValueFile = 64 << 10

// file returns the text of a file that a definition takes a value from, without
// the space around it. One that cannot be read is missing.
func (x *expansion) file(path string) (string, bool) {
	path = x.tilde(strings.TrimSpace(path))
	if !filepath.IsAbs(path) {
		x.missing.Others = append(x.missing.Others, "file "+path+" has no absolute path")
		return "", false
	}
	if data, err := readBounded(path, maxValueFile); err == nil {
		text, _ := decodeText(data)
		return strings.TrimSpace(string(text)), true
	}
	x.missing.Others = append(x.missing.Others, "file "+path+" cannot be read")
	return "", false
}

// secretFiles are where Continue keeps secrets, beside the environment.
func (x *expansion) secretFiles() []string {
	var files []string
	if x.home != "" {
		files = append(files, filepath.Join(x.home, ".continue", ".env"))
	}
	if x.cwd != "" {
		files = append(files, filepath.Join(x.cwd, ".continue", ".env"), filepath.Join(x.cwd, ".env"))
	}
	return files
}

// secret is ${{ secrets.NAME }} or ${{ inputs.NAME }}.
func (x *expansion) secret(_ fieldSet, group []string) (string, bool) {
	kind, name, _ := strings.Cut(group[0], ".")
	switch {
	case name == "":
		return "", false
	case kind == "inputs":
		x.missing.Inputs = append(x.missing.Inputs, name)
		return "", false
	case kind != "secrets":
		return "", false
	}
	return x.lookUpSecret(name)
}

// jsonSecret is ${NAME}.
func (x *expansion) jsonSecret(_ fieldSet, group []string) (string, bool) {
	if !variableName.MatchString(group[0]) {
		return "", false
	}
	return x.lookUpSecret(group[0])
}

func (x *expansion) lookUpSecret(name string) (string, bool) {
	for _, file := range x.secretFiles() {
		data, err := readBounded(file, maxEnvFile)
		if err != nil {
			continue // an absent or broken file has no secrets; the name is told if none has
		}
		text, _ := decodeText(data)
		if value, ok := parseEnvFile(string(text))[name]; ok {
			return value, true
		}
	}
	return x.env(name)
}
