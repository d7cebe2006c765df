package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
)

// modern answers a request as a server does that knows no initialize, and
// reports whether it did.
func (f *fake) modern(line []byte) bool {
	var r struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name           string
			InputResponses json.RawMessage
			RequestState   json.RawMessage
			Meta           map[string]json.RawMessage `json:"_meta"`
		}
	}
	if err := json.Unmarshal(line, &r); err != nil || r.ID == nil {
		return false
	}
	version := strings.Trim(string(r.Params.Meta["io.modelcontextprotocol/protocolVersion"]), `"`)
	switch {
	case r.Method == "initialize" && f.Modern == "unknown":
		f.refuse(r.ID, -32601, "Method not found", "null")
	case version != "2026-07-28" || r.Params.Meta["io.modelcontextprotocol/clientCapabilities"] == nil:
		f.refuse(r.ID, -32022, "Unsupported protocol version", `{"supported":["2026-07-28","2031-01-01"]}`)
	case r.Method == "server/discover" && f.Modern == "other":
		f.answer(r.ID, `{"supportedVersions":["2031-01-01"],"capabilities":{}}`)
	case r.Method == "server/discover":
		f.answer(r.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{}},`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"2"}}}`)
	case r.Method == "subscriptions/listen":
	case r.Params.Name == "forever", r.Params.Name == "inquire" && r.Params.InputResponses == nil:
		f.answer(r.ID, `{"resultType":"input_required","requestState":{"n":9007199254740993},"inputRequests":{`+
			`"b":{"method":"elicitation/create","params":{"message":"which?"}},"a":{"method":"roots/list"}}}`)
	case r.Params.Name == "inquire":
		f.answer(r.ID, fmt.Sprintf(`{"resultType":"complete","content":[],"got":%s,"state":%s}`, r.Params.InputResponses, r.Params.RequestState))
	default:
		return false
	}
	return true
}

// task answers the calls and questions of one tool that runs as a task.
func (f *fake) task(r fakeRequest, line []byte) {
	const id = `{"taskId":"t 1","status":%q,"statusMessage":"step %d","pollInterval":60}`
	f.mu.Lock()
	f.polls++
	n := f.polls
	f.mu.Unlock()
	switch {
	case r.Method == "tools/call" && !strings.Contains(string(line), `"task":{"ttl":`):
		f.refuse(r.ID, -32601, "only as a task", "null")
	case r.Method == "tools/call":
		f.answer(r.ID, `{"task":`+fmt.Sprintf(id, "working", n)+`}`)
	case r.Method == "tasks/result":
		f.answer(r.ID, textResult("done"))
	case f.TaskEnd != "" && n > 3:
		f.answer(r.ID, fmt.Sprintf(id, f.TaskEnd, n))
	default:
		f.answer(r.ID, fmt.Sprintf(id, "working", n))
	}
}
