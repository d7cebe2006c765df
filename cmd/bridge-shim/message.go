package main

import (
	"bytes"
	"encoding/json"
)

// A message is what the shim needs to know of one: whose answer is owed.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// parse returns what can be made of a line. A line that is no message is the
// daemon's to complain about.
func parse(line []byte) message {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return message{}
	}
	return m
}

// isRequest reports whether an answer is owed.
func (m message) isRequest() bool {
	return m.Method != "" && len(m.ID) > 0 && string(m.ID) != "null"
}

// isAnswer reports whether the message answers a request.
func (m message) isAnswer() bool { return m.Method == "" && len(m.ID) > 0 }

// cancels returns the id of the request that the message cancels, if any: no
// answer is owed for it any more.
func (m message) cancels() (json.RawMessage, bool) {
	if m.Method != "notifications/cancelled" {
		return nil, false
	}
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, false
	}
	return p.RequestID, len(p.RequestID) > 0
}

// errorLine is a JSON-RPC error as a line. The id is the request's own bytes.
func errorLine(id []byte, text string) []byte {
	words, err := json.Marshal(text)
	if err != nil {
		words = []byte(`"bridge-shim: error"`)
	}
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.Write(id)
	b.WriteString(`,"error":{"code":-32000,"message":`)
	b.Write(words)
	b.WriteString("}}\n")
	return b.Bytes()
}
