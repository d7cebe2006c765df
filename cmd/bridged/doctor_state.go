package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
)

// youngSandbox is the age below which a sandbox of a doctor's may still be in
// the hands of that doctor.
const youngSandbox = 3 * time.Minute

// stateFacts are what was left behind.
type stateFacts struct {
	stale      []string         // sockets that nobody listens on
	damaged    map[string]error // files that can't be read, by path
	left       []runtime.Container
	orphans    int  // sandboxes of this instance
	daemon     bool // one runs, whose the orphans are
	containers bool // the engine was asked
	listErr    error
	now        time.Time
}

func checkState(ctx context.Context, p *patient) outcome {
	if p.pathsErr != nil {
		return outcome{skipped: noFolders}
	}
	f := stateFacts{damaged: map[string]error{}, now: time.Now()}
	for _, socket := range []string{p.paths.socket, p.paths.ops} {
		switch listening(ctx, socket) {
		case staleSocket:
			f.stale = append(f.stale, socket)
		case liveSocket:
			f.daemon = true
		}
	}
	p.readState(f.damaged)
	if e := p.engine(); e.engine != nil {
		f.containers = true
		f.left, f.listErr = e.engine.List(ctx, map[string]string{labelDoctor: "true"})
		if instance := readLine(filepath.Join(p.paths.state, "instance-"+p.paths.mark())); instancePattern.MatchString(instance) {
			list, err := e.engine.List(ctx, map[string]string{runtime.LabelManaged: "true", runtime.LabelInstance: instance})
			f.orphans, f.listErr = len(list), errors.Join(f.listErr, err)
		}
	}
	return f.judge()
}

// The states of a socket's path.
const (
	noSocket = iota
	staleSocket
	liveSocket
)

// listening finds out whether anybody listens. Where systemd does, a connection
// would start a daemon, so that the kernel is asked first.
func listening(ctx context.Context, path string) int {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return noSocket
	}
	if listeningInode(path) != "" {
		return liveSocket
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return liveSocket
	case isRefused(err):
		return staleSocket
	}
	return noSocket // it can't be told; the check of sockets tells why
}

// readState reads what the daemon reads when it starts.
func (p *patient) readState(damaged map[string]error) {
	if _, err := (&trustFile{path: p.paths.trustPath()}).current(); err != nil {
		damaged[p.paths.trustPath()] = err
	}
	if _, err := p.conf.openPins(p.paths, zerolog.Nop()); err != nil {
		damaged[filepath.Join(p.paths.state, "pins-"+p.paths.mark()+".json")] = err
	}
	manifest := filepath.Join(p.paths.state, "register", "manifest.json")
	if data, err := os.ReadFile(manifest); err == nil && !json.Valid(data) {
		damaged[manifest] = errors.New("it is no JSON; without it `bridged unregister` takes entries out instead of restoring files")
	}
	instance := filepath.Join(p.paths.state, "instance-"+p.paths.mark())
	if exists(instance) && !instancePattern.MatchString(readLine(instance)) {
		damaged[instance] = errors.New("it holds no name of a daemon; the next one takes another, and does not know the sandboxes of before")
	}
}

func (f stateFacts) judge() outcome {
	o := outcome{summary: "nothing is left over"}
	for _, path := range f.stale {
		o.findings = append(o.findings, found("state.socket", path, "nobody listens on "+path+": a daemon was killed there", shellLine("rm", path)).with(repair{deed: repairSocket, path: path}))
	}
	for path, err := range f.damaged {
		o.findings = append(o.findings, found("state.damaged", path, fmt.Sprintf("%s is damaged: %v", path, err), shellLine("mv", path, path+".damaged")))
	}
	for _, c := range f.left {
		if f.now.Sub(c.Created) > youngSandbox {
			o.findings = append(o.findings, found("state.sandbox", string(c.ID), "a sandbox of an earlier `bridged doctor` is still there: "+c.Name,
				"bridged doctor --check state --fix").with(repair{deed: repairContainer, path: string(c.ID)}))
		}
	}
	if f.listErr != nil {
		o.findings = append(o.findings, found("state.unknown", "", "the engine can't list containers: "+f.listErr.Error(), "bridged doctor --check engine"))
	}
	if f.orphans > 0 && !f.daemon {
		o.findings = append(o.findings, found("state.orphans", "", plural(f.orphans, "container")+" of a daemon that no longer runs; the next one takes care of them", "bridged serve"))
	}
	if len(o.findings) > 0 {
		o.summary = ""
	} else if f.orphans > 0 {
		o.summary = plural(f.orphans, "container") + ", all of the daemon that runs"
	}
	return o
}
