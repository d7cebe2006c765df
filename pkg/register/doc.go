// Package register puts bridge-shim into the config files of agents, and takes
// it out again.
//
//	Registrar.Register or Unregister --> Change --Diff, then Apply--> file
//
// One table, clients, says where each agent keeps its MCP servers, in which
// syntax, and what an entry looks like there.
//
// # Editing
//
// A file's text is edited, never written anew from its values: comments, order,
// indentation, line ends, byte order mark and trailing commas stay. After each
// edit both texts are decoded, and unless they differ in the one entry alone the
// edit is refused. A file that cannot be parsed, or whose entries are written in
// a way that cannot be edited safely, is left alone and the error says so.
//
// # Taking over
//
// TakeOver also moves the agent's other servers to ~/MCPs, one by one: what would
// mean something else there stays, and the change's notes say why.
//
// # Writing
//
// A file is replaced atomically, with its mode and owner; where it is a symbolic
// link, the file that it leads to. It is read again right before, and left alone
// if anybody has changed it since the diff was made.
//
// # Going back
//
// What a file was before is kept in the state folder, beside a manifest. If the
// file still is what Register wrote, Unregister restores it byte for byte, or
// removes it if there was none. Otherwise it takes the entry out and keeps
// what others have changed.
//
// # Concurrency
//
// A [Registrar] is for one goroutine. Two processes that register at the same
// time may lose one's line in the manifest; Unregister then takes the entry out
// instead of restoring the file.
package register
