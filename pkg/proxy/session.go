package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
	"github.com/bridged/bridged/pkg/runtime/commandline"
)

const (
	// maxParams bounds the parameters of one request of a sandbox, in bytes.
	maxParams = 16 << 20

	// maxInFlight is how many requests of one session are worked on at once;
	// maxWaiting more wait for their turn, and past that they are refused.
	maxInFlight = 256
	maxWaiting  = 1024

	// maxLoaded bounds the servers that one session loads.
	maxLoaded = 512

	// maxName bounds a name that a request carries.
	maxName = 1000
)

// SessionOptions say what one sandbox's code may reach.
type SessionOptions struct {
	// Servers returns the definitions that may be used, as discovered. It is
	// called for each request, so it should remember. It may return the same
	// slice as long as nothing has changed, and must not change it then.
	Servers func() []discovery.Server

	Getenv func(string) (string, bool) // the agent's environment; nil means empty
	Home   string                      // the person's home folder
	Cwd    string                      // the agent's working folder
	Agent  Agent                       // whom servers and rules ask; nil means nobody
	Client func() string               // the name that the agent gives itself; nil means none
	Audit  Auditor                     // told of each call; nil means nobody is
	Waits  func() (done func())        // told while code waits for a person; nil means nobody is
	Label  string                      // what a person calls the session
	Looks  bool                        // it only looks, so that it starts no eager servers
	Saved  func() []Saved              // functions that code has saved, which a search finds too; nil means none
}

// A Loaded is a server that a session's code may call.
type Loaded struct {
	Name  string // as discovered
	Alias string // the Python identifier
}

// A Session answers the requests of one sandbox. It is safe for concurrent
// use. The caller must Close it.
type Session struct {
	proxy  *Proxy
	id     int64
	opts   SessionOptions
	ledger *policy.Ledger
	ctx    context.Context // ends with Close
	close  context.CancelCauseFunc
	turns  chan struct{} // one for each request that is worked on
	waits  waitLog
	asking stopwatches

	project string // where the working folder really lies, for rules

	mu      sync.Mutex // guards the fields below
	waiting int
	loaded  map[string]bool // by name
	view    *view
}

// NewSession returns a session that has loaded nothing. Its eager servers are
// started meanwhile, unless it only looks.
func (p *Proxy) NewSession(o SessionOptions) *Session {
	s := p.newSession(o)
	if p.anyEager() && !o.Looks {
		p.run(func() { s.wake(func(*target) bool { return true }) }) // ends with the session
	}
	return s
}

func (p *Proxy) newSession(o SessionOptions) *Session {
	if o.Servers == nil {
		o.Servers = func() []discovery.Server { return nil }
	}
	if o.Getenv == nil {
		o.Getenv = func(string) (string, bool) { return "", false }
	}
	if o.Agent == nil {
		o.Agent = nobody{}
	}
	s := &Session{
		proxy: p, id: p.lastSession.Add(1), opts: o, ledger: p.opts.Policy.NewLedger(), project: realPath(o.Cwd),
		turns: make(chan struct{}, maxInFlight), loaded: map[string]bool{},
	}
	s.ctx, s.close = context.WithCancelCause(p.ctx)
	return s
}

// Forget says that the interpreter whose code the session serves is gone, and
// with it what it has read.
func (s *Session) Forget() { s.ledger.Forget() }

// Close cancels what is under way. Servers stay, for other sessions, until they
// are idle; those that are this session's alone end, after their calls have.
func (s *Session) Close() {
	s.close(ErrClosed)
	s.proxy.forsake(s)
}

// A view is one list of definitions and what follows from it.
type view struct {
	servers []discovery.Server
	aliases map[string]string // by name
	byName  map[string]int    // by name and by alias

	mu      sync.Mutex // guards targets
	targets map[int]*target
}

