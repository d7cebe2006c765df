// Package memory keeps what outlives a sandbox: values that code saves under keys,
// and functions.
//
//	code -rpc frame-> bridge -> Session -> Space (global, or of a project) -> files
//
// A [Store] is a folder, and a [Space] in it a set of memories: one JSON file
// each, which a person can read, edit, commit and copy. A [Session] answers what
// code asks, and tells the sandbox what to show of the files.
//
// # Files
//
// A file holds an object:
//
//	{"key": "plan", "value": ..., "metadata": {}, "created": "2026-11-30T10:00:00.000000Z",
//	 "updated": "...", "version": 3}
//
// Other members are kept. Only value must be there: a key that is missing is that
// of the file's name, times are then the file's. The files of
// mcp-server-code-execution-mode, which have created_at and updated_at in
// seconds, are read as they are, and keep their names.
//
//	DIR/plan.json                     global memories
//	DIR/projects/app-1a2b3c4d5e6f/    those of a project, which .project names
//	DIR/.history/plan/0000000002.json an earlier version
//	DIR/.tmp/                         files that are being written
//	DIR/.lock                         held while something is written
//
// A file's name is its key, with all escaped that some system would change, hide
// or refuse, and its capitals marked, so that they may get lost. That of a long
// key is cut and ends in a digest.
//
// # Writing
//
// A write holds the space's lock, in this process and among all. The file before
// is copied into the history; the new one is written beside its place, synced,
// renamed into it, and the folder synced. Each of these steps leaves whole files,
// wherever a process is killed or the machine loses power, and what was
// acknowledged stays. Readers take no lock: they open one file or the other.
//
// An update is made with the stamp of what it was made from, and refused if the
// file has another by then; so no update is lost, not even one by hand. A file
// that is no memory is reported to who asks for its key, and never overwritten
// before [Space.Delete] or [Space.Restore] has put it into the history.
//
// # Methods
//
// All of them take scope: "global" (which "" is too), or "project"; list and search take "" as
// both. A memory is {key, metadata, created, updated, version, bytes}, with
// scope "project" where it is one's, and error in place of the rest for one that can't be read.
//
//	memory.save     key, value, metadata (null: as before), if (stamp), version
//	                -> {version, name, text} of the file
//	memory.load     key -> {found, if, memory with its value}
//	memory.list     prefix -> {memories, more}
//	memory.delete   key -> {deleted, name}
//	memory.search   query, limit -> {memories, with a snippet}
//	memory.history  key -> {versions [{version, updated, bytes, current}]}
//	memory.restore  key, version (null: the one before) -> as save, with value
//
// Saved functions are [Tools], a Python file each in the folder above. Their
// source is text here; a sandbox runs it. See [Tools.Call] for what code asks.
//
// A sandbox is told {files {path: text}, gone [path]}, for its folder of memories.
package memory
