package bridge

import "encoding/json"

// maxID bounds a request's id. Agents count, or use UUIDs.
const maxID = 1 << 10

// An idScanner finds the id of a JSON-RPC message of any size without holding
// the message. It needs no valid JSON: it follows quotes and brackets and takes
// the last member called id of the outermost object.
type idScanner struct {
	depth   int
	quoted  bool // inside a string
	escaped bool // after a backslash in a string
	wantKey bool // a string at depth 1 would be a member's name
	inKey   bool
	taking  bool   // the bytes are the id's value
	key     []byte // at most 3 bytes: enough to tell "id"
	id      []byte
}

func (s *idScanner) write(p []byte) {
	for _, c := range p {
		if s.quoted {
			s.inString(c)
			continue
		}
		s.outside(c)
	}
}

func (s *idScanner) inString(c byte) {
	if s.taking {
		s.take(c)
	}
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.quoted = false
		s.inKey = false
		return
	}
	if s.inKey && len(s.key) < 3 {
		s.key = append(s.key, c)
	}
}

func (s *idScanner) outside(c byte) {
	switch c {
	case '"':
		s.quoted = true
		if s.depth == 1 && s.wantKey {
			s.inKey, s.wantKey, s.key = true, false, s.key[:0]
		}
	case '{', '[':
		s.depth++
		s.wantKey = s.depth == 1 && c == '{'
	case '}', ']':
		s.depth--
		if s.depth < 1 {
			s.taking = false
		}
	case ',':
		if s.depth == 1 {
			s.taking, s.wantKey = false, true
		}
	case ':':
		if s.depth == 1 && string(s.key) == "id" {
			s.taking, s.id = true, s.id[:0]
			s.key = s.key[:0]
			return
		}
	}
	if s.taking {
		s.take(c)
	}
}

func (s *idScanner) take(c byte) {
	if len(s.id) <= maxID {
		s.id = append(s.id, c)
	}
}

// ID returns the id as raw JSON, or nil if the message has none that is legal.
func (s *idScanner) ID() []byte {
	if len(s.id) > maxID {
		return nil
	}
	id := trimSpace(s.id)
	if !legalID(id) || !json.Valid(id) {
		return nil
	}
	return id
}

// legalID reports whether raw, one JSON value, is a string or a number.
func legalID(raw []byte) bool {
	if len(raw) == 0 || len(raw) > maxID {
		return false
	}
	c := raw[0]
	return c == '"' || c == '-' || '0' <= c && c <= '9'
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
