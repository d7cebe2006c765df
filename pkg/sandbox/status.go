package sandbox

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Snapshot is what there is to say of one sandbox of a [Pool].
type Snapshot struct {
	ID        string
	Container string // the engine's name for it
	State     string // "warm", "leased" or "paused"
	Created   time.Time
	Python    string   // version
	Posture   *Posture // as attested; not to be changed
	Degraded  []string // what holds less than was asked for
}

func (s *Sandbox) status(state string) Snapshot {
	return Snapshot{
		ID: s.ID, Container: string(s.container), State: state, Created: s.Created,
		Python: s.Python, Posture: s.Posture, Degraded: s.Degraded,
	}
}

// sandboxesLocked lists all sandboxes, the oldest first.
func (p *Pool) sandboxesLocked() []Snapshot {
	list := make([]Snapshot, 0, len(p.warm)+len(p.leased))
	for s := range p.leased {
		state := "leased"
		if s.isFrozen() {
			state = "paused"
		}
		list = append(list, s.status(state))
	}
	for _, s := range p.warm {
		list = append(list, s.status("warm"))
	}
	slices.SortFunc(list, func(a, b Snapshot) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return list
}
