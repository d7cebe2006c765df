package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A ToolSave asks for a new version of a tool.
type ToolSave struct {
	Name        string
	Source      string
	Description string // "" leaves it to the docstring
	Version     *int   // that the tool must have now, 0 for none; nil is any
}

// A ToolSaved tells what became of it.
type ToolSaved struct {
	Version  int    `json:"version"`
	Path     string `json:"path"`
	Replaced int    `json:"replaced,omitempty"` // the version before, 0 for none
}

// Save keeps a function's source as the newest version. It is on the disk when
// Save returns, and what it replaces is kept as a version, also when a person has
// edited it. The error is an [Error] if the request was at fault.
func (t *Tools) Save(ctx context.Context, s ToolSave) (ToolSaved, error) {
	if err := t.check(s); err != nil {
		return ToolSaved{}, err
	}
	return t.change(ctx, s.Name, s.Version, func(before standing) (string, error) {
		if before.version == 0 {
			if err := t.room(s.Name); err != nil {
				return "", err
			}
		}
		return toolText(s, next(before), t.opts.now()), nil
	})
}

// check refuses what no tool can be.
func (t *Tools) check(s ToolSave) error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	switch {
	case len(s.Source) > t.opts.MaxBytes:
		return errorf(CodeToolTooLarge, "The tool %s has %d bytes with all that it needs; %d are allowed (tools.max_bytes). Make it smaller, or several tools of it.", s.Name, len(s.Source), t.opts.MaxBytes)
	case len(s.Description) > maxDescription:
		return errorf(CodeToolTooLarge, "The description has %d bytes; %d are allowed.", len(s.Description), maxDescription)
	case strings.TrimSpace(s.Source) == "" || !utf8.ValidString(s.Source) || strings.ContainsRune(s.Source, 0):
		return errorf(CodeBadRequest, "The source of %s is empty, or is no text.", s.Name)
	}
	return nil
}

// room refuses a new tool if there are too many, or if its file would be
// another's where case does not count.
func (t *Tools) room(name string) error {
	files := slices.DeleteFunc(t.files(), func(f string) bool { return f == manyTools })
	if i := slices.IndexFunc(files, func(f string) bool { return f != name && strings.EqualFold(f, name) }); i >= 0 {
		return errorf(CodeBadRequest, "There is a saved tool %s, and some file systems take %s for the same: choose another name.", files[i], name)
	}
	if len(files) >= t.opts.MaxTools {
		return errorf(CodeToolFull, "There are %d saved tools, which is the limit (tools.max_count): delete_tool one that is not used.", len(files))
	}
	return nil
}

// next is the version after one.
func next(s standing) int {
	last := s.version
	if len(s.versions) > 0 {
		last = max(last, s.versions[len(s.versions)-1])
	}
	return last + 1
}

// change gives a tool a new text, which write makes of what there is. wanted is
// the version that there must be, nil for any.
func (t *Tools) change(ctx context.Context, name string, wanted *int, write func(before standing) (string, error)) (ToolSaved, error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return ToolSaved{}, err
	}
	defer unlock()
	before, err := t.before(name)
	if err != nil {
		return ToolSaved{}, err
	}
	if wanted != nil && *wanted != before.version {
		return ToolSaved{}, conflict(name, *wanted, before.version)
	}
	text, err := write(before)
	if err != nil {
		return ToolSaved{}, err
	}
	version := next(before)
	err = t.keep(name, before)
	if err == nil {
		err = t.history.add(name, version, text)
	}
	if err == nil {
		err = writeTool(t.path(name), text)
	}
	if err != nil {
		return ToolSaved{}, fmt.Errorf("writing the saved tool %s: %w", name, err)
	}
	return ToolSaved{Version: version, Path: t.shown(name), Replaced: before.version}, nil
}

// before is what a tool was; nothing if it is not there.
func (t *Tools) before(name string) (standing, error) {
	s, err := t.current(name)
	var e *Error
	if errors.As(err, &e) && e.Code == CodeToolMissing {
		return standing{versions: t.history.versions(name)}, nil
	}
	return s, err
}

// keep keeps what a person has written as a version.
func (t *Tools) keep(name string, s standing) error {
	if s.version == 0 || slices.Contains(s.versions, s.version) {
		return nil
	}
	return t.history.add(name, s.version, s.text)
}

