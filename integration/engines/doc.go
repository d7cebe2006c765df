//go:build integration

// Package engines starts real container engines for tests, on private sockets
// with private storage, and stops exactly what it started.
//
//	e := engines.ForTest(t, engines.Rootful)
//	e.Engine   // a runtime.Engine
//	e.Image    // a small image with Python, which the engine holds
//
// There are four, all on one Debian 12 machine: its own Podman as an ordinary
// user and as root, its own Docker, and a newer Podman from a Debian 13 root
// folder. integration/setup.sh installs them; one that is missing is a failure
// and never a skip.
//
// An engine has one storage folder, so it runs once at a time: Start waits for
// another test process that has it. BRIDGED_TEST_INSTANCE=name gives a
// developer engines and storage of their own. Storage stays in the cache
// folder, so that only the first run imports the image. What an earlier run
// left behind, because it was killed, is stopped and removed by the next.
//
// As an ordinary user everything is started with sudo.
package engines
