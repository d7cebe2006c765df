package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// An inbox sorts what a server sends, whatever it comes over: answers, requests
// of the server's own, notifications, and what is no protocol at all.
type inbox struct {
	strays *strayLog
	desk   *askDesk
	notify func(mcp.JSONRPCNotification) // it must not block
	send   func(reply []byte)            // sends an answer of ours; it must not block
}

func newInbox(strays *strayLog, send func([]byte)) *inbox {
	return &inbox{strays: strays, desk: newAskDesk(), notify: func(mcp.JSONRPCNotification) {}, send: send}
}

// take handles one line or event; settle is called with each answer in it.
// Servers print banners, logs and blank lines between their messages; those are
// noted and skipped.
func (i *inbox) take(line []byte, settle func(message)) {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
	if len(line) == 0 {
		return
	}
	if line[0] != '{' && line[0] != '[' {
		i.strays.add(line)
		return
	}
	line = repairText(line)
	if !json.Valid(line) {
		i.takeBroken(line, settle)
		return
	}
	i.takeValid(line, settle)
}

// takeValid handles one message or batch.
func (i *inbox) takeValid(line []byte, settle func(message)) {
	if line[0] == '[' {
		i.takeBatch(line, settle)
		return
	}
	m, ok := parseMessage(line)
	if !ok {
		i.strays.add(line)
		return
	}
	i.dispatch(m, settle)
}

// takeBatch handles the batches of protocol 2025-03-26.
func (i *inbox) takeBatch(line []byte, settle func(message)) {
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		i.strays.add(line)
		return
	}
	for _, one := range batch {
		if m, ok := parseMessage(one); ok && isObject(one) {
			i.dispatch(m, settle)
			continue
		}
		i.strays.add(one)
	}
}

func (i *inbox) dispatch(m message, settle func(message)) {
	switch {
	case m.method == nil:
		settle(m)
	case m.hasID():
		i.reply(m)
	default:
		i.notified(m)
	}
}

// reply answers a server's request under the server's own id.
func (i *inbox) reply(m message) {
	if len(m.id) >= keptValue {
		return // no id that we could repeat
	}
	i.desk.take(m.header, bytes.Clone(m.params), func(outcome string) {
		i.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, m.id, outcome))
	})
}

func (i *inbox) notified(m message) {
	if len(m.params) > maxNotification {
		return
	}
	if m.methodName() == string(mcp.MethodNotificationCancelled) {
		i.withdrawn(m.params)
		return
	}
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = m.methodName()
	if isObject(m.params) {
		if err := json.Unmarshal(m.params, &n.Params); err != nil {
			return
		}
	}
	i.notify(n)
}

// withdrawn ends a request of the server's that it no longer wants answered.
func (i *inbox) withdrawn(params json.RawMessage) {
	var n struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &n) == nil {
		i.desk.withdraw(string(n.RequestID))
	}
}

// mismatch says that an answer is for nobody.
func mismatch(h header) error {
	id := string(h.id)
	if h.id == nil {
		id = "none"
	}
	return fmt.Errorf("%w: the server sent an answer with id %s, which no request has", errMismatch, clip(id, 40))
}

// responseOf reads an answer without decoding its result.
func responseOf(id int64, m message) *transport.JSONRPCResponse {
	r := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id), Result: m.result}
	if m.failed != nil && string(m.failed) != "null" {
		r.Error, r.Result = errorDetails(m.failed), nil
	}
	return r
}
