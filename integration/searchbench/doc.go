//go:build integration

// Command searchbench measures how well the search over tools finds the right
// one. It lists the tools of the real MCP servers of package realservers, asks
// for them with the queries of queries.tsv and heldout.tsv, and prints how often
// the right tool is found, beside simpler ways of searching.
//
// Run it with `make bench-search`. See docs/search.md.
package main
