// Package tracing carries the trace of an agent's call through the daemon, by
// OpenTelemetry's API. It makes no tracer: whoever has one begins the first span,
// and everything below finds it in its context.
//
//	tools/call run_python        server: the agent's call
//	  wait for turn              in the Python session's queue
//	  lease sandbox              a warm one, a new one, or the session's own
//	  run code
//	    list tools               a server's tools were not known
//	      start server           it did not run
//	    tools/call NAME          client: one call of an MCP server's tool
//	      ask user               a rule wants a person to be asked
//	      wait for server        its calls under way are as many as may be
//	      start server           it did not run any more
//
// Without a span that is recorded in the context, [Start] and the other functions
// do nothing and allocate nothing, so that tracing costs nothing when it is off.
//
// The trace context that an agent sends in a request's _meta comes from outside:
// [FromMeta] takes no more of it than the W3C's format has room for. It is passed
// on to MCP servers by [AppendMeta] also where nothing is recorded, as the W3C
// wants of those who only forward: then with the agent's own span as the parent.
//
// A span says what was done, how long it took and how it ended, in words of a
// fixed set and names of servers and tools. It never holds code, arguments,
// results, errors' texts or output.
//
// Sources: https://www.w3.org/TR/trace-context/ for the format,
// https://modelcontextprotocol.io/community/seps/414-request-meta for the keys in
// _meta, and OpenTelemetry's semantic conventions for MCP, gen-ai/mcp.md, for the
// names of spans and attributes. What they have no name for begins with "bridged.".
package tracing
