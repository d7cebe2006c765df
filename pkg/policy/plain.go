package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// Plain makes a stranger's text safe to show on one line of a terminal:
// characters that move the cursor, turn the direction of writing or can't be
// seen become escapes, and at most limit bytes are kept.
func Plain(text string, limit int) string {
	text = clip(text, limit)
	if !strings.ContainsFunc(text, unseen) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unseen(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unseen(r rune) bool {
	return r != ' ' && !unicode.IsGraphic(r) || unicode.Is(unicode.Zs, r) && r != ' '
}

// PlainJSON is Plain for JSON, without the space between its parts, which could
// push the rest out of sight.
func PlainJSON(raw json.RawMessage, limit int) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return Plain(string(raw), limit)
	}
	return Plain(b.String(), limit)
}
