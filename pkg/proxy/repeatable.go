package proxy

import (
	"encoding/json"
	"slices"
)

// reading are the requests that change nothing, here or at a server. Loading
// is among them: what is loaded already stays so.
var reading = []string{
	"servers.list", "servers.load", "tools.list", "docs.query", "docs.search",
	"resources.list", "resources.templates", "prompts.list", "server.info",
}

// Repeatable reports whether a request of which nobody knows what became of it
// may be made again: one that reads, and the call of a tool that the operator
// says does ([Setting].RetryReads).
func (s *Session) Repeatable(method string, params json.RawMessage) bool {
	if method != "tools.call" {
		return slices.Contains(reading, method)
	}
	c, err := s.newCall(params)
	return err == nil && s.proxy.setting(c.target.server).retries(c.tool)
}
