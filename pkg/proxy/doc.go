// Package proxy connects sandboxes to upstream MCP servers.
//
//	sandbox --Session.Call--> Session --> backend --> upstream --> process
//	           one a sandbox    |       one a definition   one a run
//	                            +--> discovery.Catalog (tools, search)
//
// A [Session] is what one sandbox may reach: it resolves the definitions that
// were discovered for it against the agent's environment, and answers the
// sandbox's requests. A backend is one definition with everything about it
// resolved (program, arguments, environment, folder); sessions for which all of
// that is the same share it. An upstream is one run of its process, with the
// JSON-RPC connection over the process's stdin and stdout. mcp-go's transport
// interface and message types are between the two, so that its HTTP transports
// fit in beside the pipe.
//
// # Life of a server
//
// A server is started when it is first called, or first asked for its tools;
// many callers wait for one start, and one that gives up spoils it for nobody.
// It gets the agent's PATH, HOME, locale and proxies, what its definition adds,
// and nothing else of the agent's or the daemon's environment. It is greeted
// with the newest protocol version that has a handshake, and whatever version it
// answers with is used.
//
// It is stopped when nobody has used it for a while, when its place is needed,
// and in [Proxy.Close], by a ladder: its stdin is closed, SIGTERM goes to its
// process group, SIGKILL goes there. On Linux both signals also reach what has
// left the group, and the kernel kills the process when the daemon dies. A
// first process that ends takes all that it started with it. (What has left the
// group is found by a variable in its environment. A program that also clears
// its environment gets away, and so does anything that leaves the group on
// other systems.)
//
// A server that ends is started again when it is needed, and not before. When
// the start fails, or the process ends before it has answered a single
// request, there is a pause that doubles each time; within it callers get the
// error of before, which quotes the end of the server's stderr.
//
// A request that the server may have seen is never sent again. One of which it
// cannot have seen the whole line is sent once more, to a new process.
//
// # Reading a server's stdout
//
// Lines that are no JSON-RPC messages are skipped; the first one is quoted when
// the server fails. Byte order marks, CRLF and batches are read, bytes and
// escapes that are no characters become U+FFFD. A message over the cap fails
// the call that it answers and no other. Results are not decoded: numbers, the
// order of keys and unknown blocks pass through as written. Pings are answered
// and all other requests of a server refused at once. An answer under an id
// that was never used fails all the calls under way, since it was meant for one
// of them; a late or second answer is ignored.
//
// # Requests
//
// Parameters and results are JSON objects; a server is given by its name or its
// alias. "Any server" is any that was discovered, loaded or not; it is started
// when its tools are not known yet.
//
//	servers.list {}
//	    -> {servers: [{name, alias, description, loaded, transport, state,
//	       tools, source, problem?}]}, by name. state is configured, catalogued
//	       (its tools are known), started or failed; tools is their number or
//	       null; problem says why it can't be used.
//	tools.list {server}
//	    -> {tools: [...]}: the tool objects of any server, as it wrote them.
//	tools.call {server, tool, arguments}
//	    -> the result of a loaded server's tool, as the server wrote it, also
//	       when it says isError.
//	docs.query {server, tool?, detail?}
//	    -> {docs: [{server, serverAlias, tool, toolAlias, title?, description,
//	       signature, paramAliases?, problem?, inputSchema?, outputSchema?}]}
//	       of any server. tool is a name or an alias; without it all are meant.
//	       detail is "summary" (without schemas, descriptions cut) or "full".
//	       paramAliases has the parameters that Python can't spell: alias to name.
//	docs.search {query, limit?, detail?}
//	    -> {results: [as docs, and score], incomplete?: [{server, reason}]},
//	       best first, over the tools of all servers. incomplete has the servers
//	       whose tools could not be listed in time.
//
// Errors are [Error]s with one of these codes:
//
//	not_available    no such server, not loaded, or not reached by stdio
//	bad_request      the parameters are wrong
//	unknown_tool     the server has no such tool; the nearest are named
//	server_failed    it can't be started; the call was not made
//	timeout          no answer within the call's time limit
//	outcome_unknown  the server failed during the call, which may have had its effect
//	too_large        a request or an answer over the cap
//	upstream         a JSON-RPC error of the server's; data is {code, message, data}
//	busy             too much is under way
//
// # Limits
//
//	what                          default  set by
//	a server's message            32 MiB   Options.MaxMessage
//	a sandbox's request           16 MiB
//	requests of a session         256 at once, 1024 wait
//	a call                        120 s    Options.CallTimeout, the definition
//	a start                       30 s     Options.StartTimeout, the definition
//	a start by npx, uvx, docker   120 s    Options.FirstStartTimeout, the definition
//	a list of tools               30 s, 200 pages, 10 000 tools, 64 MiB
//	a search                      15 s     Options.SearchWait
//	processes                     128      Options.MaxServers
//	idle time                     10 min   Options.IdleTimeout
//	pause after a failed start    1 s, doubling to 60 s
//	stderr that is kept           16 KiB
//	stop                          2 s to end of stdin, 3 s to SIGTERM
//
// # Concurrency
//
// Everything exported may be used from many goroutines. Each process has three
// goroutines for its streams, one that waits for its end, and one that cleans
// up; none of them ever waits for a caller. [Proxy.Close] returns when all of
// them, and all processes, are gone.
//
// # Tests
//
// The tests start themselves as a server that misbehaves as a test wants, see
// fakeConfig there.
package proxy
