package main

// A kind is one thing that doctor can find. docs/doctor.md lists the same.
type kind struct {
	code    string // its check, and what is wrong
	level   string
	meaning string
}

var kinds = []kind{
	{"doctor.broken", levelError, "a check itself has failed, which is a fault of bridged's"},
	{"doctor.timeout", levelError, "a check did not end in time: something that it asks hangs"},

	{"config.invalid", levelError, "the configuration file or a variable has a value, a key or a line that can't be used; the daemon does not start with it"},
	{"config.home", levelError, "there is no place for the state folder: neither `HOME` nor `XDG_STATE_HOME` is set"},
	{"config.open", levelError, "somebody else may change the configuration file, and so have programs run as you"},
	{"config.variable", levelWarning, "a variable that begins with `MCP_BRIDGE_` is no setting"},
	{"config.mount", levelError, "a file or folder of `mounts` can't be shown to sandboxes; the daemon does not start with it"},
	{"config.unreadable", levelWarning, "a file or folder of `mounts` can't be read by the sandboxes' user"},

	{"engine.choice", levelError, "the choice of an engine (`engine.runtime`, `MCP_BRIDGE_RUNTIME`) is none"},
	{"engine.none", levelError, "no engine answers at any place; each is listed with the reason"},
	{"engine.missing", levelError, "the engine that was chosen does not answer, and no other is used in its place"},
	{"engine.hung", levelError, "something accepts connections at an engine's socket and does not answer; a warning if another engine is used"},
	{"engine.denied", levelError, "you may not use an engine's socket; a warning if another engine is used"},
	{"engine.old", levelError, "an engine speaks too old an API; a warning if another engine is used"},
	{"engine.broken", levelError, "what is at an engine's place is no socket, or no engine answers on it; a warning if another engine is used"},
	{"engine.open", levelError, "everybody on the machine may use the engine's socket, which is as good as being its user"},
	{"engine.exposed", levelWarning, "the engine is reached over a network without encryption"},

	{"rootless.runtimedir", levelWarning, "`XDG_RUNTIME_DIR` is not set, is not there, is somebody else's or is open to others"},
	{"rootless.linger", levelWarning, "the units are installed, and systemd ends your services with your last login"},
	{"rootless.ids", levelError, "`/etc/subuid` or `/etc/subgid` gives you too few ids"},
	{"rootless.mapper", levelError, "`newuidmap` or `newgidmap` is missing, or may not map ids"},
	{"rootless.namespaces", levelError, "the kernel's settings forbid user namespaces"},
	{"rootless.apparmor", levelWarning, "AppArmor allows user namespaces to some programs only, and no engine answers"},
	{"rootless.storage", levelWarning, "the engine stores images with `vfs`, which copies the image for each sandbox"},

	{"cgroups.v1", levelWarning, "the engine sets no limit of memory or processes, since it runs without root on cgroups v1; rlimits take their place"},
	{"cgroups.delegation", levelWarning, "the engine sets no limit of memory or processes, since it was handed no controller for it; rlimits take their place"},
	{"cgroups.cpu", levelWarning, "the engine can't limit the cores that a sandbox uses"},
	{"cgroups.swap", levelWarning, "a sandbox may use swap beyond its memory limit"},
	{"cgroups.writable", levelWarning, "only file modes keep code from changing its own limits"},
	{"cgroups.room", levelError, "`sandbox.memory` is more than `pool.memory` allows all sandboxes together"},

	{"seccomp.kernel", levelError, "the kernel can't filter system calls"},
	{"seccomp.engine", levelError, "the engine puts no filter of system calls on containers"},
	{"seccomp.own", levelWarning, "a sandbox can't put its own filter on top of the engine's"},

	{"image.missing", levelError, "the engine does not have the sandbox image"},
	{"image.unknown", levelError, "the engine can't be asked for the image"},
	{"image.old", levelWarning, "the image is more than 180 days old, and so are its packages"},
	{"image.stale", levelWarning, "the image is more than 30 days older than this program, whose recipe for it may be newer"},
	{"image.foreign", levelWarning, "an image of a local name was not made by bridged: it has no label `io.bridged.image`"},

	{"sandbox.failed", levelError, "no sandbox could be made; the engine's words are in the text"},
	{"sandbox.refused", levelError, "a sandbox was made that is less closed than it must be, and would not be used"},
	{"sandbox.slow", levelError, "no sandbox was ready in time"},
	{"sandbox.weaker", levelWarning, "a sandbox is less closed than on most machines, and is used all the same"},
	{"sandbox.left", levelWarning, "the engine did not remove the sandbox that was made to look at it"},

	{"disk.full", levelError, "a folder has too little room to work"},
	{"disk.low", levelWarning, "a folder has little room left"},
	{"disk.inodes", levelError, "a disk has room for few more files, however small"},
	{"disk.readonly", levelError, "a folder that is written to is on a disk that is mounted read-only"},
	{"disk.denied", levelError, "you may not write to a folder that is yours to write to"},
	{"disk.unknown", levelWarning, "a folder can't be looked at"},

	{"clock.wrong", levelError, "the clock shows a time before this program was written"},
	{"clock.jump", levelWarning, "the clock was set while it was looked at"},
	{"clock.future", levelWarning, "a file of ours is newer than now: the clock was ahead, or is behind"},
	{"clock.skew", levelWarning, "the engine's clock is more than 5 seconds from ours"},
	{"clock.zone", levelWarning, "`TZ` or `/etc/localtime` names a time zone that is not there"},

	{"servers.definition", levelWarning, "a file of an agent's, or an entry in it, can't be read"},
	{"servers.unusable", levelError, "a server's definition can't work: a variable is missing, its URL is none, its folder is not there, ..."},
	{"servers.program", levelError, "a server's program is not found"},
	{"servers.failed", levelError, "a server does not work (with `--servers`)"},
	{"servers.secret", levelError, "the file or program that a value of a `[[server]]` table comes from can't be used"},
	{"servers.exposed", levelWarning, "others may read the file that a secret comes from"},
	{"servers.held", levelNote, "a server of the project's own files waits until you approve it"},
	{"servers.unmatched", levelNote, "a `[[server]]` table is for no server that is defined here"},

	{"agents.shim", levelError, "there is no bridge-shim beside this program or on `PATH`"},
	{"agents.none", levelNote, "bridge-shim is registered with no agent"},
	{"agents.unreadable", levelWarning, "an agent's file can't be read"},
	{"agents.gone", levelError, "an agent starts a bridge-shim that is not there or not executable"},
	{"agents.other", levelWarning, "an agent starts another build of bridge-shim than the one beside this program"},
	{"agents.twice", levelWarning, "an agent starts bridge-shim more than once"},
	{"agents.duplicates", levelWarning, "an agent loads servers itself that bridged reaches too, and that can be moved"},

	{"sockets.path", levelError, "the socket's path is relative or too long"},
	{"sockets.owner", levelError, "a path of ours belongs to somebody else"},
	{"sockets.kind", levelError, "something else is where a socket, a file or a folder of ours belongs"},
	{"sockets.writable", levelError, "others may write to a path of ours"},
	{"sockets.readable", levelWarning, "others may read or use a path of ours that is private"},
	{"sockets.unknown", levelWarning, "a path of ours can't be looked at"},

	{"daemon.hung", levelError, "the daemon accepts connections and does not answer"},
	{"daemon.notready", levelError, "the daemon runs and can't start sessions"},
	{"daemon.version", levelWarning, "the daemon is of another version than this program"},
	{"daemon.environment", levelWarning, "the daemon was started with other settings in its environment than this shell has"},
	{"daemon.audit", levelError, "the daemon can't write its audit log"},
	{"daemon.approvals", levelNote, "calls wait for your approval"},
	{"daemon.failed", levelError, "systemd has given up on the daemon"},
	{"daemon.unused", levelWarning, "the units are installed, and systemd does not listen"},
	{"daemon.gone", levelError, "the unit starts a program that is not there"},
	{"daemon.other", levelWarning, "the unit starts another build than this program"},
	{"daemon.outdated", levelWarning, "the units are of another version, or were changed"},
	{"daemon.reload", levelWarning, "systemd has not read the units since they were changed"},

	{"state.socket", levelWarning, "a socket was left by a daemon that was killed"},
	{"state.damaged", levelError, "a file of the state folder can't be read"},
	{"state.sandbox", levelWarning, "a sandbox of an earlier `bridged doctor` that was killed is still there"},
	{"state.orphans", levelNote, "containers of a daemon that no longer runs are there; the next one takes care of them"},
	{"state.unknown", levelWarning, "the engine can't list containers"},
}
