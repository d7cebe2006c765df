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
//	 "env":{"HOME":"/home/ann",...},"omitted":["HUGE"],"session":"..."}
//	{"bridged":1,"version":"0.1.0","session":"kY3..."}
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
//     are gone.
//
// A daemon that refuses answers {"bridged":1,"error":"..."} and hangs up. A
// hello line is at most 2 MiB ([MaxHello]) and must arrive within 10 s; the
// answer is at most 64 KiB. The peer is the same user: the daemon checks the
// peer's uid and the shim the socket's owner.
//
// After that both ways are newline-delimited MCP JSON-RPC, which the shim copies
// untouched. A message to the daemon is at most 16 MiB ([Options.MaxMessage]);
// a longer one is answered with an error and skipped, and the connection lives.
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
// # Files
//
// What code publishes is a resource of its connection's server, and of no
// other's: a result links to it, resources/list names it, and resources/read
// copies it out of the sandbox, at most 16 MiB, at most four files at once in
// the daemon. A [Keeper] gets each file when the run that published it is over.
// Clients hear of changes: with notifications/resources/list_changed after an
// initialize, and else on the subscriptions that asked for it.
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
