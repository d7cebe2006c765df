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
// # An engine that goes away
//
// The engine may end a stream and let the container live: Podman does when its
// service is restarted. A session then reaches its sandbox again by
// [PoolOptions].Rejoin, as long as the harness waits for somebody, and takes up
// the run under way. While an engine hangs nothing can be stopped or killed; a
// run whose time is up is answered then, and stopped when the engine is back.
//
// # Start
//
// The container's command is a short Python program (images/harness/boot.py)
// that reads, from stdin, one line
//
//	bridged-boot NONCE LENGTH [DOOR LOCK USER]
//
// and LENGTH bytes of harness. The three words are there if another daemon may
// come in later, see below. What comes before that line is skipped, so
// bytes that an engine puts into the stream do no harm. The harness answers
// with a hello frame that holds NONCE; what comes before that is skipped too,
// within maxPreamble. The daemon compares the posture in it with the Spec,
// sends config, and waits for ready. Before anything else the harness puts a
// seccomp filter of its own on top of the engine's (images/harness/seccomp.py),
// and closes the container's first process to others of its user.
//
// # Adoption
//
// A sandbox that was launched with [Options].Grace outlives its daemon, and
// another one may [Adopt] it with its [Ticket]. The harness keeps what it sent
// of each run until the daemon says that the result arrived (acked), within
// bounds: 512 KiB at each end of a run's output, 8 runs, 48 MiB. It listens on a
// socket of the abstract namespace, DOOR. A new daemon runs a relay there
// (images/harness/relay.py) in an exec session, as a user that the code is not,
// USER, which the kernel tells the harness; and sends the line
//
//	bridged-relay DOOR SECRET NONCE
//
// LOCK is the SECRET's SHA-256 in hexadecimal digits. The relay hands its stdin
// and stdout over, which are the stream from then on, and the old one is neither
// read nor written. The harness begins with adopted, or says refused and closes.
// After adopted come the records, oldest first, each with again before it if it
// is a run's; then current; then the requests that have no answer, again true
// if they were sent before; then what is new. A run with a key that the harness
// knows is not run again.
//
// A daemon that lets go says leave, is sent left, and hears nothing more; it
// still answers what it was asked. A harness that hears from no daemon for the
// grace ends itself. So the daemon sends ping, five times in a grace.
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
// escape sequence. What may be more than an agent is shown, a byte for each token
// of the run's budget, the harness keeps whole in $TMPDIR/bridged/run-N.txt, for
// the code to open: at most 64 MiB and half of the free space, in at most 4
// files, the oldest removed first. The done frame names the file and the true
// size.
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
//	           projects (the folder for copies of the user's files; none is /projects),
//	           limit_memory (bytes), limit_pids (0: the engine does it),
//	           grace (seconds to wait for another daemon; 0: none)
//	run        run (number, rising from 1), code, servers [{name, alias}], told
//	           {what: any JSON}: what else the harness should know by now,
//	           tokens (what values should be shown in at most, about), data
//	           (true: the value is wanted as JSON too), key (a name of the run
//	           for good), acked (results up to this run have arrived)
//	interrupt  run; one that is over is left alone, and one that has not begun
//	           yet begins interrupted
//	reply      id, and either result (any JSON) or error {code, message, data}
//	read       id (rising from 1), file (its number), offset, length (at most
//	           maxChunk)
//	ping       acked, or id for an answer
//	leave      this daemon goes, and the sandbox should live on
//
// From the harness:
//
//	hello      nonce, protocol (1), python (version), posture
//	ready      imports {name: seconds, or a text that says why not}
//	output     run (0: none), parts [[1 or 2, text]] (stdout or stderr, in the
//	           order written), cut (bytes left out before them), background
//	           (written by what an earlier run left running)
//	rich       run, mime, data (base64); 64 and 32 MiB of a run are kept
//	rpc        id (rising from 1), method, params; the methods are in pkg/proxy and
//	           pkg/memory; again (true: an earlier daemon was sent it)
//	cancel     id of an rpc whose answer is no longer wanted; when it has ended
//	           there is a reply all the same, with the error canceled
//	file       run, file (a number from 1; the same for the same name), name, mime,
//	           size: a published file, also between runs
//	chunk      id of a read, and either data (base64; short only at the end), size
//	           and stamp (which changes with the file), or error {type, message}
//	done       run, status (ok, error, interrupted), value, json (the value, as a
//	           text, if run had data and the value has that form and is small),
//	           whole (an expression that gives the value again), error {type,
//	           message, traceback}, kept (a sentence: where all of the output is),
//	           notices [text]; last frame of a run
//	pong       id
//	left       the answer to leave: nothing more is sent
//	adopted    nonce, run (the newest number), keys [text], files [{file, name,
//	           mime, size}]: the first frame for a daemon that has come in
//	refused    why: it may not come in
//	again      run, key, age (seconds since it began), lost (its frames were too
//	           many to keep): the frames that follow, up to its done, are this run's
//	current    all that was sent before has been told
//	end        code or signal, oom (processes killed for memory), why (what
//	           broke the harness); last of all
//
// The files in testdata show whole exchanges; tests play them to both sides.
//
// The sandbox is hostile: it can forge any of these. A frame is only ever
// taken to speak of its own sandbox, its own run and its own calls.
package sandbox
