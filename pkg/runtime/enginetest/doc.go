// Package enginetest holds engines to one behaviour, and is one itself.
//
// [Test] is the behaviour suite: every [runtime.Engine], real or not, passes
// it. [TestHardening] is for real engines only; it looks at the hardening from
// inside a container.
//
// [NewMemory] makes a working engine without containers. Its "containers" are
// processes of this machine or plain Go functions, it breaks on request, and
// it counts what it made. Packages above pkg/runtime test against it:
//
//	e := enginetest.NewMemory(t, enginetest.Options{Run: fakeHarness})
//	pool := sandbox.NewPool(e, ...)
//	e.Fail("create", 3, nil)   // the next three creates fail
//	e.SetUnreachable(true)     // the engine's socket is gone
//	e.End(id, runtime.Exit{Code: 137, OOM: true})
//
// With Options.Run set an engine uses no process, socket or real clock, so it
// works inside a testing/synctest bubble. The engine's cleanup kills and waits
// for everything that it started.
package enginetest
