package proxy

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxInstructions bounds what is kept of a server's instructions, in bytes.
const maxInstructions = 64 << 10

// A card is what a server says of itself when it is greeted.
type card struct {
	name, title, version string
	instructions         string
	capabilities         json.RawMessage // as it wrote them, nil if it wrote none

	offers    map[string]bool // the names of the capabilities
	taskCalls bool            // tools may be called as tasks
}

// newCard reads an answer to initialize or to server/discover. What can't be
// read counts as not said.
func newCard(result map[string]json.RawMessage) card {
	var c card
	var info struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Version string `json:"version"`
	}
	_ = json.Unmarshal(result["serverInfo"], &info)
	c.name, c.title, c.version = clip(info.Name, maxName), clip(info.Title, maxName), clip(info.Version, maxName)
	_ = json.Unmarshal(result["instructions"], &c.instructions)
	c.instructions = clip(c.instructions, maxInstructions)
	var capabilities map[string]json.RawMessage
	if err := json.Unmarshal(result["capabilities"], &capabilities); err != nil || capabilities == nil {
		return c
	}
	c.capabilities, c.offers = result["capabilities"], map[string]bool{}
	for name, value := range capabilities {
		c.offers[name] = string(value) != "null"
	}
	var tasks mcp.TasksCapability
	if err := json.Unmarshal(capabilities["tasks"], &tasks); err == nil && tasks.Requests != nil && tasks.Requests.Tools != nil {
		c.taskCalls = tasks.Requests.Tools.Call != nil
	}
	return c
}

// lacks reports whether the server has said that it does not have a
// capability. One that says nothing of its capabilities is asked.
func (u *upstream) lacks(capability string) bool {
	if capability == "completions" && u.version < mcp.ProtocolVersion20250326 {
		return false // it had no name yet
	}
	return u.card.offers != nil && !u.card.offers[capability]
}

// serverInfo answers server.info.
func (s *Session) serverInfo(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	o, err := s.newOffer("server.info", params, nil)
	if err != nil {
		return nil, err
	}
	var info json.RawMessage
	err = o.with(ctx, "", func(_ context.Context, u *upstream) (err error) {
		info, err = reply(struct {
			Name            string          `json:"name"`
			Title           string          `json:"title,omitempty"`
			Version         string          `json:"version"`
			ProtocolVersion string          `json:"protocolVersion"`
			Capabilities    json.RawMessage `json:"capabilities"`
			Instructions    string          `json:"instructions,omitempty"`
		}{u.card.name, u.card.title, u.card.version, u.version, orEmpty(u.card.capabilities), u.card.instructions})
		return err
	})
	return info, err
}

// orEmpty returns a JSON object, the empty one for nil.
func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}
