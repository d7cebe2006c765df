// Package audit keeps a log of what agents ran and called, in which a line that
// was removed, reordered or edited shows.
//
//	Log.Record --queue--> writer --> audit-000001.jsonl, audit-000002.jsonl, ...
//	                                 head
//	Verify, Read, Follow <---------- the same folder, any process
//
// A [Log] takes an [Entry] for each run and each proxied call, which costs its
// caller one send on a channel; one goroutine encodes and writes. [Read],
// [Follow] and [Verify] read the folder, also while a daemon writes there.
//
// # The folder
//
//	audit-000001.jsonl   the log, one JSON object a line; the highest number is
//	                     the one that is written
//	head                 the last line that reached the disk: file, seq and hash
//	key                  32 random bytes, which key the digests
//	lock                 held by the process that writes
//	torn-000001-...      half a line that a crash left, out of the chain
//
// All of it is the user's alone, 0600 in a folder of 0700.
//
// # The chain
//
// A line ends with "prev" and "hash". prev is the hash of the line before, in
// the file before for a file's first line, and zeros for the first line of all.
// hash is the SHA-256 of the line's bytes up to `,"hash":`, prev included. seq
// counts lines over all files. So each line's hash stands for all lines before.
//
// The chain has no secret: whoever may write the folder can make a new chain
// that holds. What [Verify] finds is change by somebody who did not take that
// care, and, given the seq and hash of a line that was kept elsewhere (see
// `bridged audit head`), any change at or before that line. Lines after the last
// one that the head file names, those of the last moments before a crash, can be
// cut off without a trace.
//
// # Digests
//
// In place of arguments and code a line may have their HMAC-SHA-256 under the
// folder's key, arguments as JSON with sorted keys and without spaces. Equal ones
// have equal digests, whatever the file, and whoever gets the log without the
// key can't find out short arguments by trying.
//
// # When the disk fails
//
// Lines that can't be written wait in the queue and are tried again. Past the
// queue's bounds [Options.Refuse] decides: entries are dropped, counted, and
// stand as one line of the kind gap once writing works again; or [Log.Admit]
// refuses what would need a line. A process that is killed leaves no line for
// what was under way, nor for what was recorded a moment before (see writePause),
// and may leave half a line, which the next start puts aside.
package audit