// A target is a definition with everything resolved for the session.
type target struct {
	server   discovery.Server // as discovered
	identity string           // of that, see [discovery.Server.Identity]
	written  string           // its digest, which is the same in all environments
	alias    string
	whole    discovery.Server // with its variables, environment and folder
	remote   *endpoint        // nil for a server that is started
	mask     *strings.Replacer
	ref      discovery.Ref
	key      string // of the backend; sessions with one key share it
	root     string // what its server is told to work in, if it asks
	setting  Setting
	box      *commandline.Run // the container that it runs in; nil is none
	owner    *Session         // whose the backend is alone; nil is everybody's
	err      error            // why it can't be used
}

// look returns the view of the current definitions.
func (s *Session) look() *view {
	servers := s.opts.Servers()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == nil || !sameSlice(s.view.servers, servers) {
		s.view = newView(servers)
	}
	return s.view
}

func sameSlice(a, b []discovery.Server) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func newView(servers []discovery.Server) *view {
	v := &view{servers: servers, byName: map[string]int{}, targets: map[int]*target{}}
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = s.Name
	}
	v.aliases = discovery.Aliases(names)
	for i, name := range names {
		v.byName[v.aliases[name]] = i
	}
	for i, name := range names {
		v.byName[name] = i // a name is stronger than another's alias
	}
	return v
}

// names returns the names of all servers, sorted.
func (v *view) names() []string { return slices.Sorted(maps.Keys(v.aliases)) }

// target returns a server by index, resolved for s.
func (v *view) target(s *Session, i int) *target {
	v.mu.Lock()
	defer v.mu.Unlock()
	t, ok := v.targets[i]
	if !ok {
		t = s.resolve(v.servers[i], v.aliases[v.servers[i].Name])
		v.targets[i] = t
	}
	return t
}

// resolve decides everything about a definition: two sessions for which all of
// it is the same share a process.
func (s *Session) resolve(server discovery.Server, alias string) *target {
	t := &target{server: server, identity: server.Identity(), written: server.Digest(), alias: alias, setting: s.proxy.setting(server)}
	if server.Held != "" {
		t.err = errorf(CodeNotAvailable, "Server %s is not available: %s.", server.Name, server.Held)
		return t
	}
	if server.Transport != discovery.Stdio {
		s.resolveRemote(t)
		return t
	}
	whole, err := server.Expand(s.opts.Getenv, s.opts.Home, s.opts.Cwd)
	if err == nil {
		err = s.proxy.addSecrets(&whole, t.setting)
	}
	var argv []string
	if err == nil {
		argv, err = whole.Argv(goos)
	}
	if err != nil {
		t.err = errorf(CodeServerFailed, "Server %s cannot be started: %v.", server.Name, strings.TrimPrefix(err.Error(), "server "+server.Name+": "))
		return t
	}
	whole.Command, whole.Args = argv[0], argv[1:]
	if t.box, err = s.box(whole, t.setting.Sandbox); err == nil {
		err = s.house(t, whole)
	}
	if err != nil {
		t.err = errorf(CodeServerFailed, "Server %s cannot be started: %v.", server.Name, err)
	}
	return t
}

// house settles what a server runs in. whole has its program and its own
// variables.
func (s *Session) house(t *target, whole discovery.Server) error {
	if t.box != nil {
		return s.enclose(t, whole)
	}
	t.mask = masker(whole.Env)
	whole.Env = environment(whole, s.opts.Getenv)
	whole.Unset, whole.EnvFile = nil, "" // they are in Env by now
	whole.Cwd = cmp.Or(whole.Dir(s.opts.Home), s.opts.Cwd, "/")
	t.whole = whole
	s.assign(t, whole)
	return nil
}

// assign decides which tools and which backend a resolved definition has: they
// are those of all that mean the same.
func (s *Session) assign(t *target, meant discovery.Server) {
	t.ref = discovery.RefOf(meant)
	t.key, t.root = t.ref.Digest, s.rootOf(t)
	if t.setting.private(t.server) {
		t.owner = s
		t.key += "/" + strconv.FormatInt(s.id, 10) // a digest has no slash
	}
}