func conflict(name string, wanted, version int) error {
	if version == 0 {
		return errorf(CodeToolConflict, "There is no saved tool %s now, so no version %d. Leave version out to save it all the same.", name, wanted)
	}
	return errorf(CodeToolConflict, "The saved tool %s has version %d, not %d: another session or a person has changed it. Look at tool_source(%q), then save with version=%d.", name, version, wanted, name, version)
}

// Restore makes a version of a tool the newest: 0 is the one before the last, of
// a deleted tool the last.
func (t *Tools) Restore(ctx context.Context, name string, version int) (ToolSaved, error) {
	if err := checkName(name); err != nil {
		return ToolSaved{}, err
	}
	return t.change(ctx, name, nil, func(before standing) (string, error) {
		if before.version == 0 && len(before.versions) > 0 {
			if err := t.room(name); err != nil {
				return "", err
			}
		}
		version, err := t.pick(name, version, before)
		if err != nil {
			return "", err
		}
		text, err := t.history.read(name, version)
		if err != nil {
			return "", fmt.Errorf("reading version %d: %w", version, err)
		}
		return again(text, next(before), t.opts.now()), nil
	})
}

// pick says which version is meant.
func (t *Tools) pick(name string, version int, s standing) (int, error) {
	earlier := slices.DeleteFunc(slices.Clone(s.versions), func(v int) bool { return v >= s.version && s.version > 0 })
	switch {
	case version == 0 && len(earlier) > 0:
		return earlier[len(earlier)-1], nil
	case len(s.versions) == 0 && s.version == 0:
		return 0, t.unknown(name)
	case version == 0:
		return 0, errorf(CodeToolMissing, "The saved tool %s has no version before %d.", name, s.version)
	case slices.Contains(s.versions, version):
		return version, nil
	}
	return 0, errorf(CodeToolMissing, "The saved tool %s has no version %d; those that are kept: %s.", name, version, listed(s.versions))
}

func listed(versions []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(versions), " ", ", "), "[]")
}

// Delete removes a tool and returns its last version, which is kept.
func (t *Tools) Delete(ctx context.Context, name string) (int, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	s, err := t.current(name)
	if err != nil {
		return 0, err
	}
	if err := t.keep(name, s); err != nil {
		return 0, fmt.Errorf("keeping the saved tool %s: %w", name, err)
	}
	if err := errors.Join(os.Remove(t.path(name)), osDisk{}.sync(t.opts.Folder)); err != nil {
		return 0, fmt.Errorf("deleting the saved tool %s: %w", name, err)
	}
	now := time.Now() // the folder's time says how long ago it was
	if err := errors.Join(os.Chtimes(filepath.Join(t.history.folder, name), now, now), t.history.prune(t.has)); err != nil {
		return 0, fmt.Errorf("forgetting old tools: %w", err)
	}
	return s.version, nil
}

func (t *Tools) has(name string) bool {
	_, err := os.Lstat(t.path(name))
	return err == nil
}

// lock keeps other changes out, of this process and of others.
func (t *Tools) lock(ctx context.Context) (unlock func(), err error) {
	if err := ensure(osDisk{}, t.history.folder); err != nil {
		return nil, fmt.Errorf("making the folder of saved tools: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errorf(CodeBusy, "Another process is changing the saved tools, for %v by now. Try again.", lockWait))
	defer cancel()
	if unlock, err = (osDisk{}).lock(ctx, filepath.Join(t.history.folder, lockName)); err != nil {
		return nil, fmt.Errorf("locking the saved tools: %w", err)
	}
	return unlock, nil
}

const (
	headTitle = "# A saved tool. You may edit it: the next call that uses it does as this file says."
	headWhat  = "# description: "
	headSaved = "# saved: version "
)

// toolText is what a tool's file says.
func toolText(s ToolSave, version int, now time.Time) string {
	head := headTitle + "\n" + savedLine(version, now)
	if words := oneLine(s.Description); words != "" {
		head += headWhat + words + "\n"
	}
	return head + "\n" + strings.TrimRight(s.Source, "\n") + "\n"
}

func savedLine(version int, now time.Time) string {
	return fmt.Sprintf("%s%d, %s\n", headSaved, version, now.UTC().Format(time.RFC3339))
}

// again is a text with the head of a new version.
func again(text string, version int, now time.Time) string {
	at := strings.Index(text, headSaved)
	if !strings.HasPrefix(text, headTitle) || at < 0 {
		return text // a person wrote it
	}
	_, rest, _ := strings.Cut(text[at:], "\n")
	return text[:at] + savedLine(version, now) + rest
}

// oneLine makes a line of words, without what controls a terminal.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}
