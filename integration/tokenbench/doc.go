//go:build integration

// Command tokenbench measures what MCP servers cost a model in tokens: their
// lists of tools in its context, as agents have them today, beside the one tool
// of ours and a session in which an agent finds a tool, reads its docs and calls
// it. The servers are the real ones of package realservers, the session runs
// through the daemon on a real engine.
//
// Run it with `make bench-tokens`. See docs/tokens.md.
package main
