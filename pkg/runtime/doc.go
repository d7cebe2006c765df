// Package runtime runs sandboxes in a container engine.
//
// An [Engine] is a container engine behind its REST socket; the packages
// podman and docker beside this one each implement it, and each is the only
// importer of its engine's client library. A [Spec] says how a container is
// made; the hardening in it is the same on every engine and can't be left out.
//
// Nothing here, and nothing in the product, runs a container CLI.
package runtime
