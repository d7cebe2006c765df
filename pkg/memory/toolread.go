package memory

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// A ToolText is what a tool's file says.
type ToolText struct {
	Source  string `json:"source"`
	Path    string `json:"path"`
	Version int    `json:"version"`
	Digest  string `json:"digest"`
}

// Read returns what a tool's file says, or said in a version; 0 is the newest.
// The name may be "user_tools" too, which has no versions.
func (t *Tools) Read(name string, version int) (ToolText, error) {
	if name != manyTools {
		if err := checkName(name); err != nil {
			return ToolText{}, err
		}
	}
	s, err := t.before(name)
	if err != nil {
		return ToolText{}, err
	}
	if version == 0 || version == s.version {
		if s.version == 0 && name != manyTools {
			return ToolText{}, t.unknown(name)
		}
		return ToolText{s.text, t.shown(name), s.version, digest(s.text)}, nil
	}
	if !slices.Contains(s.versions, version) {
		if len(s.versions) == 0 && s.version == 0 {
			return ToolText{}, t.unknown(name)
		}
		return ToolText{}, errorf(CodeToolMissing, "The saved tool %s has no version %d; those that are kept: %s.", name, version, listed(s.versions))
	}
	text, err := t.history.read(name, version)
	if err != nil {
		return ToolText{}, errorf(CodeToolUnreadable, "Version %d of the saved tool %s can't be read: %v.", version, name, plain(err))
	}
	return ToolText{text, t.shown(name), version, digest(text)}, nil
}

// A ToolVersion is one of a tool that is kept.
type ToolVersion struct {
	Version int
	Saved   time.Time
	Bytes   int
}

// Versions lists what of a tool can be restored, the oldest first, also of one
// that was deleted.
func (t *Tools) Versions(name string) ([]ToolVersion, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var list []ToolVersion
	for _, v := range t.history.versions(name) {
		if text, info, err := readText(t.history.path(name, v)); err == nil { // else it was dropped meanwhile
			list = append(list, ToolVersion{v, info.ModTime(), len(text)})
		}
	}
	if len(list) == 0 {
		return nil, t.unknown(name)
	}
	return list, nil
}

// List describes the tools, by name. One that can't be read has a problem, and
// hides no other.
func (t *Tools) List() []SavedTool {
	list := []SavedTool{}
	if t.opts.Off {
		return list
	}
	for _, name := range t.files() {
		if name == manyTools {
			continue
		}
		list = append(list, t.describe(name))
	}
	for _, tool := range t.describeMany() {
		if !slices.ContainsFunc(list, func(s SavedTool) bool { return s.Name == tool.Name }) {
			list = append(list, tool)
		}
	}
	slices.SortFunc(list, func(a, b SavedTool) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func (t *Tools) describe(name string) SavedTool {
	tool := SavedTool{Name: name, Signature: name + "(...)", File: t.shown(name)}
	s, err := t.current(name)
	if err != nil {
		tool.Problem = err.Error()
		return tool
	}
	tool.Version, tool.Versions, tool.Edited, tool.Saved = s.version, s.versions, s.edited, s.saved
	tool.Servers = serversIn(s.text)
	defs := sketch(s.text)
	// The last of a name is the one that counts.
	for _, d := range slices.Backward(defs) {
		if d.name == name {
			tool.fill(d)
			break
		}
	}
	if words := described(s.text); words != "" {
		tool.Description = words
	}
	return tool
}

func (tool *SavedTool) fill(d definition) {
	tool.Signature, tool.Description = d.signature, clipped(paragraph(d.doc), maxDescription)
}

// describeMany describes what the file of many tools defines.
func (t *Tools) describeMany() []SavedTool {
	s, err := t.current(manyTools)
	if err != nil {
		return nil
	}
	byName := map[string]SavedTool{}
	for _, d := range sketch(s.text) {
		if !strings.HasPrefix(d.name, "_") {
			tool := SavedTool{Name: d.name, File: t.shown(manyTools), Saved: s.saved}
			tool.fill(d)
			byName[d.name] = tool
		}
	}
	var list []SavedTool
	for _, tool := range byName {
		list = append(list, tool)
	}
	return list
}

// described returns the description in a file's head, "" if it has none.
func described(text string) string {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		if words, ok := strings.CutPrefix(line, headWhat); ok {
			return clipped(oneLine(words), maxDescription)
		}
	}
	return ""
}

// paragraph returns the first one of a docstring, as a line.
func paragraph(doc string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(doc), "\n\n")
	return oneLine(first)
}

// clipped cuts a text, not in the middle of a character.
func clipped(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

var serverWord = regexp.MustCompile(`\bmcp_([A-Za-z0-9_]+)|\bmcp\.servers\.([A-Za-z0-9_]+)`)

// serversIn lists the servers that a text names, sorted.
func serversIn(text string) []string {
	var list []string
	for _, m := range serverWord.FindAllStringSubmatch(text, 100) {
		if name := m[1] + m[2]; name != "servers" {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
