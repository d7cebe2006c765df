package proxy

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// A header is what decides where a message goes. Its fields are as written.
type header struct {
	jsonrpc []byte
	id      []byte
	method  []byte
}

// A message is a JSON-RPC message in its parts, which share the line's memory.
type message struct {
	header
	params json.RawMessage
	result json.RawMessage
	failed json.RawMessage // the member "error"
}

// keptValue bounds the values that a header keeps. Longer ones are no ids and
// no methods of ours.
const keptValue = 256

// parseMessage splits one valid JSON object. ok is false when it is no JSON-RPC
// message: servers print all sorts of objects to their stdout.
func parseMessage(line []byte) (m message, ok bool) {
	s := &scanner{whole: line}
	s.scan(line)
	m = s.message
	m.header = s.header
	if string(m.jsonrpc) != `"2.0"` {
		return m, false
	}
	return m, m.method != nil || m.result != nil || m.failed != nil
}

// methodName returns the method as text.
func (h header) methodName() string {
	var name string
	if json.Unmarshal(h.method, &name) != nil {
		return ""
	}
	return name
}

// hasID reports whether the message carries an id other than null.
func (h header) hasID() bool { return h.id != nil && string(h.id) != "null" }

// number returns the id as a whole number. Some servers write 7 as "7" or 7.0;
// since all our ids are whole numbers, that can mean no other request.
func (h header) number() (int64, bool) {
	text := strings.Trim(string(h.id), `"`)
	text = strings.TrimSuffix(text, ".0")
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// A scanner finds the members of a JSON object in one pass, without copying
// when whole is set, and in pieces when the object is too large to keep. It
// trusts the input to be valid; of other input it makes no sense, and no harm.
type scanner struct {
	whole []byte // the complete object, if it is at hand

	header  header
	message message

	offset  int // of the byte being looked at
	depth   int
	quoted  bool // inside a string
	escaped bool // behind a backslash
	inValue bool // behind a colon at depth 1
	start   int  // of the key or value at depth 1
	key     []byte
	value   []byte // the current token's first bytes, when whole is not set
}

func (s *scanner) scan(part []byte) {
	for i := 0; i < len(part); {
		if n := s.plainBytes(part[i:]); n > 0 {
			i += n
			s.offset += n
			continue
		}
		s.step(part[i])
		i++
		s.offset++
	}
}

// plainBytes counts the bytes that can be passed over: most are inside texts
// that nobody keeps.
func (s *scanner) plainBytes(part []byte) int {
	if !s.quoted || s.escaped || (s.whole == nil && s.depth == 1) {
		return 0
	}
	for i, c := range part {
		if c == '"' || c == '\\' {
			return i
		}
	}
	return len(part)
}

// step takes one byte.
func (s *scanner) step(c byte) {
	if s.quoted {
		s.keep(c)
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.quoted = false
		}
		return
	}
	switch c {
	case '"':
		s.quoted = true
		s.keep(c)
	case '{', '[':
		s.open(c)
	case '}', ']':
		s.shut(c)
	case ':':
		s.colon(c)
	case ',':
		s.comma(c)
	case ' ', '\t', '\r', '\n':
	default:
		s.keep(c)
	}
}

func (s *scanner) open(c byte) {
	s.depth++
	if s.depth == 1 {
		s.begin()
		return
	}
	s.keep(c)
}

func (s *scanner) shut(c byte) {
	s.depth--
	if s.depth == 0 {
		s.member()
		return
	}
	s.keep(c)
}

func (s *scanner) colon(c byte) {
	if s.depth != 1 || s.inValue {
		s.keep(c)
		return
	}
	s.key = bytes.Clone(s.token())
	s.inValue = true
	s.begin()
}

func (s *scanner) comma(c byte) {
	if s.depth != 1 {
		s.keep(c)
		return
	}
	s.member()
	s.begin()
}

// begin starts a token behind the current byte.
func (s *scanner) begin() {
	s.start = s.offset + 1
	s.value = s.value[:0]
}

// keep remembers the first bytes of a token of an object that is not at hand.
func (s *scanner) keep(c byte) {
	if s.whole == nil && s.depth == 1 && len(s.value) <= keptValue {
		s.value = append(s.value, c)
	}
}

func (s *scanner) token() []byte {
	if s.whole != nil {
		return bytes.TrimSpace(s.whole[s.start:s.offset])
	}
	return s.value
}

// member ends a key and its value.
func (s *scanner) member() {
	if !s.inValue {
		return
	}
	s.inValue = false
	value := s.token()
	key := string(s.key)
	if strings.Contains(key, `\`) {
		_ = json.Unmarshal(s.key, &key) // an odd key is none of ours
		key = `"` + key + `"`
	}
	switch key {
	case `"jsonrpc"`:
		s.header.jsonrpc = short(value)
	case `"id"`:
		s.header.id = short(value)
	case `"method"`:
		s.header.method = short(value)
	case `"params"`:
		s.message.params = value
	case `"result"`:
		s.message.result = value
	case `"error"`:
		s.message.failed = value
	}
}

// short copies a value of a header. What is too long to be one counts as
// present and unknown.
func short(value []byte) []byte {
	if len(value) > keptValue {
		value = value[:keptValue]
	}
	return bytes.Clone(value)
}
