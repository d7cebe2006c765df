package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"syscall"
)

// ownerOf is the user that a file belongs to, -1 if the system does not say.
func ownerOf(info fs.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}

// What a path of ours is to be.
const (
	aFolder = iota
	aSocket
	aFile
)

// A pathFacts is one path of ours.
type pathFacts struct {
	what    string // for people
	path    string
	want    int
	private bool // others must not even read it

	there bool
	mode  fs.FileMode // type bits included
	owner int
	err   error
}

func checkSockets(_ context.Context, p *patient) outcome {
	if p.pathsErr != nil {
		return outcome{skipped: noFolders}
	}
	list := p.ownPaths()
	for i := range list {
		list[i].look()
	}
	o := judgePaths(list, p.uid)
	o.findings = append(judgeSocketPath(p.paths.socket), o.findings...)
	return o
}

// ownPaths are what the daemon makes and trusts.
func (p *patient) ownPaths() []pathFacts {
	state := func(name string) string { return filepath.Join(p.paths.state, name) }
	return []pathFacts{
		{what: "the sockets' folder", path: filepath.Dir(p.paths.socket), want: aFolder},
		{what: "the agents' socket", path: p.paths.socket, want: aSocket, private: true},
		{what: "the operator's socket", path: p.paths.ops, want: aSocket, private: true},
		{what: "the state folder", path: p.paths.state, want: aFolder, private: true},
		{what: "the folder of logins", path: p.paths.tokens(), want: aFolder, private: true},
		{what: "the list of approved servers", path: p.paths.trustPath(), want: aFile, private: true},
		{what: "the daemon's identity", path: state("instance-" + p.paths.mark()), want: aFile},
		{what: "the pins of tools", path: state("pins-" + p.paths.mark() + ".json"), want: aFile},
		{what: "the backups of agents' files", path: state("register"), want: aFolder, private: true},
		{what: "the audit log", path: p.paths.audit, want: aFolder, private: true},
		{what: "the token of the operations' port", path: p.conf.tokenFile(p.paths), want: aFile, private: true},
		{what: "the memories and saved tools", path: p.paths.kept, want: aFolder},
	}
}

func (f *pathFacts) look() {
	info, err := os.Lstat(f.path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && f.want != aSocket {
		info, err = os.Stat(f.path) // a folder may be elsewhere
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if f.err = err; err == nil {
		f.there, f.mode, f.owner = true, info.Mode(), ownerOf(info)
	}
}

func judgePaths(list []pathFacts, me int) outcome {
	there := 0
	var o outcome
	for _, f := range list {
		if f.there {
			there++
		}
		o.findings = append(o.findings, f.judge(me)...)
	}
	o.summary = fmt.Sprintf("%d of our %d sockets, files and folders are there", there, len(list))
	return o
}

func (f pathFacts) judge(me int) []finding {
	perm := f.mode.Perm()
	right := perm &^ 0o022
	if f.private {
		right = perm &^ 0o077
	}
	name := f.what + " (" + f.path + ")"
	chmod := shellLine("chmod", fmt.Sprintf("%o", right), f.path)
	repaired := repair{deed: repairMode, path: f.path, mode: right}
	switch {
	case f.err != nil:
		return []finding{found("sockets.unknown", f.path, fmt.Sprintf("%s can't be looked at: %v", name, f.err), shellLine("ls", "-ld", filepath.Dir(f.path), f.path))}
	case !f.there:
		return nil
	case !f.isWanted():
		return []finding{found("sockets.kind", f.path, fmt.Sprintf("%s is something else than it should be (%s)", name, f.mode), shellLine("mv", f.path, f.path+".old"))}
	case f.owner != me:
		return []finding{found("sockets.owner", f.path, fmt.Sprintf("%s belongs to uid %d and not to you (%d), as after a start with sudo", name, f.owner, me), shellLine("sudo", "chown", "-R", fmt.Sprint(me), f.path))}
	case perm&0o022 != 0:
		return []finding{found("sockets.writable", f.path, fmt.Sprintf("others may write to %s (mode %04o)", name, perm), chmod).with(repaired)}
	case f.private && perm&0o077 != 0:
		return []finding{found("sockets.readable", f.path, fmt.Sprintf("others may read or use %s (mode %04o)", name, perm), chmod).with(repaired)}
	}
	return nil
}

func (f pathFacts) isWanted() bool {
	switch f.want {
	case aFolder:
		return f.mode.IsDir()
	case aSocket:
		return f.mode.Type() == fs.ModeSocket
	}
	return f.mode.IsRegular()
}

// judgeSocketPath looks at the path itself.
func judgeSocketPath(path string) []finding {
	limit := 107 // what fits in a sockaddr_un, see unix(7)
	if goruntime.GOOS == "darwin" {
		limit = 103
	}
	switch {
	case !filepath.IsAbs(path):
		return []finding{found("sockets.path", path, fmt.Sprintf("BRIDGED_SOCKET is %q, and must be an absolute path", path), "unset BRIDGED_SOCKET")}
	case len(path) > limit:
		return []finding{found("sockets.path", path, fmt.Sprintf("the socket's path %s has %d bytes, and the system allows %d", path, len(path), limit), "export BRIDGED_SOCKET=/tmp/bridged-$(id -u)/mcp.sock")}
	}
	return nil
}
