package memory

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Defaults of [ToolOptions].
const (
	DefaultToolBytes    = 64 << 10
	DefaultTools        = 200
	DefaultToolVersions = 20
)

const (
	// maxToolFile bounds a file that a person wrote, and maxToolFiles how many
	// are looked at.
	maxToolFile  = 1 << 20
	maxToolFiles = 2000

	// maxDescription bounds a tool's description, in bytes.
	maxDescription = 1000

	// manyTools is the file of the seed project, which holds all tools there are.
	manyTools = "user_tools"
)

// The codes of an [Error] about a saved tool, beside CodeBadRequest. They are part
// of the contract with code in the sandbox.
const (
	CodeToolMissing    = "tool_missing"    // there is none of that name, or no such version
	CodeToolConflict   = "tool_conflict"   // it has another version than the caller has last seen
	CodeToolTooLarge   = "tool_too_large"  // it is over the bound of one tool
	CodeToolFull       = "tool_full"       // there are as many as may be
	CodeToolUnreadable = "tool_unreadable" // its file can't be read
	CodeToolsOff       = "tools_off"       // the user wants none
)

// ToolOptions configure [Tools].
type ToolOptions struct {
	Off      bool   // there are none, and none are saved
	Folder   string // which holds a file for each tool; made when one is saved
	Shown    string // what the folder is called to code; "" means Folder
	MaxBytes int    // of one tool; 0 means DefaultToolBytes
	MaxTools int    // 0 means DefaultTools
	Versions int    // kept of each tool, the last included; 0 means DefaultToolVersions

	now func() time.Time // nil means time.Now
}

// Tools keeps functions that code has saved, each as a Python file that a person
// may read, edit and commit. What a file says is text here and never run: only
// sandboxes run it. Tools is safe for concurrent use, by several processes too.
type Tools struct {
	opts    ToolOptions
	history toolHistory

	mu    sync.Mutex // guards the fields below
	names toolNames
}

// NewTools returns the tools in a folder. Nothing is read before it is asked for.
func NewTools(o ToolOptions) *Tools {
	o.Shown = cmp.Or(o.Shown, o.Folder)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultToolBytes)
	o.MaxTools = cmp.Or(o.MaxTools, DefaultTools)
	o.Versions = cmp.Or(o.Versions, DefaultToolVersions)
	if o.now == nil {
		o.now = time.Now
	}
	return &Tools{opts: o, history: toolHistory{filepath.Join(o.Folder, historyName), o.Versions}}
}

// A SavedTool describes one function of a file.
type SavedTool struct {
	Name        string    `json:"name"`
	Signature   string    `json:"signature"`
	Description string    `json:"description"`
	Version     int       `json:"version,omitempty"`
	Versions    []int     `json:"versions,omitempty"` // those that can be had, the oldest first
	Saved       time.Time `json:"saved"`              // when the file was written
	Edited      bool      `json:"edited,omitempty"`   // since it was saved
	Servers     []string  `json:"servers,omitempty"`  // that its words name
	File        string    `json:"file"`
	Problem     string    `json:"problem,omitempty"`
}

var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// checkName refuses what is no file's name, or what other names need.
func checkName(name string) error {
	if !toolName.MatchString(name) || name == manyTools || strings.HasPrefix(name, "mcp_") {
		return errorf(CodeBadRequest, "%.80q can't be the name of a saved tool: it is a letter, then letters, digits and _, at most 64 in all, and neither %s nor mcp_ something.", name, manyTools)
	}
	return nil
}

func (t *Tools) path(name string) string  { return filepath.Join(t.opts.Folder, name+".py") }
func (t *Tools) shown(name string) string { return t.opts.Shown + "/" + name + ".py" }

// toolNames is what [Tools.Names] has found, and when that holds.
type toolNames struct {
	list         []string
	folder, many fs.FileInfo
	at           time.Time
}

