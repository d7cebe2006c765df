package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/discovery"
)

// A Step is one thing that [Session.Probe] has tried.
type Step struct {
	Name   string // "definition", "variables", "command", "start", "ping" or "tools"
	Found  string // what was found; empty when it failed
	Err    error
	Advice string // what to do about Err, if its text does not say
}

// Probe tries a server, given by name or alias, as the first call of it would:
// it puts the variables in, starts the server, pings it and lists its tools.
// report gets each step when it is over, in order; the first that fails is the
// last. Probe reports whether none failed. The server stays as after a call.
func (s *Session) Probe(ctx context.Context, name string, report func(Step)) bool {
	p := &probe{session: s, ctx: context.WithValue(ctx, waitLogKey{}, &s.waits)}
	steps := []struct {
		name string
		try  func() (found string, err error)
	}{
		{"definition", func() (string, error) { return p.find(name) }},
		{"variables", p.variables},
		{"command", p.command},
		{"start", p.start},
		{"ping", p.ping},
		{"tools", p.tools},
	}
	defer p.release()
	for _, step := range steps {
		found, err := step.try()
		if err != nil {
			report(Step{Name: step.name, Err: err, Advice: p.advice(err)})
			return false
		}
		if found != "" {
			report(Step{Name: step.name, Found: found})
		}
	}
	return true
}

// A probe is one server on trial.
type probe struct {
	session *Session
	ctx     context.Context
	target  *target
	backend *backend  // from start on
	up      *upstream // likewise
	done    func()    // gives backend up; likewise
}

func (p *probe) release() {
	if p.done != nil {
		p.done()
	}
}

func (p *probe) find(name string) (string, error) {
	t, err := p.session.find(p.session.look(), name)
	if err != nil {
		return "", err
	}
	p.target = t
	text := string(t.server.Transport)
	for _, source := range t.server.Sources {
		text += ", " + source.String()
	}
	return text, nil
}

// variables says which of the definition's variables have values, by name.
func (p *probe) variables() (string, error) {
	if p.target.err != nil {
		return "", p.target.err
	}
	if p.target.remote != nil {
		return fmt.Sprintf("all are set; it gets %d headers of the definition's", len(p.target.whole.Headers)), nil
	}
	const text = "all have values"
	names := slices.Sorted(maps.Keys(p.target.server.Env))
	if len(names) == 0 {
		return text, nil
	}
	return text + "; the definition itself sets " + clip(strings.Join(names, ", "), 500), nil
}

// command tells a process's program, or a container's image. Of a program that
// is not found start tells.
func (p *probe) command() (string, error) {
	switch {
	case p.target.whole.Transport != discovery.Stdio:
		return "", nil
	case p.target.box != nil:
		return "a container of image " + p.target.box.Spec.Image, nil
	}
	c, err := resolveCommand(p.target.whole)
	if err != nil {
		return "", nil
	}
	return fmt.Sprintf("%s with %d arguments, in %s", c.path, len(c.args), c.dir), nil
}

func (p *probe) start() (string, error) {
	began := time.Now()
	p.backend, p.done = p.session.use(p.target)
	u, err := p.backend.acquire(p.ctx)
	if err != nil {
		if last := p.backend.lastError(); last != nil && p.ctx.Err() == nil {
			err = last
		}
		return "", err
	}
	p.up = u
	text := fmt.Sprintf("ready after %s", time.Since(began).Round(time.Millisecond))
	if id := u.identity(); id.pid != 0 {
		text += fmt.Sprintf(", pid %d", id.pid)
	} else if id.container != "" {
		text += ", container " + id.name
	} else if p.target.remote != nil {
		text += ", by " + p.backend.remote.spoken()
	}
	version := u.version
	if version == "" {
		version = "that it does not name"
	}
	return text + ", protocol version " + version, nil
}

// lastError returns why the server can't be used, or why it ended.
func (b *backend) lastError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastErr
}

// ping tells how quick the server is. A server need not know pings.
func (p *probe) ping() (string, error) {
	limit := p.session.proxy.opts.pingTimeout
	ctx, cancel := context.WithTimeoutCause(p.ctx, limit, fmt.Errorf("it did not answer a ping within %s", limit))
	defer cancel()
	began := time.Now()
	_, err := p.up.request(ctx, string(mcp.MethodPing), []byte("{}"))
	if _, refused := errors.AsType[*rpcError](err); err != nil && !refused {
		return "", err
	}
	return "answered after " + time.Since(began).Round(10*time.Microsecond).String(), nil
}

func (p *probe) tools() (string, error) {
	tools, err := p.session.tools(p.ctx, p.target)
	if err != nil {
		return "", err
	}
	const show = 12
	names := []string{}
	for _, t := range tools[:min(show, len(tools))] {
		names = append(names, clip(plainText(t.Name), 100))
	}
	text := fmt.Sprintf("%d: %s", len(tools), strings.Join(names, ", "))
	switch {
	case len(tools) == 0:
		text = "none"
	case len(tools) > show:
		text += ", ..."
	}
	if warning := p.backend.status().Warning; warning != "" {
		text += " (" + warning + ")"
	}
	return text, nil
}

// advice says what a person can do about an error whose text does not.
func (p *probe) advice(err error) string {
	if p.target == nil {
		return ""
	}
	_, missing := p.target.server.Expand(p.session.opts.Getenv, p.session.opts.Home, p.session.opts.Cwd)
	died, dead := errors.AsType[*deathError](err)
	switch e, some := errors.AsType[*discovery.MissingError](missing); {
	case some && len(e.Vars) > 0:
		return fmt.Sprintf("Set %s where the agent is started, or write the value into the definition.", strings.Join(e.Vars, " and "))
	case p.target.remote != nil && errors.Is(err, errNotSent):
		return "Nothing answers at the definition's URL. Is the server running, is the URL right, and does this machine need a proxy to reach it?"
	case !dead:
		return ""
	case died.stdout != "":
		return "What it writes to its stdout is not MCP. Does it need another argument to be an MCP server over stdio?"
	case strings.Contains(died.reason, "answer initialize within"):
		return "If it downloads something at its first start, give it longer: start_timeout = \"10m\" in a [[server]] table of bridged's config.toml. Else run its command by hand and see what it waits for."
	}
	return "The end of its stderr tells why, if anything does. Run its command by hand to see more."
}
