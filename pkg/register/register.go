package register

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNotRegistered says that a file has no entry that starts a shim.
var ErrNotRegistered = errors.New("bridged is not registered there")

// ErrNoFile says that an agent has no file of the kind that is meant.
var ErrNoFile = errors.New("the agent has no configuration file of its own in a project")

// A Registrar edits the files of one person, or of one project.
type Registrar struct {
	Where

	Shim string // absolute path of bridge-shim
	Dir  string // folder for backups and the manifest

	Leave map[string]string // servers that [Registrar.TakeOver] does not move, by name, and why
}

// A Change is what is to be done to one file. It has been checked, and nothing
// has been written.
type Change struct {
	Client string
	Path   string // of the file itself, behind all symbolic links
	What   string // for people, such as "add bridged"; "" if there is nothing to do

	named         string // Path before symbolic links were followed
	before, after content
	perm          os.FileMode // of a new file
	seed          *takeover
	apply         func() error
}

// Notes says what else there is to know, such as servers that are not moved.
func (c *Change) Notes() []string {
	if c.seed == nil {
		return nil
	}
	return c.seed.notes
}

// A File is what one file is to hold. Nil stands for no file.
type File struct {
	Path          string // as it is in the table of agents, or behind symbolic links
	Before, After []byte
}

// Files are the files that the change is about, by each path that leads to them.
func (c *Change) Files() []File {
	files := []File{{c.Path, c.before.bytes(), c.after.bytes()}}
	if c.named != c.Path {
		files = append(files, File{c.named, files[0].Before, files[0].After})
	}
	if t := c.seed; t != nil {
		files = append(files, File{t.path, t.before.bytes(), t.after.bytes()})
		if t.named != t.path {
			files = append(files, File{t.named, t.before.bytes(), t.after.bytes()})
		}
	}
	return files
}

// Moves lists the servers that are moved to ~/MCPs, by name.
func (c *Change) Moves() []string {
	if c.seed == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.seed.moved))
}

// Diff shows the change as a unified diff, "" if there is none. It holds lines of
// the file, so maybe secrets.
func (c *Change) Diff() string {
	if c.What == "" {
		return ""
	}
	text := ""
	if !c.before.equal(c.after) {
		text = unified(c.Path, c.before, c.after)
	}
	if t := c.seed; t != nil && !t.before.equal(t.after) {
		text += unified(t.path, t.before, t.after)
	}
	return text
}

// Apply writes the change. It is [ErrChanged] if the file is no longer what the
// change was made from.
func (c *Change) Apply() error {
	if c.What == "" {
		return nil
	}
	if err := c.apply(); err != nil {
		return fmt.Errorf("editing %s: %w", c.Path, err)
	}
	return nil
}

// Register plans the entry of the shim in an agent's file. An entry that starts
// a shim already, under any name, is kept; its path is put right if it differs.
func (r *Registrar) Register(name string) (*Change, error) {
	e, err := r.open(name)
	if err != nil {
		return nil, err
	}
	edited, err := e.register(r.Shim)
	if err != nil {
		return nil, e.wrap(err)
	}
	e.finish(edited)
	return e.change, nil
}

// finish completes a change to the text that an edit has made.
func (e *edit) finish(edited string) {
	c := e.change
	c.seed = e.seed
	if c.What != "" {
		c.after = content{data: []byte(e.bom + edited)}
		c.apply = e.commitRegister
	}
}

// Unregister plans the way back. It is an error if there is no entry of a shim.
func (r *Registrar) Unregister(name string) (*Change, error) {
	e, err := r.open(name)
	if err != nil {
		return nil, err
	}
	after, err := e.unregister()
	if err != nil {
		return nil, e.wrap(err)
	}
	if err := e.takeBack(r); err != nil {
		return nil, err
	}
	e.change.after, e.change.apply, e.change.seed = after, e.commitUnregister, e.seed
	return e.change, nil
}

// An edit is the work on one file.
type edit struct {
	client   *client
	store    store
	manifest manifest
	rec      record
	known    bool // rec was in the manifest
	text     string
	bom      string
	entries  map[string]any
	added    bool      // the entry is new, so what was before is what to go back to
	seed     *takeover // nil if no server is moved
	change   *Change
}