// settled is how much older than a look a change must be for its time to tell it
// from one after the look: file systems count in ticks.
const settled = 2 * time.Second

// unchanged reports whether a file is as it was when it was looked at.
func unchanged(before, now fs.FileInfo, at time.Time) bool {
	if before == nil || now == nil {
		return before == nil && now == nil
	}
	return before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size() && os.SameFile(before, now) &&
		at.Sub(now.ModTime()) > settled
}

// Names returns what code calls the tools: "tool" for one with a file of its own,
// "user_tools.tool" for those of the file user_tools.py, sorted. It is quick, and
// empty when the folder can't be read. The caller must not change the list.
func (t *Tools) Names() []string {
	if t.opts.Off {
		return nil
	}
	folder, err := os.Stat(t.opts.Folder)
	if err != nil {
		return nil
	}
	many, _ := os.Stat(t.path(manyTools)) // nil if there is none
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.names; n.folder != nil && unchanged(n.folder, folder, n.at) && unchanged(n.many, many, n.at) {
		return n.list
	}
	at := t.opts.now()
	list := t.files()
	for i, name := range list {
		if name == manyTools {
			list = append(slices.Delete(list, i, i+1), t.inMany()...)
			break
		}
	}
	slices.Sort(list)
	t.names = toolNames{list, folder, many, at}
	return list
}

// inMany lists what the file of many tools defines.
func (t *Tools) inMany() []string {
	text, _, err := readText(t.path(manyTools))
	if err != nil {
		return nil
	}
	var list []string
	for _, d := range sketch(text) {
		name := manyTools + "." + d.name
		if !strings.HasPrefix(d.name, "_") && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// files lists the names of files that are tools', manyTools among them.
func (t *Tools) files() []string {
	f, err := os.Open(t.opts.Folder)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read
	entries, _ := f.ReadDir(maxToolFiles)
	var list []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".py")
		if ok && (name == manyTools || checkName(name) == nil) && !e.IsDir() {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// readText reads a file of bounded size, and nothing but a file.
func readText(path string) (string, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", info, errors.New("it is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", info, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxToolFile+1))
	switch {
	case err != nil:
		return "", info, err
	case len(data) > maxToolFile:
		return "", info, fmt.Errorf("it has more than %d bytes", maxToolFile)
	case !utf8.Valid(data):
		return "", info, errors.New("it is not in UTF-8")
	}
	return string(data), info, nil
}

// digest names a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// current returns a tool's text, and how it stands to what was saved.
func (t *Tools) current(name string) (standing, error) {
	text, info, err := readText(t.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return standing{}, t.unknown(name)
	}
	if err != nil {
		return standing{}, errorf(CodeToolUnreadable, "The saved tool %s can't be read: %s: %v.", name, t.shown(name), plain(err))
	}
	s := standing{text: text, saved: info.ModTime()}
	if name == manyTools {
		return s, nil
	}
	s.versions = t.history.versions(name)
	s.version, s.edited = 1, len(s.versions) > 0
	if len(s.versions) > 0 {
		s.version = s.versions[len(s.versions)-1]
		last, err := t.history.read(name, s.version)
		if s.edited = err != nil || last != text; s.edited {
			s.version++
		}
	}
	return s, nil
}

// A standing is a tool's text as it is now. One that was edited, or never saved
// here, has the version that it will be kept as before another takes its place.
type standing struct {
	text     string
	version  int
	versions []int // that are kept
	edited   bool
	saved    time.Time
}

// plain leaves the path out of a file's error.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func (t *Tools) unknown(name string) error {
	hint := "list_tools_saved() has those there are."
	if v := t.history.versions(name); len(v) > 0 {
		hint = fmt.Sprintf("It was deleted: restore_tool(%q) brings version %d back.", name, v[len(v)-1])
	}
	return errorf(CodeToolMissing, "There is no saved tool %.80s. %s", name, hint)
}
