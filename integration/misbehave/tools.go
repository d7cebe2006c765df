//go:build integration

package misbehave

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// call answers a call of a tool, as server.result does.
func call(r request) (text string, code int) {
	var a struct {
		N, MS     int
		V, Is     json.RawMessage
		How, File string
		Bare      bool
	}
	given := r.Params.Arguments
	if given == nil {
		given = json.RawMessage("{}")
	}
	if r.Params.Name == "echo" {
		return `{"content":[{"type":"text","text":` + quoted(string(given)) + `}],"structuredContent":` + string(given) +
			`,"_meta":{"nested":[` + string(given) + `]}}`, 0
	}
	if err := json.Unmarshal(given, &a); err != nil {
		return "bad arguments: " + err.Error(), -32602
	}
	switch name := r.Params.Name; {
	case name == "big":
		return textResult(Text(a.N)), 0
	case name == "blocks":
		return blocks(a.Bare), 0
	case name == "content" && a.Is == nil:
		return `{}`, 0
	case name == "content":
		return `{"content":` + string(a.Is) + `}`, 0
	case name == "sleep_echo":
		return sleepEcho(time.Duration(a.MS)*time.Millisecond, string(a.V), a.How), 0
	case name == "pay":
		return pay(a.File, a.How)
	case name == "slow":
		return "", 0
	case strings.HasPrefix(name, "tool_"):
		return textResult(name), 0
	}
	return "unknown tool", -32602
}

func textResult(text string) string {
	return `{"content":[{"type":"text","text":` + quoted(text) + `}]}`
}

func sleepEcho(d time.Duration, v, how string) string {
	time.Sleep(d)
	switch how {
	case "fail":
		return `{"isError":true,"content":[{"type":"text","text":` + quoted("no "+v) + `}]}`
	case "never":
		return ""
	}
	return textResult(v)
}

// pay has an effect, once for each call.
func pay(file, how string) (text string, code int) {
	if err := appendLine(file, "paid"); err != nil {
		return `{"isError":true,"content":[]}`, 0
	}
	switch how {
	case "exit":
		return gone, 0
	case "503":
		return gone, 503
	case "never":
		return "", 0
	}
	return textResult("paid"), 0
}

// Blob is the embedded resource of blocks, 3 MB of each byte.
func Blob() []byte {
	b := make([]byte, 3<<20)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// PNG is a picture of one pixel, as base64.
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// blocks has one block of each kind that there is, and one that there is not.
func blocks(bare bool) string {
	blob := base64.StdEncoding.EncodeToString(Blob())
	text := `{"content":[{"type":"text","text":"first"},` +
		`{"type":"image","mimeType":"image/png","data":"` + PNG + `"},` +
		`{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="},` +
		`{"type":"resource","resource":{"uri":"test://text","mimeType":"text/plain","text":"embedded"}},` +
		`{"type":"resource","resource":{"uri":"test://blob","mimeType":"application/octet-stream","blob":"` + blob + `"}},` +
		`{"type":"resource_link","uri":"test://link","name":"link"},` +
		`{"type":"json","json":{}}]`
	if bare {
		return text + `}`
	}
	return text + `,"structuredContent":{"ok":true},"_meta":{"seen":1}}`
}
