package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bridged/bridged/pkg/sandbox"
	"github.com/bridged/bridged/pkg/tokens"
	"github.com/bridged/bridged/pkg/toon"
)

// A Mode is the form of the text that an agent gets as a result.
type Mode string

// The modes.
const (
	Compact Mode = "compact" // plain text: what happened, and nothing that did not
	TOON    Mode = "toon"    // what structuredContent has, see pkg/toon
	JSON    Mode = "json"    // the same as JSON
)

// modeVariable is what the environment of an agent's shim names the mode with.
// It wins over the daemon's configuration, being of this agent alone.
const modeVariable = "MCP_BRIDGE_OUTPUT_MODE"

// ParseMode returns the mode of that name. An error names all of them.
func ParseMode(name string) (Mode, error) {
	switch m := Mode(name); m {
	case Compact, TOON, JSON:
		return m, nil
	}
	return "", fmt.Errorf("%q is no output mode: use %s, %s or %s", brief(name), Compact, TOON, JSON)
}

// mode returns the form in which the results of a call are told, and what to
// say of a wish for one that there is not, once a connection.
func (s *session) mode(ctx context.Context) (m Mode, notices []string) {
	if name := strings.TrimSpace(s.hello.Env[modeVariable]); name != "" {
		m, err := ParseMode(name)
		if err == nil {
			return m, nil
		}
		if !s.toldMode.Swap(true) {
			notices = []string{fmt.Sprintf("%s of bridge-shim: %v", modeVariable, err)}
		}
	}
	if s.srv.opts.Mode == nil {
		return Compact, notices
	}
	return s.srv.opts.Mode(s.clientName(ctx)), notices
}

// clientName is what the client of a call calls itself.
func (s *session) clientName(ctx context.Context) string {
	if p := peerOf(ctx); p != nil {
		return p.name
	}
	return s.client.GetClientInfo().Name
}

// A view says in what form a client gets results, and what of them its protocol
// version has room for.
type view struct {
	mode       Mode
	budget     int  // tokens of text
	structured bool // structuredContent, since 2025-06-18
	audio      bool // audio content, since 2025-03-26
}

// view returns that of a call, and what to tell the agent besides.
func (s *session) view(ctx context.Context) (view, []string) {
	v := server.RequestProtocolVersion(ctx)
	mode, notices := s.mode(ctx)
	return view{
		mode:       mode,
		budget:     s.srv.opts.MaxTokens(s.clientName(ctx)),
		structured: v == "" || v >= mcp.ProtocolVersion20250618,
		audio:      v == "" || v >= mcp.ProtocolVersion20250326,
	}, notices
}

// document writes a structured result as the text of a mode other than Compact.
// What TOON has no form for is told as JSON.
func (v view) document(s structured) (string, error) {
	line, err := encodeLine(s)
	if err != nil {
		return "", err
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if v.mode == TOON {
		return inTOON(line), nil
	}
	return string(line), nil
}

// inTOON returns JSON as TOON, or as it is where that has no form for it.
func inTOON(data []byte) string {
	text, err := toon.Encode(data, toon.EncodeOptions{MaxBytes: maxGrowth * len(data)})
	if err != nil {
		return string(data)
	}
	return text
}

// maxGrowth is how many times larger than JSON a result in TOON may be. Deep
// lists are, by their indents; such a one is better told as JSON.
const maxGrowth = 2

// printed returns what the code printed: as data, if all of it is one object or
// list in JSON, and else the text; nil for no text. Plain text is never data.
func (v view) printed(shown, whole string) any {
	if v.mode != Compact && shown == whole {
		if data := printedData(whole); data != nil {
			return data
		}
	}
	return value{}.shown(shown)
}

// A value is that of the last expression: data, or else text.
type value struct {
	text string
	data json.RawMessage
}

// value returns the value in the form of the mode, and what data cost of the
// budget.
func (v view) value(r sandbox.Result) (val value, cost int) {
	if v.mode == Compact || len(r.Data) == 0 || !legible(r.Data) {
		return value{text: r.Value}, 0
	}
	text := string(r.Data)
	if v.mode == TOON {
		text = inTOON(r.Data)
	}
	if !tokens.Fits(text, v.budget) {
		return value{text: r.Value}, 0
	}
	return value{data: r.Data}, tokens.Count(text)
}

// shown returns what structuredContent has of a value whose text was cut to fit;
// nil for nothing.
func (v value) shown(text string) any {
	switch {
	case v.data != nil:
		return v.data
	case text == "":
		return nil
	}
	return text
}

// foldBlank makes one blank line of several, and leaves out those at the ends.
func foldBlank(text string) string {
	lines := strings.Split(text, "\n")
	kept := lines[:0]
	for _, line := range lines {
		blank := strings.TrimLeft(line, " \t") == ""
		if blank && (len(kept) == 0 || kept[len(kept)-1] == "") {
			continue
		}
		if blank {
			line = ""
		}
		kept = append(kept, line)
	}
	if n := len(kept); n > 0 && kept[n-1] == "" {
		kept = kept[:n-1]
	}
	return strings.Join(kept, "\n")
}
