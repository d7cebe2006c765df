// Package commandline reads the command lines of container tools.
//
// Agents' configs start MCP servers with lines such as
//
//	docker run -i --rm -e TOKEN --mount type=bind,src=/home/me,dst=/data mcp/server
//
// [Parse] makes a [runtime.ServerSpec] of one, and nothing is started: whoever
// has the spec makes the container over the engine's socket. The tools that it
// knows are Docker's, Podman's and nerdctl's, which take the same flags for
// what a server needs. What a flag can't be given is never left out in silence:
// all such flags of a line are named in one error. Those that change nothing
// for a server are left out, with a note where somebody may wonder.
//
// Flags and their values are parsed with the libraries that the tools use.
package commandline
