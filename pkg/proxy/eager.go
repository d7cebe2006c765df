package proxy

import "sync"

// anyEager reports whether the operator wants any server to be started before
// it is needed.
func (p *Proxy) anyEager() bool {
	for _, s := range p.opts.Settings {
		if s.eager() {
			return true
		}
	}
	return false
}

// Wake starts the eager servers that sessions with such options share, and
// lists their tools. It returns at once; the servers stay until they are idle.
func (p *Proxy) Wake(o SessionOptions) {
	if !p.anyEager() {
		return
	}
	s := p.newSession(o)
	waking := p.run(func() { // ends with the starts' time limits
		defer s.Close()
		s.wake(func(t *target) bool { return t.owner == nil })
	})
	if !waking {
		s.Close()
	}
}

// wake starts those of the session's eager servers that are wanted, some at a
// time, and lists their tools. What goes wrong is in the servers' status.
func (s *Session) wake(wanted func(*target) bool) {
	v := s.look()
	slots := make(chan struct{}, listersAtOnce)
	var starts sync.WaitGroup
	defer starts.Wait()
	for _, name := range v.names() {
		t := v.target(s, v.byName[name])
		if !t.setting.eager() || t.err != nil || !wanted(t) {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		starts.Go(func() { // ends with the session
			defer func() { <-slots }()
			if err := s.rouse(t); err != nil {
				s.proxy.opts.Logger.Debug().Str("server", t.server.Name).Err(err).Msg("start eager server")
			}
		})
	}
}

// rouse makes sure that a server has listed its tools itself: one that the disk
// knows is started all the same.
func (s *Session) rouse(t *target) error {
	b, done := s.use(t)
	defer done()
	return b.known(s.ctx)
}
