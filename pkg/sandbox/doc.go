// Package sandbox runs Python in warm containers.
package sandbox
