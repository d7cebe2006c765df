package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// JSON-RPC error codes.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInternal       = -32603
	codeBusy           = -32000
)

// maxBatch bounds the messages in one JSON array.
const maxBatch = 64

// A message is one JSON-RPC message from the agent.
type message struct {
	id     json.RawMessage // as it came; nil in a notification
	method string          // "" in an answer
	params json.RawMessage // nil if there are none
	result json.RawMessage // of an answer
	failed json.RawMessage // of an answer: its member "error"
}

// A fault says what is wrong with a message.
type fault struct {
	id   json.RawMessage // nil if none was found
	code int
	text string
}

func (f *fault) Error() string { return f.text }

// parseLine returns the messages in a line that is not blank: one, or those of
// a batch. A batch's messages are answered one by one.
func parseLine(line []byte) ([]message, []*fault) {
	if f := checkText(line); f != nil {
		return nil, []*fault{f}
	}
	if line[0] != '[' {
		m, f := parseMessage(line)
		if f != nil {
			return nil, []*fault{f}
		}
		return []message{m}, nil
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil {
		return nil, []*fault{{code: codeParse, text: "the batch is not valid JSON: " + err.Error()}}
	}
	if len(batch) == 0 || len(batch) > maxBatch {
		return nil, []*fault{{code: codeInvalidRequest, text: fmt.Sprintf("a batch has 1 to %d messages, this one has %d", maxBatch, len(batch))}}
	}
	return parseBatch(batch)
}

func parseBatch(batch []json.RawMessage) (ms []message, fs []*fault) {
	for _, raw := range batch {
		m, f := parseMessage(raw)
		if f != nil {
			fs = append(fs, f)
			continue
		}
		ms = append(ms, m)
	}
	return ms, fs
}

// checkText refuses what encoding/json would quietly replace.
func checkText(line []byte) *fault {
	if utf8.Valid(line) {
		return nil
	}
	at := 0
	for at < len(line) {
		r, n := utf8.DecodeRune(line[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return &fault{id: findID(line), code: codeParse, text: fmt.Sprintf("the message is not valid UTF-8 at byte %d", at)}
}

func findID(line []byte) []byte {
	var s idScanner
	s.write(line)
	return s.ID()
}

// parseMessage takes a message apart. Its params stay as they came. Names are
// compared exactly, unlike in decoding to a struct.
func parseMessage(raw []byte) (message, *fault) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		if json.Valid(raw) {
			return message{}, &fault{code: codeInvalidRequest, text: "a message must be a JSON object"}
		}
		return message{}, &fault{id: findID(raw), code: codeParse, text: "the message is not valid JSON: " + err.Error()}
	}
	if members == nil {
		return message{}, &fault{code: codeInvalidRequest, text: "a message must be a JSON object"}
	}
	m := message{id: members["id"], params: members["params"], result: members["result"], failed: members["error"]}
	if text := m.fill(members); text != "" {
		id := m.id
		if !legalID(id) {
			id = nil
		}
		return message{}, &fault{id: id, code: codeInvalidRequest, text: text}
	}
	return m, nil
}

// fill checks the members and sets the method. It returns what is wrong.
func (m *message) fill(members map[string]json.RawMessage) string {
	method, isCall := members["method"]
	_, hasResult := members["result"]
	_, hasError := members["error"]
	switch {
	case string(members["jsonrpc"]) != `"2.0"`:
		return `the member "jsonrpc" must be "2.0"`
	case m.id != nil && !legalID(m.id) && (isCall || !hasError):
		return fmt.Sprintf(`the member "id" must be a string or a number of at most %d bytes`, maxID)
	case !isCall && !hasResult && !hasError:
		return `the member "method" is missing`
	case !isCall:
		return "" // an answer
	}
	if err := json.Unmarshal(method, &m.method); err != nil || m.method == "" {
		return `the member "method" must be a string that is not empty`
	}
	if c := firstByte(m.params); c != 0 && c != '{' && string(m.params) != "null" {
		return `the member "params" must be an object`
	}
	return ""
}

func firstByte(raw []byte) byte {
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// idKey returns a name for an id: equal for equal ids, different for 7 and "7".
func idKey(raw []byte) string {
	if firstByte(raw) != '"' {
		return "n" + string(raw)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "r" + string(raw)
	}
	return "s" + s
}

// renumbered returns the message with a small number for its id, because mcp-go
// passes ids through float64.
func (m *message) renumbered(n int64) json.RawMessage {
	var b bytes.Buffer
	b.Grow(len(m.params) + len(m.method) + 64)
	b.WriteString(`{"jsonrpc":"2.0"`)
	if m.id != nil {
		b.WriteString(`,"id":`)
		b.WriteString(strconv.FormatInt(n, 10))
	}
	b.WriteString(`,"method":`)
	name, _ := json.Marshal(m.method) // a string always marshals
	b.Write(name)
	if m.params != nil && string(m.params) != "null" {
		b.WriteString(`,"params":`)
		b.Write(m.params)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// An answer is a response as it is sent. Its id is the request's own bytes.
type answer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   any             `json:"error,omitempty"`
}

// A wireError is the error member of an answer.
type wireError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func newFaultAnswer(f *fault) answer {
	id := f.id
	if id == nil {
		id = json.RawMessage("null")
	}
	return answer{JSONRPC: "2.0", ID: id, Error: wireError{f.code, f.text}}
}

// encodeLine returns v as one line of JSON with its end. It escapes no <, > or
// &, which the agent would pay for.
func encodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	return b.Bytes(), nil
}
