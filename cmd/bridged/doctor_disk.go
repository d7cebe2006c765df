package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bridged/bridged/pkg/runtime"
)

// A diskFacts is one folder that needs room.
type diskFacts struct {
	what    string // for people
	path    string // that is meant
	at      string // that is there, path or a folder above it
	free    uint64 // bytes that we may use
	inodes  uint64 // free; meaningless where total is 0
	total   uint64 // inodes in all
	denied  error  // why nothing can be written there; nil if it can
	err     error  // why it can't be looked at
	low     uint64 // below, it is a warning
	out     uint64 // below, nothing works
	command string // that makes room
}

const (
	mega = 1 << 20
	giga = 1 << 30
	// lowInodes is the share of inodes, in percent, below which they run out.
	lowInodes = 1
)

func checkDisk(_ context.Context, p *patient) outcome {
	list := p.folders()
	e := p.engine()
	if e.local() && e.info.StorageDir != "" {
		prune := "podman system prune"
		if e.info.Name == runtime.Docker {
			prune = "docker system prune"
		}
		list = append(list, diskFacts{what: "the engine's storage", path: e.info.StorageDir, low: 2 * giga, out: 100 * mega, command: prune})
	}
	if len(list) == 0 {
		return outcome{skipped: noFolders}
	}
	for i := range list {
		list[i].look(list[i].what != "the engine's storage")
	}
	return judgeDisks(list)
}

// folders are those that the daemon writes to.
func (p *patient) folders() []diskFacts {
	if p.pathsErr != nil {
		return nil
	}
	show := func(dir string) string { return "du -xh " + shellWord(dir) + " | sort -h | tail" }
	list := []diskFacts{
		{what: "the state folder", path: p.paths.state, low: 200 * mega, out: 10 * mega, command: show(p.paths.state)},
		{what: "the runtime folder", path: filepath.Dir(p.paths.socket), low: mega, out: 64 << 10, command: show(filepath.Dir(p.paths.socket))},
		{what: "the folder of memories and saved tools", path: p.paths.kept, low: 200 * mega, out: 10 * mega, command: show(p.paths.kept)},
	}
	if p.conf.Audit.Enabled && filepath.Dir(p.paths.audit) != p.paths.state {
		list = append(list, diskFacts{what: "the audit log", path: p.paths.audit, low: 200 * mega, out: 10 * mega, command: show(p.paths.audit)})
	}
	if p.paths.cache != "" {
		list = append(list, diskFacts{what: "the cache", path: p.paths.cache, low: 50 * mega, out: mega, command: "bridged catalog clear"})
	}
	if p.paths.output != "" {
		list = append(list, diskFacts{what: "the folder of published files", path: p.paths.output, low: 200 * mega, out: 10 * mega, command: show(p.paths.output)})
	}
	return list
}

// look measures the folder, or the nearest above it that is there. ours says
// that we must be able to write to it.
func (d *diskFacts) look(ours bool) {
	for d.at = d.path; !exists(d.at) && d.at != filepath.Dir(d.at); {
		d.at = filepath.Dir(d.at)
	}
	var s unix.Statfs_t
	if d.err = unix.Statfs(d.at, &s); d.err != nil {
		return
	}
	d.free, d.inodes, d.total = uint64(s.Bavail)*uint64(s.Bsize), s.Ffree, s.Files
	if !ours {
		return
	}
	if err := unix.Access(d.at, unix.W_OK|unix.X_OK); err != nil {
		d.denied = err
	}
}

func judgeDisks(list []diskFacts) outcome {
	var o outcome
	least := uint64(1) << 63
	for _, d := range list {
		if d.err == nil {
			least = min(least, d.free)
		}
		o.findings = append(o.findings, d.judge()...)
	}
	o.summary = fmt.Sprintf("%d folders, the fullest has room for %s", len(list), roomText(least))
	return o
}

func (d diskFacts) judge() []finding {
	switch {
	case errors.Is(d.err, fs.ErrPermission):
		return nil // an engine's folder that is not ours; it will tell
	case d.err != nil:
		return []finding{found("disk.unknown", d.path, fmt.Sprintf("%s (%s) can't be looked at: %v", d.what, d.path, d.err), "mount | grep "+shellWord(d.at))}
	case errors.Is(d.denied, unix.EROFS):
		return []finding{found("disk.readonly", d.path, fmt.Sprintf("%s (%s) is on a disk that is mounted read-only", d.what, d.path), shellLine("sudo", "mount", "-o", "remount,rw", mountPoint(d.at)))}
	case d.denied != nil:
		return []finding{found("disk.denied", d.path, fmt.Sprintf("you may not write to %s (%s)", d.what, d.at), shellLine("sudo", "chown", "-R", fmt.Sprint(os.Getuid()), d.at))}
	case d.free < d.out:
		return []finding{found("disk.full", d.path, fmt.Sprintf("%s (%s) has room for %s, which is not enough to work", d.what, d.path, roomText(d.free)), d.command)}
	case d.total > 0 && d.inodes*100 < d.total*lowInodes:
		return []finding{found("disk.inodes", d.path, fmt.Sprintf("%s (%s) is on a disk that has room for only %d more files", d.what, d.path, d.inodes), d.command)}
	case d.free < d.low:
		return []finding{found("disk.low", d.path, fmt.Sprintf("%s (%s) has room for %s only", d.what, d.path, roomText(d.free)), d.command)}
	}
	return nil
}

// mountPoint is where the disk of a path is mounted.
func mountPoint(path string) string {
	device := func(path string) (uint64, bool) {
		var s unix.Stat_t
		err := unix.Stat(path, &s)
		return uint64(s.Dev), err == nil //nolint:unconvert // it is an int32 elsewhere
	}
	mine, ok := device(path)
	for ok && path != "/" {
		above, found := device(filepath.Dir(path))
		if !found || above != mine {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

func roomText(n uint64) string {
	switch {
	case n >= 10*giga:
		return fmt.Sprintf("%d GiB", n/giga)
	case n >= giga:
		return strings.Replace(fmt.Sprintf("%.1f GiB", float64(n)/giga), ".0 ", " ", 1)
	case n >= mega:
		return fmt.Sprintf("%d MiB", n/mega)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
