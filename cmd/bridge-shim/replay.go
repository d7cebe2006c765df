package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

const (
	// maxGreeting bounds the initialize that is kept for another daemon.
	maxGreeting = 1 << 20

	// maxAsked bounds the daemon's requests whose answers are watched for. A
	// daemon makes fewer.
	maxAsked = 64
)

// A greeting is the agent's handshake, of which a daemon that comes after
// another must know: what the agent's client can be asked is part of it.
type greeting struct {
	params    json.RawMessage // of initialize; nil before it
	confirmed bool            // notifications/initialized was sent too
	replays   int
	replay    string // id of the replay whose answer is ours; "" if there is none
}

// note takes in a message that was sent to a daemon.
func (g *greeting) note(m message) {
	switch {
	case m.Method == "initialize" && m.isRequest():
		g.params, g.confirmed = nil, false
		if len(m.Params) > 0 && len(m.Params) <= maxGreeting {
			g.params = bytes.Clone(m.Params)
		}
	case m.Method == "notifications/initialized":
		g.confirmed = true
	}
}

// again returns the lines that tell a new daemon what the one before it was
// told; nil if that is nothing.
func (g *greeting) again() []byte {
	if g.params == nil {
		return nil
	}
	g.replays++
	g.replay = strconv.Quote(fmt.Sprintf("bridge-shim-replay-%d", g.replays))
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%s,"method":"initialize","params":%s}`+"\n", g.replay, g.params)
	if g.confirmed {
		b.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	}
	return b.Bytes()
}

// ours reports whether a daemon's message is the answer to a replay, of which
// the agent knows nothing.
func (g *greeting) ours(m message) bool {
	if g.replay == "" || !m.isAnswer() || string(m.ID) != g.replay {
		return false
	}
	g.replay = ""
	return true
}

// cancelLine tells the agent that its answer is no longer wanted.
func cancelLine(id []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"bridged ended"}}`+"\n", id)
}
