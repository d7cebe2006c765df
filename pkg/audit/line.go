package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Kind says what a line is about.
type Kind string

// The kinds of lines. The last four are the log's own.
const (
	KindRun      Kind = "run"      // code that an agent ran
	KindCall     Kind = "call"     // a call of an MCP server
	KindApproval Kind = "approval" // a person's answer to a question about a call
	KindFile     Kind = "file"     // the first line of a file
	KindStart    Kind = "start"    // a daemon began to write
	KindStop     Kind = "stop"     // it ended in good order
	KindGap      Kind = "gap"      // lines could not be written
)

// Kinds lists all kinds.
var Kinds = []Kind{KindRun, KindCall, KindApproval, KindFile, KindStart, KindStop, KindGap}

// A Line is one line of the log. docs/audit.md describes each field.
type Line struct {
	Time    time.Time `json:"time"` // when it began
	Seq     uint64    `json:"seq"`
	Kind    Kind      `json:"kind"`
	Session string    `json:"session,omitempty"`
	Python  string    `json:"python,omitempty"`
	Client  string    `json:"client,omitempty"`
	Server  string    `json:"server,omitempty"`
	Tool    string    `json:"tool,omitempty"`

	Arguments       json.RawMessage `json:"arguments,omitempty"`
	ArgumentsDigest string          `json:"arguments_digest,omitempty"`
	Code            string          `json:"code,omitempty"`
	CodeDigest      string          `json:"code_digest,omitempty"`

	Micros  int64    `json:"duration_us,omitempty"`
	Outcome string   `json:"outcome,omitempty"`
	In      int64    `json:"bytes_in,omitempty"`
	Out     int64    `json:"bytes_out,omitempty"`
	Sources []string `json:"sources,omitempty"`

	Trace   string `json:"trace,omitempty"` // as OpenTelemetry knows it
	Detail  string `json:"detail,omitempty"`
	Missing uint64 `json:"missing,omitempty"` // lines that a gap stands for
	Problem string `json:"problem,omitempty"` // what was wrong with the log at a start
	Oldest  string `json:"oldest,omitempty"`  // file that was kept when this one was begun

	Prev string `json:"prev"`
	Hash string `json:"hash,omitempty"` // always the last
}

// Duration is how long it took.
func (l Line) Duration() time.Duration { return time.Duration(l.Micros) * time.Microsecond }

// noHash stands before the first line of all.
var noHash = strings.Repeat("0", 2*sha256.Size)

const (
	hashKey = `,"hash":"`
	hashEnd = `"}`
	// sealBytes is how long the end of a line is that its hash does not cover.
	sealBytes = len(hashKey) + 2*sha256.Size + len(hashEnd)
)

// A chain is what the next line hangs on.
type chain struct {
	seq  uint64 // of the line before, 0 if there is none
	hash string
}

// seal appends a line to buf as the chain's next.
func (c *chain) seal(buf []byte, l Line) ([]byte, error) {
	l.Seq, l.Prev, l.Hash = c.seq+1, c.hash, ""
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		return buf, fmt.Errorf("encoding an audit line: %w", err)
	}
	body := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	c.seq, c.hash = l.Seq, hashOf(body)
	buf = append(append(buf, body...), hashKey...)
	return append(append(buf, c.hash...), hashEnd+"\n"...), nil
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Errors of a line by itself.
var (
	errShape = errors.New("this is no line of an audit log")
	errHash  = errors.New("the line does not match its hash: it was edited")
)

// parse reads a line, without its line end, and checks its own hash. On errHash
// the line is returned all the same.
func parse(raw []byte) (Line, error) {
	var l Line
	cut := len(raw) - sealBytes
	if cut < 0 || !bytes.HasPrefix(raw[cut:], []byte(hashKey)) || !bytes.HasSuffix(raw, []byte(hashEnd)) {
		return l, errShape
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, errShape
	}
	stated := raw[cut+len(hashKey) : len(raw)-len(hashEnd)]
	if hashOf(raw[:cut]) != string(stated) {
		return l, errHash
	}
	return l, nil
}
