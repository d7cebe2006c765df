package discovery

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	// maxName bounds a server's name in bytes. Tool names with it as a prefix
	// must stay usable.
	maxName = 200

	// maxItems bounds the arguments, variables and headers of one entry.
	maxItems = 1000
)

// A note is a problem within an entry that does not make it unusable.
type note struct {
	field string
	line  int
	msg   string
}

// An entry decodes one server definition of any agent: every known spelling of
// a field is accepted everywhere, and what only one agent reads in its own way
// comes from the agent's row in the table of sources.
type entry struct {
	row   *source
	n     node
	s     Server
	notes []note

	unusable error // set by the row's adapt
}

// decodeEntry returns the server that n defines. An error means that the entry
// is unusable; notes are things to tell about a usable one.
func decodeEntry(row *source, name string, n node) (Server, []note, error) {
	e := &entry{row: row, n: n, s: Server{Name: name, dialect: row.dialect}}
	if n.kind != kindObject {
		return e.s, nil, fmt.Errorf("the entry is %s, not an object", n.what())
	}
	for _, d := range n.dups {
		e.note(d.key, d.line, "the key is there more than once; the last one counts")
	}
	e.flatten()
	if row.adapt != nil {
		row.adapt(e)
	}
	if e.unusable != nil {
		return e.s, e.notes, e.unusable
	}
	for _, step := range []func() error{
		e.checkName, e.command, e.args, e.remote, e.transport, e.environment,
	} {
		if err := step(); err != nil {
			return e.s, e.notes, err
		}
	}
	e.headers()
	e.oauth()
	e.details()
	e.filter()
	e.switches()
	return e.s, e.notes, nil
}

func (e *entry) note(field string, line int, format string, args ...any) {
	e.notes = append(e.notes, note{field, line, fmt.Sprintf(format, args...)})
}

func (e *entry) checkName() error {
	switch name := e.s.Name; {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("the name is empty; give the server one")
	case len(name) > maxName:
		return fmt.Errorf("the name is longer than %d bytes", maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the name contains a control character")
	case slices.Contains(e.row.reserved, name):
		return fmt.Errorf("the name %q is reserved by %s", name, e.row.agent)
	case strings.ContainsFunc(name, isUnusual):
		e.note("", e.n.line, "the name has unusual characters; in Python it is %s", Alias(name))
	}
	return nil
}

// isUnusual reports whether a rune is rare in server names.
func isUnusual(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" _-./:@", r)
}

// command reads the program: a string, a list of program and arguments, or an
// object with path and args.
func (e *entry) command() error {
	n, key, ok := e.n.first("command", "cmd")
	if !ok {
		return nil
	}
	switch n.kind {
	case kindString:
		e.s.Command = strings.TrimSpace(n.text)
		return e.noNUL(key, e.s.Command)
	case kindArray:
		words, err := e.list(key, n)
		if err != nil || len(words) == 0 {
			return err
		}
		e.s.Command, e.s.Args = words[0], words[1:]
		return nil
	case kindObject:
		return e.nestedCommand(key, n)
	}
	return fmt.Errorf("%s is %s, not a string", key, n.what())
}

func (e *entry) nestedCommand(key string, n node) error {
	path, _, ok := n.first("path", "command")
	if !ok || path.kind != kindString {
		return fmt.Errorf("%s is an object without a path", key)
	}
	e.s.Command = strings.TrimSpace(path.text)
	args, _ := n.get("args")
	words, err := e.list(key+".args", args)
	e.s.Args = words
	if env, ok := n.get("env"); ok && err == nil {
		err = e.variables(key+".env", env)
	}
	return err
}

// args reads the arguments. An entry without any whose command is plainly a
// command line is split at its spaces.
func (e *entry) args() error {
	n, key, ok := e.n.first("args", "arguments")
	if !ok {
		e.splitCommand()
		return nil
	}
	words, err := e.list(key, n)
	e.s.Args = append(e.s.Args, words...)
	return err
}

