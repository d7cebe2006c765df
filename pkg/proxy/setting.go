package proxy

import (
	"cmp"
	"maps"
	"path"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// Defaults of a [Setting].
const (
	// DefaultMax is how many processes one definition may have at once.
	DefaultMax = 16

	// DefaultKeepAlive is the time without a call after which a server that
	// runs is pinged.
	DefaultKeepAlive = time.Minute
)

// Never is a span of time that does not end.
const Never time.Duration = -1

// A Setting is what the operator says of the servers whose name matches. Fields
// that are zero say nothing.
type Setting struct {
	Name     string // a glob as in [path.Match]; empty means every server
	Eager    *bool  // start it before it is needed
	Stateful *bool  // true never shares it between sessions, false always may
	Validate *bool  // false does not check arguments against its tools' schemas

	Max         int // processes of one definition at once
	Concurrency int // calls of one process under way at once; more wait

	StartTimeout time.Duration // of a start
	CallTimeout  time.Duration // of one call of a tool
	Idle         time.Duration // it is stopped after so long without a call; may be Never
	KeepAlive    time.Duration // it is pinged after so long without a call; may be Never

	// RetryReads are globs of the names of tools that change nothing: a call of
	// one whose outcome is not known may be made once more.
	RetryReads []string

	// Env and Headers are added to what a definition has, unless a project's
	// files hold it: the first to that of a process, the others to that of a
	// remote server.
	Env, Headers map[string]Secret

	// Sandbox has a stdio server run in a container; nil says nothing.
	Sandbox *Sandbox
}

// setting merges what the operator says of a server: later settings are
// stronger.
func (p *Proxy) setting(server discovery.Server) Setting {
	merged := Setting{Name: server.Name}
	for _, s := range p.opts.Settings {
		if ok, err := path.Match(s.Name, server.Name); s.Name != "" && (err != nil || !ok) {
			continue
		}
		merged.Eager = cmp.Or(s.Eager, merged.Eager)
		merged.Stateful = cmp.Or(s.Stateful, merged.Stateful)
		merged.Validate = cmp.Or(s.Validate, merged.Validate)
		merged.Max = cmp.Or(s.Max, merged.Max)
		merged.Concurrency = cmp.Or(s.Concurrency, merged.Concurrency)
		merged.StartTimeout = cmp.Or(s.StartTimeout, merged.StartTimeout)
		merged.CallTimeout = cmp.Or(s.CallTimeout, merged.CallTimeout)
		merged.Idle = cmp.Or(s.Idle, merged.Idle)
		merged.KeepAlive = cmp.Or(s.KeepAlive, merged.KeepAlive)
		merged.Sandbox = cmp.Or(s.Sandbox, merged.Sandbox)
		merged.Env, merged.Headers = join(merged.Env, s.Env), join(merged.Headers, s.Headers)
		if s.RetryReads != nil {
			merged.RetryReads = s.RetryReads
		}
	}
	return merged
}

// join returns both maps as one; the second is stronger.
func join(a, b map[string]Secret) map[string]Secret {
	if len(b) == 0 {
		return a
	}
	all := maps.Clone(b)
	for name, secret := range a {
		if _, stronger := b[name]; !stronger {
			all[name] = secret
		}
	}
	return all
}

// eager reports whether the server is to be started before it is needed.
func (s Setting) eager() bool { return s.Eager != nil && *s.Eager }

// validates reports whether arguments are checked before they are sent.
func (s Setting) validates() bool { return s.Validate == nil || *s.Validate }

// private reports whether each session has a server of its own: one that keeps
// state for whoever uses it, and one that belongs to a project, unless the
// operator says otherwise.
func (s Setting) private(server discovery.Server) bool {
	if s.Stateful != nil {
		return *s.Stateful
	}
	return server.Root != ""
}

// retries reports whether the operator says that a tool only reads.
func (s Setting) retries(tool string) bool {
	for _, pattern := range s.RetryReads {
		if ok, err := path.Match(pattern, tool); err == nil && ok {
			return true
		}
	}
	return false
}
