package proxy

import (
	"bytes"
	"encoding/json"
)

// takeBroken handles a line that begins like a message and is no JSON. Some
// libraries write numbers that JSON does not have; those are read as null. Of
// what is beyond that, an answer that has an end fails its call at once, which
// would wait in vain for another. The rest is no message.
func (i *inbox) takeBroken(line []byte, settle func(message)) {
	if repaired := repairNumbers(line); repaired != nil && json.Valid(repaired) {
		i.strays.add([]byte("a message with NaN or Infinity, which JSON does not have: read as null"))
		i.takeValid(repaired, settle)
		return
	}
	i.strays.add(line)
	s := &scanner{}
	s.scan(line)
	isAnswer := s.message.result != nil || s.message.failed != nil
	if s.depth != 0 || s.quoted || string(s.header.jsonrpc) != `"2.0"` || s.header.method != nil || !s.header.hasID() || !isAnswer {
		return
	}
	settle(message{header: s.header, failed: errNotJSON})
}

// errNotJSON takes the place of an answer that can't be read.
var errNotJSON = json.RawMessage(`{"code":-32700,"message":"the server answered with what is not valid JSON, or is nested more than 10000 deep; whether the call had its effect is not known"}`)

// repairNumbers writes null for NaN, Infinity and -Infinity outside of texts. It
// returns nil when there are none.
func repairNumbers(line []byte) []byte {
	var out []byte
	done := 0
	for at := 0; at < len(line); {
		if line[at] == '"' {
			at += quotedBytes(line[at:])
			continue
		}
		n := notFinite(line[at:])
		if n == 0 {
			at++
			continue
		}
		out = append(append(out, line[done:at]...), "null"...)
		at += n
		done = at
	}
	if out == nil {
		return nil
	}
	return append(out, line[done:]...)
}

// notFinite returns the length of a number that text begins with and JSON does
// not have.
func notFinite(text []byte) int {
	for _, word := range []string{"NaN", "Infinity", "-Infinity", "-NaN"} {
		if len(text) >= len(word) && string(text[:len(word)]) == word {
			return len(word)
		}
	}
	return 0
}

// quotedBytes returns the length of the string that text begins with, or of all
// of text when the string has no end.
func quotedBytes(text []byte) int {
	for at := 1; at < len(text); at++ {
		n := bytes.IndexAny(text[at:], `"\`)
		if n < 0 {
			break
		}
		if at += n; text[at] == '"' {
			return at + 1
		}
		at++ // what is escaped
	}
	return len(text)
}