func (e *entry) splitCommand() {
	if len(e.s.Args) > 0 || !strings.ContainsAny(e.s.Command, " \t") {
		return
	}
	if isCommandLine(e.s.Command) {
		words := strings.Fields(e.s.Command)
		e.s.Command, e.s.Args = words[0], words[1:]
		return
	}
	if looksLikeCommandLine(e.s.Command) {
		e.note("command", e.n.line, "it looks like a whole command line; put the arguments into args")
	}
}

// isCommandLine reports whether a command with spaces is certainly no path and
// needs no shell to be taken apart.
func isCommandLine(command string) bool {
	program, _, _ := strings.Cut(command, " ")
	return !strings.ContainsAny(program, `/\~`) && !strings.ContainsAny(command, "\"'`$\\;&|<>(){}*?")
}

// looksLikeCommandLine reports whether a command with spaces is likely none of
// a path's: an option or a quote follows the first word.
func looksLikeCommandLine(command string) bool {
	return strings.Contains(command, " -") || strings.ContainsAny(command, `"'`)
}

// list reads a list of texts: numbers and booleans as they are written, null
// dropped, one text alone as a list of one.
func (e *entry) list(key string, n node) ([]string, error) {
	if n.kind == 0 || n.kind == kindNull {
		return nil, nil
	}
	if text, ok := n.scalar(); ok {
		return []string{text}, e.noNUL(key, text)
	}
	if n.kind != kindArray {
		return nil, fmt.Errorf("%s is %s, not a list", key, n.what())
	}
	if len(n.items) > maxItems {
		return nil, fmt.Errorf("%s has more than %d items", key, maxItems)
	}
	var words []string
	for i, item := range n.items {
		if item.kind == kindNull {
			continue
		}
		text, ok := item.scalar()
		if !ok {
			return nil, fmt.Errorf("%s[%d] is %s, not a string", key, i, item.what())
		}
		if err := e.noNUL(key, text); err != nil {
			return nil, err
		}
		words = append(words, text)
	}
	return words, nil
}

func (e *entry) noNUL(key, text string) error {
	if strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s contains a NUL character", key)
	}
	return nil
}

func (e *entry) environment() error {
	if n, key, ok := e.n.first("env", "environment", "envs"); ok {
		return e.variables(key, n)
	}
	return nil
}

// variables reads an environment: an object, or a list of NAME=value. A null
// value takes the variable out of the environment. A value that is no text is
// told and left out.
func (e *entry) variables(key string, n node) error {
	if n.kind == kindNull {
		return nil
	}
	if len(n.fields) > maxItems || len(n.items) > maxItems {
		return fmt.Errorf("%s has more than %d variables", key, maxItems)
	}
	for _, d := range n.dups {
		e.note(key+"."+d.key, d.line, "the key is there more than once; the last one counts")
	}
	switch n.kind {
	case kindObject:
		for _, f := range n.fields {
			e.variable(key, f)
		}
	case kindArray:
		for i, item := range n.items {
			name, value, ok := strings.Cut(item.text, "=")
			if item.kind != kindString || !ok {
				e.note(fmt.Sprintf("%s[%d]", key, i), item.line, "it is not NAME=value, so it is left out")
				continue
			}
			e.variable(key, field{name, item.line, node{kind: kindString, line: item.line, text: value}})
		}
	default:
		e.note(key, n.line, "it is %s, not an object, so it is left out", n.what())
	}
	slices.Sort(e.s.Unset)
	return nil
}

func (e *entry) variable(key string, f field) {
	if f.key == "" || strings.ContainsAny(f.key, "=\x00") {
		e.note(key, f.line, "a variable's name is empty or has '=' in it, so it is left out")
		return
	}
	if f.val.kind == kindNull {
		e.s.Unset = append(e.s.Unset, f.key)
		return
	}
	text, ok := f.val.scalar()
	if !ok || strings.ContainsRune(text, 0) {
		e.note(key+"."+f.key, f.line, "the value is no text, so it is left out")
		return
	}
	if e.s.Env == nil {
		e.s.Env = map[string]string{}
	}
	e.s.Env[f.key] = text
}

