// Package toon holds pkg/toon to the examples of the specification and to the
// reference implementation. It has tests alone, with the build tag integration,
// and needs what install.sh installs.
package toon
