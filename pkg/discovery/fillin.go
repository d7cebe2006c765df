package discovery

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/tailscale/hujson"
)

// fillIn puts values in place of the {env:VAR} and {file:path} that lie outside
// of strings and comments: OpenCode replaces them in a file's text before it
// parses that. Those in strings are variables like other agents', which
// [Server.Expand] replaces.
//
// A value becomes what it is as JSON, else a string; lines stay where they are.
// One that is missing is told and becomes null. None becomes a key: names are
// shown to agents, also those of a project that nobody trusts yet, and values may
// be secrets.
func (l *loader) fillIn(file string, text []byte) []byte {
	var out []byte
	s := scanner{text}
	for i := 0; i < len(text); {
		end := i + 1
		switch text[i] {
		case '"':
			if at, err := s.text(i); err == nil {
				end = at
			}
		case '/':
			if at, err := s.comment(i); err == nil {
				end = at
			}
		case '{':
			if m := bracesHere.FindSubmatch(text[i:min(len(text), i+maxBraces)]); m != nil && !s.isKey(i+len(m[0])) {
				line := 1 + bytes.Count(text[:i], []byte{'\n'})
				out = append(out, l.filling(file, line, string(m[1]), string(m[2]))...)
				i += len(m[0])
				continue
			}
		}
		out = append(out, text[i:end]...)
		i = end
	}
	return out
}

// isKey reports whether what ends before i is the key of an object.
func (s scanner) isKey(i int) bool {
	at, err := s.space(i)
	return err == nil && at < len(s.src) && s.src[at] == ':'
}

// maxBraces bounds one {env:VAR} or {file:path}, in bytes.
const maxBraces = 4096 + len("{file:}")

// filling returns one value as JSON on one line.
func (l *loader) filling(file string, line int, kind, name string) []byte {
	value, ok := "", false
	if kind == "env" {
		value, ok = l.opts.Getenv(name)
	} else {
		value, ok = l.fillingFile(file, name)
	}
	if !ok || strings.TrimSpace(value) == "" {
		l.report(Problem{Path: file, Line: line, Msg: "{" + kind + ":" + name + "} has no value that may be used here; null is in its place"})
		return []byte("null")
	}
	if plain, err := hujson.Standardize([]byte(value)); err == nil {
		return bytes.Map(oneLine, plain)
	}
	plain, err := json.Marshal(value)
	if err != nil {
		return []byte("null") // cannot happen: a text is always JSON
	}
	return plain
}

func oneLine(r rune) rune {
	if r == '\n' || r == '\r' {
		return ' ' // a string cannot hold one
	}
	return r
}

// fillingFile reads a file that is named in another one. A project's file names
// only files of the project: what others wrote reads nothing of the person's.
func (l *loader) fillingFile(file, name string) (string, bool) {
	path := (&expansion{home: l.opts.Home}).tilde(strings.TrimSpace(name))
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.folderOf(file), path)
	}
	l.looked = append(l.looked, path)
	if l.filled[file] == atProject && l.leadsOut(path) {
		return "", false
	}
	data, err := readBounded(path, maxValueFile)
	if err != nil {
		return "", false
	}
	text, _ := decodeText(data)
	return strings.TrimSpace(string(text)), true
}

// folderOf returns the folder that relative paths in a file mean. Those in the
// text of a variable mean the working folder.
func (l *loader) folderOf(file string) string {
	if strings.HasPrefix(file, "$") {
		return l.opts.Cwd
	}
	return filepath.Dir(file)
}
