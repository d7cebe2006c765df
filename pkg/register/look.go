package register

import (
	"maps"
	"slices"
)

// A Registration is what an agent's file says of shims.
type Registration struct {
	Path    string   // of the file, behind all symbolic links
	Entry   string   // that starts a shim; "" if none does
	Command string   // of that entry
	Twins   []string // further entries that start one
}

// Look reads an agent's file, and changes nothing. A file that is not there has
// no entries; the error of one that can't be read names it.
func (r *Registrar) Look(name string) (Registration, error) {
	e, err := r.open(name)
	if err != nil {
		return Registration{}, err
	}
	found := Registration{Path: e.change.Path, Entry: e.ours()}
	if found.Entry == "" {
		return found, nil
	}
	found.Command = commandOf(e.entries[found.Entry])
	for _, other := range slices.Sorted(maps.Keys(e.entries)) {
		if other != found.Entry && isShim(commandOf(e.entries[other])) {
			found.Twins = append(found.Twins, other)
		}
	}
	return found, nil
}