// open reads an agent's file, and what the manifest says of it.
func (r *Registrar) open(name string) (*edit, error) {
	at := slices.IndexFunc(clients, func(c client) bool { return c.name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no agent %q; known are %s", name, strings.Join(Clients(), ", "))
	}
	e := &edit{client: &clients[at], store: store{r.Dir}, change: &Change{Client: name}}
	if e.change.Path = r.path(e.client); e.change.Path == "" {
		return nil, fmt.Errorf("%s: %w", name, ErrNoFile)
	}
	e.change.named = e.change.Path
	target, err := resolve(e.change.Path)
	if err != nil {
		return nil, e.wrap(err)
	}
	e.change.Path, e.change.perm = target, r.perm()
	if e.change.before, err = read(target); err != nil {
		return nil, e.wrap(err)
	}
	if e.manifest, err = e.store.load(); err != nil {
		return nil, err
	}
	e.rec, e.known = e.manifest.Files[target]
	return e, e.wrap(e.parse())
}

// perm is for files that are not there yet: a project's are for all who work on it.
func (w Where) perm() os.FileMode {
	if w.Project != "" {
		return 0o644
	}
	return 0o600
}

func (e *edit) parse() (err error) {
	if e.text, e.bom, err = e.change.before.text(); err != nil {
		return err
	}
	tree, err := e.client.syntax.decode(e.text)
	if err != nil {
		return err
	}
	e.entries, err = entries(e.client.syntax, tree, e.client.key)
	return err
}

// wrap says which file an error is about, and where in it.
func (e *edit) wrap(err error) error {
	if err == nil {
		return nil
	}
	if at, ok := errors.AsType[*lineError](err); ok {
		return fmt.Errorf("%s: %s:%s: %s; the file was left alone", e.client.name, e.change.Path, at.line, at.msg)
	}
	return fmt.Errorf("%s: %s: %w", e.client.name, e.change.Path, err)
}

// ours returns the name of the entry that starts a shim, "" if there is none.
func (e *edit) ours() string {
	names := slices.Sorted(maps.Keys(e.entries))
	for _, name := range append([]string{Name}, names...) {
		if isShim(commandOf(e.entries[name])) {
			return name
		}
	}
	return ""
}

func (e *edit) register(shim string) (string, error) {
	s, c := e.client.syntax, e.client
	if name := e.ours(); name != "" {
		return e.repath(name, shim)
	}
	if _, taken := e.entries[Name]; taken {
		return "", fmt.Errorf("it has a server %q that is not bridge-shim; give that another name first", Name)
	}
	base := e.text
	if strings.TrimSpace(base) == "" {
		base += c.blank
	}
	edited, made, err := s.add(base, c.key, Name, c.entry(shim))
	if err != nil {
		return "", err
	}
	e.rec.Made, e.rec.Entry = made, Name
	e.added, e.change.What = true, "add "+Name
	return edited, differOnly(s, c.key, base, edited, Name, valueOf(s, Name, c.entry(shim)))
}

// repath puts another shim's path into an entry, and keeps the rest of it.
func (e *edit) repath(name, shim string) (string, error) {
	s, key, old := e.client.syntax, e.client.key, commandOf(e.entries[name])
	if old == shim {
		return e.text, nil
	}
	start, end, err := s.span(e.text, key, name)
	if err != nil {
		return "", err
	}
	entry := e.text[start:end]
	for _, q := range s.quoted(old) {
		if strings.Count(entry, q) != 1 {
			continue
		}
		edited := e.text[:start] + strings.Replace(entry, q, jsonString(shim), 1) + e.text[end:]
		e.rec.Entry, e.change.What = name, "change the path in "+name
		return edited, differOnly(s, key, e.text, edited, name, withCommand(e.entries[name], old, shim))
	}
	return "", fmt.Errorf("%w: put %s into its entry %s", errTwisted, shim, name)
}

// withCommand is an entry with another command.
func withCommand(v any, old, command string) any {
	switch v := v.(type) {
	case string:
		if v == old {
			return command
		}
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = withCommand(v[i], old, command)
		}
		return v
	case map[string]any:
		v = maps.Clone(v)
		for k := range v {
			v[k] = withCommand(v[k], old, command)
		}
		return v
	}
	return v
}

// commitRegister keeps the backup first, then notes what will be, then writes:
// whatever happens between two steps, Unregister finds its way.
func (e *edit) commitRegister() error {
	c, rec := e.change, e.rec
	rec.Client, rec.After = c.Client, c.after.digest()
	// A backup with another path in the entry, or without what others have
	// written since, is nothing to go back to.
	if !e.added && (!e.known || e.rec.After != c.before.digest()) {
		rec.After = ""
	}
	if e.added || !e.known {
		backup, err := e.store.keep(c.Path, c.before)
		if err != nil {
			return fmt.Errorf("keeping a backup: %w", err)
		}
		rec.Backup, rec.Before = backup, c.before.digest()
	}
	e.noteMoved(&rec)
	undo, err := e.seed.write()
	if err != nil {
		return err
	}
	e.manifest.Files[c.Path] = rec
	if err := e.store.save(e.manifest); err != nil {
		return errors.Join(fmt.Errorf("writing the manifest: %w", err), undo())
	}
	if err := replace(c); err != nil {
		return errors.Join(err, undo())
	}
	return nil
}

// noteMoved adds the servers that are moved to those of before.
func (e *edit) noteMoved(rec *record) {
	if e.seed == nil || len(e.seed.moved) == 0 {
		return
	}
	rec.Moved = maps.Clone(rec.Moved)
	if rec.Moved == nil {
		rec.Moved = map[string]moved{}
	}
	maps.Copy(rec.Moved, e.seed.moved)
	rec.SeedMade = rec.SeedMade || e.seed.before.absent
}

// unregister returns what the file is to be.
func (e *edit) unregister() (content, error) {
	c, s, key := e.change, e.client.syntax, e.client.key
	if before, ok := e.store.before(e.rec); ok && e.known && e.rec.After == c.before.digest() {
		c.What = "restore what was before"
		if before.absent {
			c.What = "remove the file, which was not there before"
		}
		return before, nil
	}
	name := e.ours()
	if name == "" {
		return content{}, ErrNotRegistered
	}
	edited, err := s.remove(e.text, key, name, e.rec.Made)
	if err != nil {
		return content{}, err
	}
	c.What = "remove " + name
	if err := differOnly(s, key, e.text, edited, name, nil); err != nil {
		return content{}, err
	}
	edited, err = e.putBack(edited)
	return content{data: []byte(e.bom + edited)}, err
}

// commitUnregister forgets the file only once it is written.
func (e *edit) commitUnregister() error {
	c := e.change
	if err := replace(c); err != nil {
		return err
	}
	// Only now: a server in both places is better than one in none.
	if _, err := e.seed.write(); err != nil {
		return err
	}
	if !e.known {
		return nil
	}
	delete(e.manifest.Files, c.Path)
	if err := e.store.save(e.manifest); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if e.rec.Backup == "" {
		return nil
	}
	return os.Remove(filepath.Join(e.store.dir, filepath.Base(e.rec.Backup)))
}
