package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// An Entry is what is to be logged. What it refers to must not be changed any
// more.
type Entry struct {
	Time    time.Time // when it began; zero means now
	Kind    Kind
	Session string // the agent's connection
	Python  string // the named session, "" for the default one
	Client  string // the agent's program, as it calls itself
	Server  string
	Tool    string

	Arguments json.RawMessage   // of a call
	Mask      *strings.Replacer // takes secrets out of texts in Arguments; may be nil
	Code      string            // of a run

	Duration time.Duration
	Outcome  string
	In, Out  int64    // bytes
	Sources  []string // servers whose results had been read before
	Detail   string   // for people: which rule denied a call, say
	Trace    string   // id of the trace that it is part of; "" for none
}

// weight is about how much memory an entry holds, in bytes.
func (e *Entry) weight() int64 { return int64(len(e.Arguments) + len(e.Code) + 256) }

// A Form says how much of a text the log keeps.
type Form string

// The forms.
const (
	Digest Form = "digest" // its keyed digest alone
	Masked Form = "masked" // arguments only: what looks secret is left out
	Full   Form = "full"   // all, but for the values that Entry.Mask knows
)

const (
	// maxArguments and maxCode bound what one line quotes, in bytes. Of more it
	// has the digest.
	maxArguments = 64 << 10
	maxCode      = 1 << 20

	// maxDetail and maxLabel bound the other texts of an entry.
	maxDetail = 2 << 10
	maxLabel  = 1 << 10
	// maxSources bounds the servers that one line names.
	maxSources = 256
)

// An encoder makes lines of entries.
type encoder struct {
	key             []byte
	arguments, code Form
}

func (c encoder) line(e Entry) Line {
	l := Line{
		Time: e.Time.UTC().Round(0), Kind: e.Kind, Session: label(e.Session), Python: label(e.Python), Client: label(e.Client),
		Server: label(e.Server), Tool: label(e.Tool), Micros: e.Duration.Microseconds(), Outcome: label(e.Outcome),
		In: e.In, Out: e.Out, Detail: clip(e.Detail, maxDetail), Trace: label(e.Trace),
	}
	for _, s := range e.Sources[:min(len(e.Sources), maxSources)] {
		l.Sources = append(l.Sources, label(s))
	}
	if len(e.Arguments) > 0 {
		l.Arguments, l.ArgumentsDigest = c.argumentsOf(e)
	}
	switch {
	case e.Code == "":
	case c.code == Full && len(e.Code) <= maxCode:
		l.Code = e.Code
	default:
		l.CodeDigest = digest(c.key, []byte(e.Code))
	}
	return l
}

func (c encoder) argumentsOf(e Entry) (json.RawMessage, string) {
	canonical := canonicalJSON(e.Arguments, nil)
	if c.arguments == Digest || len(canonical) > maxArguments {
		return nil, digest(c.key, canonical)
	}
	hide := hider{mask: e.Mask, byName: c.arguments != Full}
	return canonicalJSON(e.Arguments, hide.value), ""
}

// digest is the keyed digest of a text.
func digest(key, text []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}

// canonicalJSON writes a JSON text with sorted keys and without spaces, after
// change, if given, has had its value. Numbers stay as they are written. What is
// no JSON becomes a JSON string.
func canonicalJSON(raw []byte, change func(any) any) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		v = string(raw)
	}
	if change != nil {
		v = change(v)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // not for values that were decoded
		return []byte(`null`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// label makes a name fit to stand in a line.
func label(s string) string { return clip(s, maxLabel) }

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