// details reads the fields that matter little, and tells what they lack.
func (e *entry) details() {
	e.s.Cwd = e.text("cwd", "working_directory")
	e.s.EnvFile = e.text("envFile")
	e.s.Description = e.text("description")
	if n, key, ok := e.n.first("headersHelper"); ok {
		e.note(key, n.line, "commands in config files are not run, so these headers will be missing")
	}
	e.timeouts()
}

func (e *entry) timeouts() {
	for _, f := range e.row.timeout {
		n, key, ok := e.n.first(f.name)
		if !ok {
			continue
		}
		limit := e.duration(key, n, f.unit)
		if f.of != onlyCall {
			e.s.StartTimeout = cmp.Or(e.s.StartTimeout, limit)
		}
		if f.of != onlyStart {
			e.s.CallTimeout = cmp.Or(e.s.CallTimeout, limit)
		}
	}
}

func (e *entry) text(keys ...string) string {
	n, key, ok := e.n.first(keys...)
	if !ok {
		return ""
	}
	if n.kind != kindString || strings.ContainsRune(n.text, 0) {
		e.note(key, n.line, "it is no text, so it is left out")
		return ""
	}
	return n.text
}

// maxTimeout is where longer time limits are cut: a day waits for anything.
const maxTimeout = 24 * time.Hour

func (e *entry) duration(key string, n node, unit time.Duration) time.Duration {
	var amount float64
	text, _ := n.scalar()
	if _, err := fmt.Sscan(text, &amount); err != nil || !(amount > 0) {
		e.note(key, n.line, "it is not a positive number, so it is left out")
		return 0
	}
	limit := maxTimeout
	if e.row.clamp > 0 {
		limit = e.row.clamp
	}
	if amount > float64(limit)/float64(unit) {
		return limit
	}
	return max(time.Duration(amount*float64(unit)), e.row.minimum)
}

func (e *entry) filter() {
	e.s.Tools.Deny = e.toolNames("disabledTools", "disabled_tools", "excludeTools")
	e.s.Tools.Allow = e.toolNames("enabledTools", "enabled_tools", "includeTools")
	if e.s.Tools.Allow == nil {
		e.s.Tools.Allow = e.otherToolNames()
	}
	if e.row.scope != ScopeProject { // others write a project's files
		e.s.Approved = e.toolNames("autoApprove", "alwaysAllow")
	}
}

// otherToolNames reads two spellings with rules of their own: tools is a list in
// some agents and something else in others, and an empty available_tools means
// all tools.
func (e *entry) otherToolNames() []string {
	if n, _, ok := e.n.first("tools"); ok && n.kind == kindArray {
		return e.toolNames("tools")
	}
	if names := e.toolNames("available_tools"); len(names) > 0 {
		return names
	}
	return nil
}

func (e *entry) toolNames(keys ...string) []string {
	n, key, ok := e.n.first(keys...)
	if !ok {
		return nil
	}
	names, err := e.list(key, n)
	if err != nil {
		e.note(key, n.line, "%v", err)
		return nil
	}
	return append([]string{}, names...) // an empty list is not a missing one
}

// switches reads the switch that turns one entry off, in every spelling: an
// owner who wrote it wants the server off, even where the agent ignores it.
func (e *entry) switches() {
	for _, key := range []string{"disabled", "enabled", "isActive"} {
		n, _, ok := e.n.first(key)
		if !ok {
			continue
		}
		on, known := n.truth()
		switch {
		case !known:
			e.note(key, n.line, "it is neither true nor false, so it is ignored")
		case on == (key == "disabled"):
			e.s.DisabledBy = fmt.Sprintf("%s: %t", key, on)
		}
	}
	if n, _, ok := e.n.first("state"); ok && strings.EqualFold(n.text, "disabled") {
		e.s.DisabledBy = "state: disabled"
	}
}

// stem returns a file's name without folder and extension.
func stem(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
