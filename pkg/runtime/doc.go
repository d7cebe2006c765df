// Package runtime runs sandboxes, and MCP servers, in a container engine.
//
// An [Engine] is a container engine behind its REST socket; the packages
// podman and docker beside this one each implement it, and each is the only
// importer of its engine's client library. A [Spec] says how a container is
// made; the hardening in it is the same on every engine and can't be left out.
// A [ServerSpec] is the same for an MCP server that a definition runs in a
// container: it grants what the definition asks for.
// [Candidates] and [Detect] find the engine that a user has.
//
//	spec -> Create -> Attach -> Start -> Stream ... Wait -> Remove
//	                     \_ before Start, so that nothing is lost
//
// # Streams
//
// A [Stream] is the container's stdin and stdout, byte for byte: no terminal,
// no detach keys, no log. Both engines send stdout and stderr in one framing,
// which [NewStream] takes apart inside Read, so a Stream has no goroutine and
// a slow reader stops the container and nobody else. Somebody must always be
// reading: stderr travels on the same connection.
//
// The engines differ in what a second client of a sandbox finds. On Docker its
// stdin stays open until the container ends. On Podman the end of the first
// client's stream, or its half-close, ends stdin for good. [Info] says which
// it is. A server's container is always of the second kind.
//
// # Lifetime
//
// Containers outlive their engine's service, our connection to it, and this
// process; labels are how they are found again. An Engine keeps no state but
// idle connections: one whose service was restarted goes on working, and until
// then every call fails with [ErrUnreachable].
//
// # Limits that an engine can't set
//
// A rootless engine on cgroups v1 takes memory, pids and CPU limits and does
// not enforce them; Create and Start succeed all the same. What holds is for
// the caller to look at from inside.
//
// # Tests
//
// Package enginetest has the behaviour suite that every engine passes, and an
// engine without containers that passes it too and serves tests of the
// packages above.
//
// Nothing here, and nothing in the product, runs a container CLI.
package runtime
