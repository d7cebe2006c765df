package register

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// seedKey is where the servers are in a file of ~/MCPs.
var seedKey = []string{"mcpServers"}

// A takeover is the part of a change that moves servers to ~/MCPs, or back.
type takeover struct {
	path          string // ~/MCPs/<client>.json, behind all symbolic links
	named         string // before these were followed
	before, after content
	text, bom     string
	moved         map[string]moved
	notes         []string
}

// moved is one server that was moved.
type moved struct {
	Was  json.RawMessage `json:"was"`            // the agent's entry
	Seed json.RawMessage `json:"seed,omitempty"` // what was written to ~/MCPs; missing if it was there before
}

// same compares values by what they are in JSON, so that a number is equal in
// whatever way a syntax decodes it.
func same(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}

// openSeed reads the agent's file in ~/MCPs.
func (r *Registrar) openSeed(name string) (*takeover, error) {
	named := filepath.Join(r.Home, "MCPs", name+".json")
	path, err := resolve(named)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", named, err)
	}
	t := &takeover{path: path, named: named, moved: map[string]moved{}}
	if t.before, err = read(path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t.after = t.before
	if t.text, t.bom, err = t.before.text(); err == nil {
		_, err = jsonc{}.decode(t.text)
	}
	if at, ok := errors.AsType[*lineError](err); ok {
		return nil, fmt.Errorf("%s:%s: %s", path, at.line, at.msg)
	}
	return t, err
}

// TakeOver plans to move the agent's other servers to ~/MCPs, together with
// [Registrar.Register]. Those that would not mean the same there stay, see
// [Change.Notes].
func (r *Registrar) TakeOver(name string) (*Change, error) {
	if r.Project != "" {
		return nil, errors.New("a project's servers are for everybody who works on it, so they are not moved to your own")
	}
	e, err := r.open(name)
	if err != nil {
		return nil, err
	}
	edited, err := e.register(r.Shim)
	if err != nil {
		return nil, e.wrap(err)
	}
	if e.seed, err = r.openSeed(name); err != nil {
		return nil, err
	}
	known, err := r.seedServers()
	if err != nil {
		return nil, err
	}
	if edited, err = e.moveAll(edited, known, e.settings(r.Where), r.Leave); err != nil {
		return nil, e.wrap(err)
	}
	e.finish(edited)
	return e.change, nil
}

