package discovery

import (
	"bytes"
	"encoding/json"
)

// maxResultRead bounds the JSON of a result in which its parts are looked for,
// in bytes.
const maxResultRead = 4 << 20

// Structured returns a result's structured content, and nothing when it has
// none or is an error.
func Structured(result json.RawMessage) json.RawMessage {
	parts := readResult(result)
	if parts.failed {
		return nil
	}
	return parts.structured
}

// unwrap makes what is under the only key the data.
func (r *toolResult) unwrap() {
	eachMember(r.structured, func(key string, value json.RawMessage) {
		if key == "result" {
			r.structured = value
		}
	})
}

// A toolResult is what of a tool's result is of interest here, as written.
type toolResult struct {
	structured json.RawMessage
	content    json.RawMessage
	failed     bool
	cut        bool // the last part may be
}

// readResult finds the parts of a result. Of a very large one it reads the
// beginning.
func readResult(raw json.RawMessage) toolResult {
	r := toolResult{cut: len(raw) > maxResultRead}
	eachMember(raw[:min(len(raw), maxResultRead)], func(key string, value json.RawMessage) {
		switch key {
		case "structuredContent":
			if string(value) != "null" {
				r.structured = value
			}
		case "content":
			r.content = value
		case "isError":
			r.failed = string(value) == "true"
		}
	})
	return r
}

// learnt returns what a result is like, as code gets it: structured content, or
// else a single text, or else the blocks. A text that says that it is JSON, or
// looks like it where data is promised, is data.
func (r toolResult) learnt(promised bool) (seen learnt, ok bool) {
	if r.failed {
		return learnt{}, false
	}
	if r.structured != nil {
		seen.data = infer(r.structured, r.cut)
		return seen, seen.data != nil
	}
	text, mime, single := singleText(r.content)
	if !single {
		return learnt{blocks: true}, true
	}
	isData := mime == "application/json"
	inner, cut := textStart(text)
	if isData || bytes.HasPrefix(inner, []byte("{")) || bytes.HasPrefix(inner, []byte("[")) {
		if shape := infer(inner, cut); shape != nil && (isData || promised) {
			return learnt{data: shape}, true
		} else if shape != nil {
			return learnt{json: shape}, true
		}
	}
	return learnt{text: true}, true
}

// singleText returns the only block of a content if it is a text, as written.
func singleText(content json.RawMessage) (text json.RawMessage, mime string, ok bool) {
	j := &jsonText{src: content}
	if j.take('[') != nil || j.peek() != '{' {
		return nil, "", false
	}
	start := j.at
	if j.skip() != nil {
		j.at = len(content) // it is cut, so it is long, so it is the only one
	} else if j.peek() == ',' {
		return nil, "", false
	}
	eachMember(content[start:j.at], func(key string, value json.RawMessage) {
		switch key {
		case "type":
			ok = string(value) == `"text"`
		case "text":
			text = value
		case "mimeType":
			mime = textOf(value)
		}
	})
	return text, mime, ok && len(text) > 1
}

// textStart decodes the beginning of a string without the space before its
// first character. The string may be cut, and cut tells if what is returned is.
func textStart(quoted json.RawMessage) (start []byte, cut bool) {
	const most = 2 * maxInspected
	if quoted[len(quoted)-1] != '"' || len(quoted) > most {
		end := min(len(quoted), most)
		const escape = 6 // bytes of the longest one
		if i := bytes.LastIndexByte(quoted[max(1, end-escape):end], '\\'); i >= 0 {
			end = max(1, end-escape) + i
		}
		for oddBackslashes(quoted[:end]) {
			end--
		}
		quoted, cut = append(quoted[:end:end], '"'), true
	}
	text, err := unquoteJSON(quoted)
	if err != nil {
		return nil, false
	}
	return bytes.TrimLeft([]byte(text), " \t\r\n\ufeff"), cut
}
