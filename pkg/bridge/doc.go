// Package bridge is the agent's side: an MCP server with one tool, run_python.
//
// A [Server] accepts connections of shims on a unix socket made by [Listen].
// Each connection is one session. It has a default Python session and others
// that its calls name, each with a [Workspace] of its own, which runs the code;
// an [Opener] makes it. Nothing is shared between connections.
//
//	agent -stdio-> bridge-shim -unix socket-> session -> Workspace
//
// # The wire between shim and daemon
//
// The socket is a stream of lines that end in \n. It opens with one line each
// way, the shim's first:
//
//	{"bridged":1,"version":"0.1.0","pid":4711,"cwd":"/home/ann/project",
//	 "env":{"HOME":"/home/ann",...},"omitted":["HUGE"],"session":"kY3...",
//	 "link":2,"resent":[{"id":7,"link":1,"line":12}]}
//	{"bridged":1,"version":"0.1.0","session":"kY3...","resumes":true}
//
// where
//
//   - bridged is the version of this wire. A daemon that does not speak the
//     shim's answers with an error that names both.
//   - version is the release, for people.
//   - pid and cwd are the shim's; cwd is absolute. Project configurations are
//     looked up from there.
//   - env is the shim's whole environment, at most 1 MiB of names and values
//     ([MaxEnv]); omitted names the variables that were left out to keep to it.
//   - session in the daemon's line is an unguessable name. A shim that lost its
//     daemon sends it in its next hello. A daemon that does not know the session
//     opens a new one, and its first result tells the agent that its variables
//     are gone. What the agent's client can be asked it learns from the client's
//     own initialize, which the shim sends once more, under an id of its own.
//   - link counts the shim's connections from 1. A shim that goes to no other
//     daemon by itself has none.
//   - resent names the requests that another daemon had and did not answer, each
//     with the connection and the line in which it was sent first; the line after
//     the hello is 1. Together with the session's name that names a request for
//     good, also where an agent uses an id twice. If the daemon says that it
//     resumes, the shim sends them again, before anything new and in their order.
//     Else it answers them itself.
//
// A daemon that refuses answers {"bridged":1,"error":"..."} and hangs up. A
// hello line is at most 2 MiB ([MaxHello]) and must arrive within 10 s; the
// answer is at most 64 KiB. The peer is the same user: the daemon checks the
// peer's uid and the shim the socket's owner.
//
// After that both ways are newline-delimited MCP JSON-RPC, which the shim copies
// untouched, but for one notification that is its own: a daemon that ends with all
// its sessions says notifications/bridged/end, and the shim looks for another one
// only when its agent wants something. Any other end of a daemon has the shim look
// for the next at once, and start one if none comes, for 40 s at most.
//
// A message to the daemon is at most 16 MiB ([Options.MaxMessage]); a longer one
// is answered with an error and skipped, and the connection lives.
// Either side may half-close: when the shim's side ends, the session answers
// what it can within a second, cancels the rest and closes.
//
// # Requests
//
// Ids never pass through a number: a request's id is kept as the bytes that
// came and echoed as such, so 9007199254740993, "7" and 7 are three ids.
// initialize and ping are answered in order; other requests run side by side, at
// most [Options.MaxRequests] of them, past which the answer is an error that says
// busy. A message with a fault is answered with its id if one can be found.
// notifications/cancelled ends a request, which is then not answered.
//
// # Calls of run_python
//
// A call takes its place in the lane of its Python session in the order in which
// it was read, and waits there for its turn; lanes run side by side. A run that
// outlives its call's patience ([Options.YieldAfter]) keeps the lane until it
// ends, and its result until a call with empty code collects it. At most
// [Options.MaxPythons] sessions are kept; past that one that has nothing to lose
// makes room for a new name, or the name is refused.
//
// # Questions to the agent
//
// What runs in a Python session may ask the agent's client something
// ([Agent.Ask]): a completion by its model, or a question to the user. A client
// that has initialized is asked by a request over its connection, whose id
// begins with the connection's name; when the run ends first, the request is
// cancelled. A client of the protocol without initialize is asked in the answer
// to its call: resultType is input_required, and the call that it makes again,
// with the same requestState, brings the answers and waits for the same run,
// which has never stopped. What a client did not say that it offers is not asked
// of it. At most 16 questions of a connection are open, each for ten minutes.
//
// # What code asks
//
// The requests of a session's code are answered by [Methods]: each by the one
// that its method is named for, and all others by the session's MCP servers.
//
// # Files
//
// What code publishes is a resource of its connection's server, and of no
// other's: a result links to it, resources/list names it, and resources/read
// copies it out of the sandbox, at most 16 MiB, at most four files at once in
// the daemon. A [Keeper] gets each file when the run that published it is over.
// Clients hear of changes: with notifications/resources/list_changed after an
// initialize, and else on the subscriptions that asked for it.
//
// # Another daemon
//
// With a [Registry] a session outlives the daemon. A run has the name of its
// request (see resent above), and its sandbox runs no name twice: so a request
// that comes again gets the run's result, or is run if it had not begun. The
// result is acknowledged ([Workspace].Ack) when its answer has been written. A
// call whose sandbox is gone is answered with what is lost, and never run again. A
// run that no call asks for again, as that was answered before its end, is
// collected like any that outlived its call. [ErrLeave] ends Serve without an end
// of its sessions: what is not answered then is left to the next daemon.
//
// [HandOver] gives the listeners to another process.
//
// # A client that does not read
//
// Answers wait in a bounded queue; progress is dropped when the queue is not
// empty enough. A client that reads nothing for two minutes is hung up on.
// Code that runs never waits for a client.
//
// # Concurrency
//
// A [Server] may be used from several goroutines. Serve returns when all its
// sessions are closed and their goroutines have ended.
package bridge