// seedServers reads what ~/MCPs defines already. A file that does not parse
// defines nothing, as everywhere.
func (r *Registrar) seedServers() (map[string]any, error) {
	files, err := filepath.Glob(filepath.Join(r.Home, "MCPs", "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for _, path := range files {
		c, err := read(path)
		if err != nil {
			return nil, err
		}
		text, _, err := c.text()
		if err != nil {
			continue
		}
		tree, err := jsonc{}.decode(text)
		if err != nil {
			continue
		}
		servers, _ := entries(jsonc{}, tree, seedKey)
		for name, v := range servers {
			if _, first := all[name]; !first {
				all[name] = v
			}
		}
	}
	return all, nil
}

// settings lists the texts of all the agent's settings but the servers.
func (e *edit) settings(w Where) []string {
	tree, err := e.client.syntax.decode(e.text)
	if err != nil {
		return nil // it was decoded before
	}
	at := tree
	for _, k := range e.client.key[:len(e.client.key)-1] {
		at, _ = at[k].(map[string]any)
	}
	delete(at, e.client.key[len(e.client.key)-1])
	list := texts(tree, nil)
	for _, path := range e.client.also {
		c, err := read(w.expand(path))
		if err != nil {
			continue
		}
		text, _, err := c.text()
		if err != nil {
			continue
		}
		if tree, err := (jsonc{}).decode(text); err == nil {
			list = texts(tree, list)
		}
	}
	return list
}

// moveAll moves what can be moved, by name. It returns the agent's text.
func (e *edit) moveAll(text string, known map[string]any, settings []string, leave map[string]string) (string, error) {
	ours := e.ours()
	for _, name := range slices.Sorted(maps.Keys(e.entries)) {
		if name == ours || isShim(commandOf(e.entries[name])) {
			continue
		}
		entry, err := e.client.portable(e.entries[name])
		if errors.Is(err, errOff) {
			continue
		}
		if err == nil {
			err = e.client.ruled(settings, name)
		}
		if why := leave[name]; err == nil && why != "" {
			err = errors.New(why)
		}
		if other, taken := known[name]; err == nil && taken && !same(other, entry) {
			err = errors.New("~/MCPs has another server of that name")
		}
		if err == nil {
			_, taken := known[name]
			text, err = e.move(text, name, entry, taken)
		}
		switch {
		case err != nil:
			e.seed.notes = append(e.seed.notes, name+" stays: "+err.Error())
		case e.client.hasVariable(entry):
			e.seed.notes = append(e.seed.notes, name+" moves as it is written; its variables come from the environment that the agent gives to bridge-shim")
		}
	}
	e.tellMoved()
	return text, nil
}

func (e *edit) tellMoved() {
	n := len(e.seed.moved)
	if n == 0 {
		return
	}
	if e.change.What != "" {
		e.change.What += " and "
	}
	e.change.What += fmt.Sprintf("move %d to %s", n, e.seed.path)
	e.seed.after = content{data: []byte(e.seed.bom + e.seed.text)}
}

// move takes one server out of the agent's text and writes it to ~/MCPs, unless
// it is there. On an error nothing is moved.
func (e *edit) move(text, name string, entry map[string]any, there bool) (string, error) {
	s, key := e.client.syntax, e.client.key
	rest, err := s.remove(text, key, name, 0)
	if err == nil {
		err = differOnly(s, key, text, rest, name, nil)
	}
	if err != nil {
		return text, err
	}
	m := moved{}
	if m.Was, err = json.Marshal(e.entries[name]); err != nil {
		return text, err
	}
	if !there {
		fields := fieldsOf(entry)
		seed, _, err := jsonc{}.add(e.seed.text, seedKey, name, fields)
		if err == nil {
			err = differOnly(jsonc{}, seedKey, e.seed.text, seed, name, valueOf(jsonc{}, name, fields))
		}
		if err != nil {
			return text, err
		}
		if m.Seed, err = json.Marshal(entry); err != nil {
			return text, err
		}
		e.seed.text = seed
	}
	e.seed.moved[name] = m
	return rest, nil
}

// fieldsOf lists an entry's fields, the command first.
func fieldsOf(entry map[string]any) []field {
	keys := slices.Sorted(maps.Keys(entry))
	slices.SortStableFunc(keys, func(a, b string) int {
		rank := func(k string) int { return slices.Index([]string{"", "args", "cmd", "command", "type", dialectKey}, k) }
		return rank(b) - rank(a)
	})
	var fields []field
	for _, k := range keys {
		fields = append(fields, field{k, entry[k]})
	}
	return fields
}

// takeBack plans to take the servers that were moved out of ~/MCPs. Those that
// have been changed there stay.
func (e *edit) takeBack(r *Registrar) (err error) {
	if len(e.rec.Moved) == 0 {
		return nil
	}
	if e.seed, err = r.openSeed(e.client.name); err != nil {
		return err
	}
	tree, err := jsonc{}.decode(e.seed.text)
	if err != nil {
		return fmt.Errorf("%s: %w", e.seed.path, err)
	}
	now, err := entries(jsonc{}, tree, seedKey)
	if err != nil {
		return fmt.Errorf("%s: %w", e.seed.path, err)
	}
	for _, name := range slices.Sorted(maps.Keys(e.rec.Moved)) {
		m := e.rec.Moved[name]
		if _, is := now[name]; m.Seed == nil || !is {
			continue
		}
		if !same(now[name], m.Seed) {
			e.seed.notes = append(e.seed.notes, name+" stays in "+e.seed.path+" too: it has been changed there")
			continue
		}
		text, err := jsonc{}.remove(e.seed.text, seedKey, name, 1)
		if err != nil {
			return fmt.Errorf("%s: %w", e.seed.path, err)
		}
		e.seed.text = text
	}
	e.seed.after = content{data: []byte(e.seed.bom + e.seed.text)}
	if e.rec.SeedMade && strings.Trim(e.seed.text, "{} \t\r\n") == "" {
		e.seed.after = content{absent: true}
	}
	return nil
}

// putBack writes the servers that were moved into the agent's text again.
func (e *edit) putBack(text string) (string, error) {
	s, key := e.client.syntax, e.client.key
	for _, name := range slices.Sorted(maps.Keys(e.rec.Moved)) {
		if _, is := e.entries[name]; is {
			continue
		}
		var was map[string]any
		d := json.NewDecoder(strings.NewReader(string(e.rec.Moved[name].Was)))
		d.UseNumber()
		if err := d.Decode(&was); err != nil {
			return "", fmt.Errorf("reading the manifest: %w", err)
		}
		if s.listed() {
			delete(was, "name")
		}
		edited, _, err := s.add(text, key, name, fieldsOf(was))
		if err == nil {
			err = differOnly(s, key, text, edited, name, valueOf(s, name, fieldsOf(was)))
		}
		if err != nil {
			return "", err
		}
		text = edited
	}
	return text, nil
}

// write replaces the file in ~/MCPs. undo puts back what was there.
func (t *takeover) write() (undo func() error, err error) {
	if t == nil || t.before.equal(t.after) {
		return func() error { return nil }, nil
	}
	c := &Change{Path: t.path, before: t.before, after: t.after, perm: 0o600}
	if err := replace(c); err != nil {
		return nil, fmt.Errorf("editing %s: %w", t.path, err)
	}
	back := &Change{Path: t.path, before: t.after, after: t.before, perm: 0o600}
	return func() error { return replace(back) }, nil
}