// find returns a server by name or alias.
func (s *Session) find(v *view, name string) (*target, error) {
	i, ok := v.byName[name]
	if !ok {
		return nil, errorf(CodeNotAvailable, "Server %s is not available.%s", clip(name, 100), advice(name, v))
	}
	return v.target(s, i), nil
}

// advice says which names would have been right.
func advice(name string, v *view) string {
	near := discovery.Nearest(name, v.names(), 3)
	switch {
	case len(v.servers) == 0:
		return " No MCP server is configured."
	case len(near) > 0:
		return " Did you mean " + strings.Join(near, " or ") + "?"
	}
	const show = 10
	names := v.names()
	text := " There are: " + strings.Join(names[:min(show, len(names))], ", ")
	if len(names) > show {
		text += fmt.Sprintf(" and %d more", len(names)-show)
	}
	return text + "."
}

// Load lets the session's code call servers, given by name or alias, from now
// on. They are started when they are first called. When any of them can't be
// used, none is loaded, and the error says for each what is wrong.
func (s *Session) Load(names []string) ([]Loaded, error) {
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	v := s.look()
	var wrong []string
	found := make([]Loaded, 0, len(names))
	for _, name := range names {
		t, err := s.find(v, name)
		if err == nil {
			err = t.err
		}
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		found = append(found, Loaded{Name: t.server.Name, Alias: t.alias})
	}
	if len(wrong) > 0 {
		return nil, errorf(CodeNotAvailable, "%s", strings.Join(slices.Compact(wrong), "\n"))
	}
	if err := s.admitLoad(found); err != nil {
		return nil, err
	}
	return found, s.load(found)
}

func (s *Session) load(found []Loaded) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.loaded)+len(found) > maxLoaded {
		return errorf(CodeBusy, "This session has loaded %d servers already, and %d is the limit.", len(s.loaded), maxLoaded)
	}
	for _, l := range found {
		s.loaded[l.Name] = true
	}
	return nil
}

// Loaded returns the servers that were loaded and are still there, by name.
func (s *Session) Loaded() []Loaded {
	v := s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Loaded{}
	for _, name := range slices.Sorted(maps.Keys(s.loaded)) {
		if alias, ok := v.aliases[name]; ok {
			list = append(list, Loaded{Name: name, Alias: alias})
		}
	}
	return list
}

func (s *Session) isLoaded(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[name]
}

// enter waits for the request's turn.
func (s *Session) enter(ctx context.Context) error {
	select {
	case s.turns <- struct{}{}:
		return nil
	default:
	}
	s.mu.Lock()
	full := s.waiting >= maxWaiting
	if !full {
		s.waiting++
	}
	s.mu.Unlock()
	if full {
		return errorf(CodeBusy, "%d requests of this session are under way and %d wait. Await some before making more.", maxInFlight, maxWaiting)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting--
	}()
	select {
	case s.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Session) leave() { <-s.turns }

// Call answers one request of the sandbox, see the package documentation for
// the methods. The error is an [*Error], or ctx's cause when that ends first.
func (s *Session) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	answer, ok := methods[method]
	switch {
	case !ok:
		return nil, errorf(CodeBadRequest, "There is no method %s. There are: %s.", clip(method, 100), strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
	case len(params) > maxParams:
		return nil, errorf(CodeTooLarge, "The request has %d bytes, and %d is the limit. Pass less, or in parts.", len(params), maxParams)
	case s.ctx.Err() != nil:
		return nil, context.Cause(s.ctx)
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, waitLogKey{}, &s.waits))
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	result, err := answer(s, ctx, params)
	if err == nil && len(result) > s.proxy.opts.MaxMessage {
		return nil, errorf(CodeTooLarge, "The answer to %s has %d bytes, and %d is the limit. Ask for less, for one tool say.",
			method, len(result), s.proxy.opts.MaxMessage)
	}
	return result, err
}
