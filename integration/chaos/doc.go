//go:build integration

// Package chaos plays agents whose every answer is known, while everything that
// they depend on is killed, paused and filled up.
//
// A plan made from a seed says what goes wrong, to whom and for how long; the
// same seed gives the same plan. Agents are real shims that speak with a real
// daemon on a real engine; they go on calling meanwhile. Each call changes a
// number in the session in a way that tells which calls ran, how often and in
// which order ([model]). After each fault all agents must get answers again.
//
// A session may be lost only to a fault that may take it (see faults), and the
// agent must have been told. In the end no container, process, socket, file
// descriptor or goroutine may be left.
//
//	make chaos MINUTES=30 SEED=7 ENGINE=docker
//	make soak MINUTES=60
package chaos
