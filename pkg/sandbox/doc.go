// Package sandbox runs Python in warm, hardened containers.
//
//	Pool ──Lease──▶ Sandbox ◀──runs code── Session
//	                  │ frames on the container's stdin and stdout
//	                  ▼
//	               harness (images/harness), the code, its RPC
//
// A [Sandbox] is one container with a live Python in it. A [Pool] keeps some
// warm, each attested before it may be leased. A [Session] leases one, runs
// code in it in order, and says so when it was lost. A sandbox serves one
// session and is never reused: it has run a stranger's code, and proving it
// clean costs more than a launch.
//
// # Idleness and room
//
// The pool knows its sessions. It pauses the container of one that is idle, and
// resumes it before anything uses it; it ends the sandbox of one that has been
// idle for long. When there are as many sandboxes as may be, by number or by the
// sum of their memory limits, a Lease ends that of the idle session unused for
// longest. What uses a sandbox holds its session ([Session.Use], Run), and such
// a session is never paused, ended or evicted. The next run tells of a loss.
//
// A container that somebody else has paused is resumed when a run that has just
// begun is silent, and when one does not react to its interrupt.
//
// # Start
//
// The container's command is a short Python program (images/harness/boot.py)
// that reads, from stdin, one line
//
//	bridged-boot NONCE LENGTH
//
// and LENGTH bytes of harness. What comes before that line is skipped, so
// bytes that an engine puts into the stream do no harm. The harness answers
// with a hello frame that holds NONCE; what comes before that is skipped too,
// within maxPreamble. The daemon compares the posture in it with the Spec,
// sends config, and waits for ready. Before anything else the harness puts a
// seccomp filter of its own on top of the engine's (images/harness/seccomp.py),
// and closes the container's first process to others of its user.
//
// # Output
//
// The wire carries what was written as it was. The daemon makes of it what a
// terminal shows in the end (see [Output]): bars in their last state, no
// colours, no control characters. Stdout and stderr are a terminal each, and a
// line that is drawn again moves to where that happens, so that prints between
// two states of a bar stay whole and in order. Those who follow a run are told
// what each piece replaces.
//
// What a run prints beyond its budget is cut: from then on the harness sends
// the last 32 KiB of each stream, once a second and at the end, and counts the
// rest. A tail begins at a line if it can, and never within a character or an
// escape sequence. What is more than an agent is shown, the harness keeps whole
// in $TMPDIR/bridged/run-N.txt, for the code to open: at most 64 MiB and half
// of the free space, in at most 4 files, the oldest removed first. A notice in
// the done frame names the file and the true size.
//
// # Files
//
// Code publishes a file: the harness announces it, and the daemon reads it in
// chunks whenever somebody wants it, also while code runs. The file stays in the
// sandbox and goes with it. Its address holds a handle that is the sandbox's
// alone and unguessable, so that no address ever names another's file. A chunk
// is taken only if it answers a read, is as long as was asked for and of the
// same state of the file as the first; so a file costs as many frames as it has
// chunks, and at most the bytes that the reader wanted.
//
// # Frames
//
// A frame is one JSON object on one line, ended by a newline. Neither side
// sends any other byte below 0x20, so no engine's detach keys can occur. A
// frame has at most maxFrame bytes in either direction, newline included. A
// line that is too long or no frame is skipped; after maxJunk of them the
// sandbox is killed. Every frame has a field "t", its type.
//
// From the daemon:
//
//	config     imports [name], output (bytes a run may print before only tails
//	           are sent), files (what the addresses of published files begin with),
//	           limit_memory (bytes), limit_pids (0: the engine does it)
//	run        run (number, rising from 1), code, servers [{name, alias}]
//	interrupt  run; one that is over is left alone, and one that has not begun
//	           yet begins interrupted
//	reply      id, and either result (any JSON) or error {code, message, data}
//	read       id (rising from 1), file (its number), offset, length (at most
//	           maxChunk)
//	ping       id
//
// From the harness:
//
//	hello      nonce, protocol (1), python (version), posture
//	ready      imports {name: seconds, or a text that says why not}
//	output     run (0: none), parts [[1 or 2, text]] (stdout or stderr, in the
//	           order written), cut (bytes left out before them), background
//	           (written by what an earlier run left running)
//	rich       run, mime, data (base64); 64 and 32 MiB of a run are kept
//	rpc        id (rising from 1), method, params; the methods are in pkg/proxy
//	cancel     id of an rpc whose answer is no longer wanted
//	file       run, file (a number from 1; the same for the same name), name, mime,
//	           size: a published file, also between runs
//	chunk      id of a read, and either data (base64; short only at the end), size
//	           and stamp (which changes with the file), or error {type, message}
//	done       run, status (ok, error, interrupted), value, error {type,
//	           message, traceback}, notices [text]; last frame of a run
//	pong       id
//	end        code or signal, oom (processes killed for memory), why (what
//	           broke the harness); last of all
//
// The files in testdata show whole exchanges; tests play them to both sides.
//
// The sandbox is hostile: it can forge any of these. A frame is only ever
// taken to speak of its own sandbox, its own run and its own calls.
package sandbox
