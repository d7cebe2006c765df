package bridge

import (
	"context"
	_ "embed"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The capabilities resource: the second address is the one that users of
// mcp-server-code-execution-mode know.
const (
	capabilitiesURI     = "resource://bridged/capabilities"
	seedCapabilitiesURI = "resource://mcp-server-code-execution-mode/capabilities"
)

//go:embed capabilities.md
var capabilities string

// instructions are shown to the model once per session. Agents cut them at 2048
// characters.
const instructions = `run_python is a Python interpreter whose variables, imports and functions last from call to call. ` +
	`Reach MCP servers from code, many calls in one run, and print only what you need:

from mcp import runtime
runtime.discovered_servers()                      # what exists
await runtime.search_tool_docs("create issue")    # find tools by task, over all servers
await mcp_github.create_issue(title="x")          # after run_python(servers=["github"])

The last expression's value is shown. asyncio.gather runs calls side by side. ` +
	`publish(path) hands a file to the user. ` +
	`numpy, pandas and matplotlib are usually there; there is no network but the servers. ` +
	`Read ` + capabilitiesURI + ` for all helpers.`

// newMCP returns a session's own MCP server. Sessions share none, so that no
// mistake in it can show one agent what is another's.
func newMCP(s *session) *server.MCPServer {
	hooks := &server.Hooks{}
	hooks.AddAfterListTools(func(ctx context.Context, _ any, _ *mcp.ListToolsRequest, list *mcp.ListToolsResult) {
		line := liveLine(s.pys.desk().servers(ctx))
		for i := range list.Tools {
			list.Tools[i].Description += line
		}
	})
	srv := server.NewMCPServer("bridged", s.srv.opts.Version,
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, true),
		server.WithInstructions(instructions+dataLine(s.srv.opts.Data)),
		server.WithHooks(hooks),
	)
	srv.AddTool(runPythonTool(), s.runPython)
	for _, uri := range []string{capabilitiesURI, seedCapabilitiesURI} {
		srv.AddResource(mcp.NewResource(uri, "capabilities",
			mcp.WithResourceDescription("The helpers that code in run_python can use."),
			mcp.WithMIMEType("text/markdown")), s.readCapabilities)
	}
	s.addFiles(srv, hooks)
	return srv
}

func (s *session) readCapabilities(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{mcp.TextResourceContents{
		URI: req.Params.URI, MIMEType: "text/markdown", Text: capabilities + dataLine(s.srv.opts.Data),
	}}, nil
}

// withVersion fills in the version of an initialize request that names none, so
// that it is answered with our newest rather than with an error.
func withVersion(params json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil || members == nil {
		members = map[string]json.RawMessage{}
	}
	var version string
	if err := json.Unmarshal(members["protocolVersion"], &version); err == nil && version != "" {
		return params
	}
	members["protocolVersion"] = json.RawMessage(strconv.Quote(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	filled, err := json.Marshal(members)
	if err != nil {
		return params // mcp-go says what is wrong with it
	}
	return filled
}

// maxNotes bounds the notifications of mcp-go that wait to be sent; it drops
// what does not fit.
const maxNotes = 16

// A clientSession is what mcp-go knows of a session.
type clientSession struct {
	id    string
	notes chan mcp.JSONRPCNotification

	mu            sync.Mutex // guards the fields below
	initialized   bool
	version       string
	info          mcp.Implementation
	capabilities  mcp.ClientCapabilities
	subscriptions map[int64]*subscription // by our number
}

func newClientSession(id string) *clientSession {
	return &clientSession{
		id:            id,
		notes:         make(chan mcp.JSONRPCNotification, maxNotes),
		subscriptions: map[int64]*subscription{},
	}
}

func (c *clientSession) SessionID() string { return c.id }

func (c *clientSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notes }

func (c *clientSession) Initialize() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initialized = true
}

func (c *clientSession) Initialized() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.initialized
}

func (c *clientSession) SetProtocolVersion(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
}

func (c *clientSession) ProtocolVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

func (c *clientSession) SetClientInfo(info mcp.Implementation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.info = info
}

func (c *clientSession) GetClientInfo() mcp.Implementation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}

func (c *clientSession) SetClientCapabilities(capabilities mcp.ClientCapabilities) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capabilities = capabilities
}

func (c *clientSession) GetClientCapabilities() mcp.ClientCapabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capabilities
}
