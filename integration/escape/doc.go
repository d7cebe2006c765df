//go:build integration

// Package escape attacks real sandboxes with hostile Python and counts what
// gets through: nothing may.
//
//	report, err := escape.Assault(ctx, engine)        // all that there is to know
//	attempts, successes, err := escape.Run(ctx, engine) // the two numbers
//
// There are two kinds of attempts. Those of attempts/*.py try to get out, or at
// what is outside: each runs in a process of its own inside one sandbox, and
// succeeds only if it really has something that it should not have. A refusal is
// a failure of it, whatever its errno; one that is not denied at once counts as
// a success.
//
// Those of assaults.go attack what is at the other end of the stream, the
// machine's resources and the neighbours: forged and absurd frames, calls of
// servers that were not loaded, floods and bombs. Each has a session of its own,
// beside a witness: another session whose variables, calls and answers have to
// be right all the time. An assault succeeds if it has an effect outside its
// session, such as a file that a server wrote, if the witness notices it, or if
// the daemon keeps goroutines, memory or containers.
//
// The daemon is in this process: the pool, the sessions and the proxy that
// `bridged serve` puts together, on a real engine and a real MCP server. So its
// goroutines and its memory can be looked at.
package escape
