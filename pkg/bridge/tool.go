package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

// toolName is the one tool there is.
const toolName = "run_python"

// description tells a model, in few tokens, what it could not guess. It avoids
// <, > and &, which mcp-go sends as \u003c and so on.
const description = `Run Python in a sandbox; variables persist between calls; top-level await works. ` +
	"`servers` loads MCP servers as `mcp_ALIAS`: `await mcp_github.create_issue(title=\"x\")`. " +
	"Find tools of all servers: `from mcp import runtime; await runtime.search_tool_docs(\"create issue\")`. " +
	"Print only what you need; `publish(path)` gives the user files."

// inputSchema says little, because the description and the names say the rest.
const inputSchema = `{"type":"object","properties":{` +
	`"code":{"type":"string"},` +
	`"servers":{"type":"array","items":{"type":"string"}},` +
	`"timeout":{"type":"number","description":"seconds"},` +
	`"reset":{"type":"boolean"},` +
	`"session":{"type":"string"}},` +
	`"required":["code"]}`

// runPythonTool returns the tool's entry without its live line. It carries no
// annotations: code may write, destroy and reach the world and is not
// idempotent, which is what a client assumes of a tool that says nothing.
func runPythonTool() mcp.Tool {
	return mcp.Tool{
		Name:           toolName,
		Description:    description,
		RawInputSchema: json.RawMessage(inputSchema),
	}
}

const (
	// maxLine is the budget of the live line in estimated tokens. The estimate
	// may fall short of the truth by a few; the rest up to 40 is for that.
	maxLine = 33

	// frameCost is what "\nServers: " and ", +99" cost.
	frameCost = 8
)

// liveLine names servers that can be loaded, as many as fit in 40 tokens, and
// counts the others. A model passes over a tool that names nothing it knows.
func liveLine(servers []string) string {
	var shown []string
	cost := frameCost
	for _, name := range servers {
		c := nameCost(name) + 1 // and its comma
		if cost+c > maxLine || !printable(name) {
			continue
		}
		cost += c
		shown = append(shown, name)
	}
	rest := len(servers) - len(shown)
	switch {
	case len(servers) == 0:
		return ""
	case len(shown) == 0:
		return fmt.Sprintf("\nServers: %d", rest)
	case rest == 0:
		return "\nServers: " + strings.Join(shown, ", ")
	}
	return fmt.Sprintf("\nServers: %s, +%d", strings.Join(shown, ", "), rest)
}

// nameCost estimates from above what a name costs in o200k_base. To count it would
// load a vocabulary that most connections do without.
func nameCost(name string) int {
	n, run := 0, 0 // run counts the letters since the last break
	flush := func() { n += (run + 1) / 2; run = 0 }
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z':
			run++
		case 'A' <= r && r <= 'Z':
			flush() // a new word in camel case
			run++
		case r < utf8.RuneSelf:
			flush()
			n++
		default:
			flush()
			n += utf8.RuneLen(r)
		}
	}
	flush()
	return n
}

// printable reports whether a name can be shown in a description: configuration
// files are other people's, and a name could be a sentence to the model.
func printable(name string) bool {
	if name == "" {
		return false
	}
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@", r) {
			return false
		}
	}
	return true
}
