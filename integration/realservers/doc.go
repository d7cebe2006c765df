//go:build integration

// Package realservers has the list of real MCP servers that benchmarks run
// against. It installs those of servers.json from npm and PyPI, at the versions
// named there, starts them and lists their tools. Their programs and texts are
// other people's: nothing of them is in the repository.
package realservers
