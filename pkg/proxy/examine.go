package proxy

import "github.com/bridged/bridged/pkg/discovery"

// Examine says what would keep a server, given by name or alias, from being
// used, as far as that can be known without starting or contacting it: its
// variables and secrets, its program, its URL, its container. It runs the
// commands of secrets, and nothing else.
func (s *Session) Examine(name string) error {
	t, err := s.find(s.look(), name)
	if err == nil {
		err = t.err
	}
	if err != nil || t.box != nil || t.whole.Transport != discovery.Stdio {
		return err
	}
	_, err = resolveCommand(t.whole)
	return err
}
