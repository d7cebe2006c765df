package bridge

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/tracing"
)

// directCall returns the call of run_python that a message is, if mcp-go would
// do no more with it than hand it to runPython. It takes a message apart five
// times first, which costs as much as all that the daemon does otherwise for a
// short call. Whatever is out of the ordinary is left to it.
func directCall(m message) (mcp.CallToolRequest, bool) {
	var req mcp.CallToolRequest
	if m.method != string(mcp.MethodToolsCall) {
		return req, false
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(m.params, &params); err != nil {
		return req, false
	}
	for name, value := range params {
		switch name {
		case "name":
			if string(value) != `"`+toolName+`"` {
				return req, false
			}
			req.Params.Name = toolName
		case "arguments":
			req.Params.RawArguments = value
		case "_meta":
			if !plainMeta(value) {
				return req, false
			}
		default:
			return req, false
		}
	}
	return req, req.Params.Name != ""
}

// plainMeta reports whether _meta holds a progress token and the context of a
// trace at most, and so nothing of the protocol's later versions.
func plainMeta(meta json.RawMessage) bool {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(meta, &members); err != nil {
		return false
	}
	for key := range members {
		if key != "progressToken" && !tracing.IsMetaKey(key) {
			return false
		}
	}
	return true
}
