package discovery

import (
	"cmp"
	"maps"
	"slices"
)

var scopeRank = map[Scope]int{
	ScopeManaged: 0, ScopeLocal: 1, ScopeProject: 2, ScopeUser: 3, ScopeDefaults: 4, ScopePlugin: 5,
}

// preference orders candidates of one agent: the order of the table, then the
// nearest folder, then the file's name, then the place in it.
func preference(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.row, b.row),
		cmp.Compare(a.depth, b.depth),
		boolRank(a.behind)-boolRank(b.behind),
		cmp.Compare(a.Sources[0].Path, b.Sources[0].Path),
		cmp.Compare(a.Sources[0].Line, b.Sources[0].Line),
		cmp.Compare(a.Name, b.Name),
	)
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// strength orders candidates of all agents: the scope first.
func strength(a, b candidate) int {
	rank := func(c candidate) int { return scopeRank[c.Sources[0].Scope] }
	return cmp.Or(cmp.Compare(rank(a), rank(b)), preference(a, b))
}

// resolve turns the candidates into the result: first each agent's own
// precedence, then one list for all agents.
func (l *loader) resolve() Result {
	var res Result
	l.hold(&res)
	var on []candidate
	for _, c := range l.inForce(&res) {
		if c.DisabledBy != "" {
			res.Disabled = append(res.Disabled, c.Server)
			continue
		}
		on = append(on, c)
	}
	res.Servers = l.merge(on)
	byName := func(a, b Server) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Sources[0].Path, b.Sources[0].Path))
	}
	slices.SortStableFunc(res.Servers, byName)
	slices.SortStableFunc(res.Disabled, byName)
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
	res.Problems = slices.Compact(l.problems)
	slices.Sort(l.looked)
	res.Looked = slices.Compact(l.looked)
	return res
}

// inForce returns, for each agent and name, the definition that the agent
// itself would use. The others are shadowed, or further sources of the same
// definition.
func (l *loader) inForce(res *Result) []candidate {
	type owner struct{ agent, name string }
	at := map[owner]int{}
	var kept, lost []candidate
	slices.SortStableFunc(l.found, preference)
	for _, c := range l.found {
		key := owner{c.Agent(), c.Name}
		i, taken := at[key]
		switch {
		case !taken:
			at[key] = len(kept)
			kept = append(kept, c)
		case l.same(kept[i].Server, c.Server) && kept[i].DisabledBy == c.DisabledBy:
			kept[i].Sources = append(kept[i].Sources, c.Sources...)
		default:
			lost = append(lost, c)
		}
	}
	slices.SortStableFunc(lost, strength)
	for _, c := range lost {
		by := kept[at[owner{c.Agent(), c.Name}]].Sources[0]
		res.Shadowed = append(res.Shadowed, Shadow{c.Server, by})
	}
	kept = l.withoutPluginTwins(kept, res)
	slices.SortStableFunc(kept, strength)
	return kept
}

// withoutPluginTwins leaves out the servers of Claude Code's plugins that the
// agent has from elsewhere, whatever they are called there: plugins give way to
// the same process or endpoint, not to the same name.
func (l *loader) withoutPluginTwins(kept []candidate, res *Result) []candidate {
	isPlugin := func(c candidate) bool { return c.Agent() == "claude-code" && c.Sources[0].Scope == ScopePlugin }
	var out []candidate
	for _, c := range kept {
		twin := -1
		if isPlugin(c) {
			twin = slices.IndexFunc(kept, func(k candidate) bool {
				return k.Agent() == c.Agent() && !isPlugin(k) && k.DisabledBy == "" && l.same(k.Server, c.Server)
			})
		}
		if twin < 0 {
			out = append(out, c)
			continue
		}
		res.Shadowed = append(res.Shadowed, Shadow{c.Server, kept[twin].Sources[0]})
	}
	return out
}

// merge brings the agents together: a definition that several agents share is
// one server, and of definitions that differ the strongest keeps the name and
// the others are called agent/name.
func (l *loader) merge(on []candidate) []Server {
	var out []Server
	called := map[string][]int{} // by the name in the file
	taken := map[string]bool{}
	for _, c := range on {
		equal := slices.IndexFunc(called[c.Name], func(i int) bool { return l.same(out[i], c.Server) })
		if equal >= 0 {
			i := called[c.Name][equal]
			out[i].Sources = append(out[i].Sources, c.Sources...)
			continue
		}
		called[c.Name] = append(called[c.Name], len(out))
		for taken[c.Name] {
			c.Name = c.Agent() + "/" + c.Name
		}
		taken[c.Name] = true
		out = append(out, c.Server)
	}
	return out
}

// same reports whether two definitions mean one server once the session's
// variables are in place. Where the type of one is open, the URL decides.
func (l *loader) same(a, b Server) bool {
	a, errA := a.Expand(l.opts.Getenv, l.opts.Home, l.opts.Cwd)
	b, errB := b.Expand(l.opts.Getenv, l.opts.Home, l.opts.Cwd)
	if (errA == nil) != (errB == nil) {
		return false
	}
	a, b = a.direct(b), b.direct(a)
	if a.Transport == Auto || b.Transport == Auto {
		return a.URL != "" && a.URL == b.URL && maps.Equal(a.Headers, b.Headers)
	}
	left, right := a.launch(), b.launch()
	left.Root, right.Root = "", ""
	return left.digest() == right.digest()
}
