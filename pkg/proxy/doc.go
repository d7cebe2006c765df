// Package proxy connects sandboxes to upstream MCP servers.
//
//	sandbox --Session.Call--> Session --> backend --> upstream --> process, container or URL
//	           one a sandbox    |       one a definition   one a run
//	                            +--> discovery.Catalog (tools, search)
//
// A [Session] is what one sandbox may reach: it resolves the definitions that
// were discovered for it against the agent's environment, and answers the
// sandbox's requests. A backend is one definition with everything about it
// resolved (program, arguments, environment, folder); sessions for which all of
// that is the same share it, unless the definition is a project's or a [Setting]
// says that the server keeps state: then each session has its own. An upstream is one run of its process, with the
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
// A server whose setting says eager is started with each session that has it,
// and by [Proxy.Wake]. Calls of one server are sent as they come, up to its
// concurrency; then they wait in a queue, each within its own time. One that is
// not used is pinged now and then, and ended when it does not answer.
//
// It is stopped when nobody has used it for a while, when its place is needed,
// when it was one session's and that has ended, and in [Proxy.Close], by a
// ladder: its stdin is closed, SIGTERM goes to its
// process group, SIGKILL goes there. On Linux both signals also reach what has
// left the group, and the kernel kills the process when the daemon dies; what
// the process has started is ended then by a reaper, a process that outlives
// ours for a moment. A first process that ends takes all that it started with
// it. (What has left the group is found by a variable in its environment. A
// program that also clears its environment gets away, and so does anything that
// leaves the group on other systems.)
//
// A server that ends is started again when it is needed, and not before. When
// the start fails, or the process ends before it has answered a single
// request, there is a pause that doubles each time; within it callers get the
// error of before, which quotes the end of the server's stderr.
//
// A request that the server may have seen is never sent again. One of which it
// cannot have seen the whole line is sent once more, to a new process. So is a
// call of a tool that [Setting].RetryReads names, whatever the server has seen.
//
// # Catalogue
//
// With Options.Archive the lists of tools outlive the proxy. One that is on disk
// is read when somebody first looks at the server, and is good enough for docs
// and searches: nothing is started for them. It is not for calls: the first call
// of a server has it list its tools before arguments are checked against them.
// A server that was started is asked for its tools whenever the list is from the
// disk, old, stale, or of another version of the server; one that says that its
// tools have changed is asked a second later. A list that is old when somebody
// looks at it is asked for in the background: two at a time, each after a random
// pause of up to twenty seconds, and again after an hour if that fails. The list
// of a server that fails stays, and is stale until the server gives another.
//
// # Servers in containers
//
// A definition that runs a container with a tool such as docker, and any stdio
// server whose setting has a [Sandbox], runs in a container that is made over
// the engine's socket, see [Containers]. The tool is not started. It is one more
// body of an upstream, beside the process: the stream to it carries the same
// JSON-RPC, its stderr is kept, and the ladder ends it, with SIGTERM by the
// engine and its removal at the end. Sessions share it when the containers would
// be the same. An image is fetched once for all who wait, and the fetching goes
// on when the start that wanted it is over.
//
// # Remote servers
//
// A definition with a URL is reached by streamable HTTP, or by HTTP and SSE, the
// older transport; auto tries the first, and the second only when the answer to
// initialize is a client error that is neither about credentials nor JSON-RPC's.
// mcp-go's transports mind sessions and streams. All that they send and get goes
// through a gate, an [http.RoundTripper] of ours, which adds headers and tokens,
// bounds each message and each event, reads event streams however their lines
// end, and takes the messages out of them, so that results are not decoded.
// Headers go to the URL's host and nowhere else: redirects and endpoints that
// lead away are refused.
//
// A request of which not even the headers were written was not sent. Once they
// were, a broken connection and an answer of 500 and more leave the outcome
// unknown; a refusal (400 to 499) means that the call was not made. When the
// server no longer knows the session, there is another initialize, the tools are
// listed again, and the call is made once more. The stream on which a server may
// speak unasked is optional: it is opened again with growing pauses, and given up
// when the server says that it has none.
//
// Tokens of logins (OAuth 2.1) are read from Options.TokenDir for each request
// and refreshed one at a time, also among processes.
//
// # Reading a server's stdout
//
// Lines that are no JSON-RPC messages are skipped; the first one is quoted when
// the server fails. Byte order marks, CRLF and batches are read, bytes and
// escapes that are no characters become U+FFFD, NaN and Infinity null. An answer
// that is no JSON beyond that fails its call at once. A message over the cap fails
// the call that it answers and no other. Results are not decoded: numbers, the
// order of keys and unknown blocks pass through as written. An answer under an id
// that was never used fails all the calls under way, since it was meant for one
// of them; a late or second answer is ignored.
//
// # What servers ask and say
//
// Requests of a server are worked on beside the read loop, 32 at once, and end
// when the server cancels them. A ping is answered. sampling/createMessage and
// elicitation/create are passed on to the agent of the session that the backend
// works for ([SessionOptions].Agent), if that is one: when calls of several
// sessions are under way, or of none, nobody is asked and the server is told
// so. They end with that session's last call of the server. A question to the
// person begins with the server's name; includeContext is left out, because it
// would mean what the agent knows of all servers.
//
// roots/list is answered with one root: the project's folder for a definition
// of a project, and else the agent's working folder. What a server may do can
// depend on it, so a definition whose server was once seen to ask is kept apart
// by root from then on: its backend is for the root of the session that it
// asked for, and sessions with another root get another process.
//
// A tool that can be called as a task only is called so, and the task asked
// about until it is over; its result is what the call returns. A server that
// refuses initialize because it knows nothing but the protocol without it is
// greeted with server/discover; its requests carry what the handshake says
// otherwise, and what it wants before it answers is asked as above, at most ten
// times for one request.
//
// Each call of a tool has a progress token. What comes under it is a note to the
// session's agent ("github.search: 3/10 fetching"), at most ten in a second, and
// lengthens no time limit. Log messages from info on are kept, 16 KiB; those
// that warn are noted as well when one session has calls under way. That
// resources or prompts have changed says nothing to us: their lists are asked
// for each time.
//
// # Requests
//
// Parameters and results are JSON objects; a server is given by its name or its
// alias. "Any server" is any that was discovered, loaded or not; it is started
// when its tools are not known yet.
//
//	servers.list {}
//	    -> {servers: [{name, alias, description, loaded, transport, state,
//	       tools, source, problem?, stale?}]}, by name. state is configured,
//	       catalogued (its tools are known), started (it runs) or used (a call
//	       of it was answered since the daemon started, whether it runs now or
//	       not); tools is their number or null; problem says why it can't be
//	       used, and stale why and since when its tools may be others by now.
//	servers.load {names: [...]}
//	    -> {loaded: [{name, alias}]}, in the order of names, which are names or
//	       aliases of discovered servers. Code may call them from now on. When
//	       any can't be loaded, none is, and the error tells of each.
//	tools.list {server}
//	    -> {tools: [...]}: the tool objects of any server, as it wrote them.
//	tools.call {server, tool, arguments}
//	    -> the result of a loaded server's tool, as the server wrote it, also
//	       when it says isError.
//	docs.query {server, tool?, detail?}
//	    -> {docs: [{server, serverAlias, tool, toolAlias, title?, description,
//	       signature, returns, params, loose, paramAliases?, problem?, stale?,
//	       inputSchema?, outputSchema?}]} of any server. tool is a name or an
//	       alias; without it all are meant. detail is "summary" (without
//	       schemas, descriptions cut: of all, to the first sentence) or "full".
//	       params are [{name, alias, type,
//	       description?, required, default?, enum?}], in Python's order: those
//	       that are required first. loose tools take others too. Types, and
//	       returns, are in Python's words: list[{number: int, title?: str}].
//	       paramAliases has the parameters that Python can't spell: alias to name.
//	docs.search {query, limit?, detail?, explain?}
//	    -> {results: [as docs of all, and score, why?], incomplete?: [{server, reason}]},
//	       best first, over the tools of all servers. incomplete has the servers
//	       whose tools could not be listed in time. With explain, why is what of
//	       the query was found where in a tool. A function that code has saved
//	       has saved: true and no server.
//	resources.list {server, cursor?}
//	    -> {resources: [...], nextCursor?, warning?}: the resources of any server,
//	       as it wrote them, of all pages from cursor on. When the list is cut,
//	       warning says why, and nextCursor where to go on, if that is known.
//	resources.templates {server, cursor?}
//	    -> {resourceTemplates: [...], nextCursor?, warning?}, likewise.
//	resources.read {server, uri}
//	    -> the result of a loaded server, {contents: [...]}, as it wrote it.
//	prompts.list {server, cursor?}
//	    -> {prompts: [...], nextCursor?, warning?}, as resources.list.
//	prompts.get {server, name, arguments?}
//	    -> the result of a loaded server, {messages: [...], description?}, as it
//	       wrote it. arguments is an object whose values are texts.
//	complete {server, ref, argument, context?}
//	    -> the result of a loaded server, {completion: {values: [...], total?,
//	       hasMore?}}, as it wrote it. ref is {type: "ref/prompt", name} or
//	       {type: "ref/resource", uri}, argument is {name, value}, and context
//	       {arguments}.
//	server.info {server}
//	    -> {name, title?, version, protocolVersion, capabilities, instructions?}:
//	       what any server says of itself when it is greeted.
//
// A server without resources or prompts has empty lists of them. Reading,
// getting and completing what a server does not offer is not_available.
//
// Errors are [Error]s with one of these codes:
//
//	not_available    no such server, not loaded, without what is asked
//	                 (resources, prompts, completions), or wanting a login
//	bad_request      the parameters are wrong
//	invalid_arguments  they break the tool's inputSchema; the call was not made.
//	                 data is {server, tool, problems: [{path, message}]}; paths
//	                 are in Python's spelling, arguments["labels"][0]
//	unknown_tool     the server has no such tool; the nearest are named
//	server_failed    it can't be started; the call was not made
//	timeout          no answer within the call's time limit
//	outcome_unknown  the server failed during the call, which may have had its effect
//	too_large        a request or an answer over the cap
//	upstream         a JSON-RPC error of the server's; data is {code, message, data}
//	busy             too much is under way, or a rule wants calls to be fewer; data
//	                 is {server, tool, rule} then
//	denied           a rule of the user forbids the call; data is {server, tool,
//	                 rule, reason?}
//
// # Arguments
//
// Arguments are checked against the tool's inputSchema before the call, unless
// [Setting].Validate says no. What a schema means is up to its $schema, drafts 4
// to 2020-12; formats are not asserted, nothing is fetched, and a schema that
// can't be used, or that takes too much work, keeps no call from being made.
//
// # Results
//
// From results that are no errors the catalogue learns what tools return, beside
// the calls and from fewer and fewer of them; see [discovery.Catalog.Learn]. A
// result that breaks its own outputSchema is delivered, logged once for each
// tool, and told in docs and status.
//
// # Limits
//
//	what                          default  set by
//	a server's message            32 MiB   Options.MaxMessage
//	a sandbox's request           16 MiB
//	requests of a session         256 at once, 1024 wait
//	a call                        120 s    Setting, the definition, Options.CallTimeout
//	questions during a call       30 min   (which its time limit leaves out)
//	a start                       30 s     Setting, the definition, Options.StartTimeout
//	a start by npx, uvx, docker   120 s    the same, Options.FirstStartTimeout
//	results to learn from         64 wait, 48 MiB; more are passed over
//	a list of tools               30 s, 200 pages, 10 000 tools, 64 MiB
//	a search                      15 s     Options.SearchWait
//	processes                     128      Options.MaxServers
//	processes of a definition     16       Setting.Max
//	calls of a process            256 at once, 4096 wait; Setting.Concurrency
//	idle time                     10 min   Setting.Idle, Options.IdleTimeout
//	time between pings            1 min    Setting.KeepAlive
//	an answer to a ping           30 s
//	pause after a failed start    1 s, doubling to 60 s
//	stderr that is kept           16 KiB
//	stop                          2 s to end of stdin, 3 s to SIGTERM
//
// # Concurrency
//
// Everything exported may be used from many goroutines. Each process has three
// goroutines for its streams, one that waits for its end, one that pings it, and
// one that cleans up; none of them ever waits for a caller. [Proxy.Close] returns when all of
// them, and all processes, are gone.
//
// # Tests
//
// The tests start themselves as a server that misbehaves as a test wants, see
// fakeConfig there.
package proxy
