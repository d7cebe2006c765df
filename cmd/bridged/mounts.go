package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/bridged/bridged/pkg/runtime"
)

// maxMounts bounds the mounts of a sandbox: each costs time at every start.
const maxMounts = 32

// A mount is a file or folder of the user's that sandboxes may read.
type mount struct {
	Source word `toml:"source"`
	Target word `toml:"target"`

	where string // what to call it in an error, such as "config.toml:12"
}

// A mountList is tables in TOML, and SOURCE:TARGET with commas between
// elsewhere.
type mountList []mount

func (l mountList) String() string {
	var texts []string
	for _, m := range l {
		texts = append(texts, string(m.Source+":"+m.Target))
	}
	return strings.Join(texts, ",")
}

// Set replaces the list; an empty text is an empty list.
func (l *mountList) Set(s string) error {
	*l = nil
	for _, text := range strings.Split(s, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		source, target, ok := strings.Cut(text, ":")
		if !ok || strings.Contains(target, ":") {
			return fmt.Errorf("%q is no mount: write SOURCE:TARGET, such as /srv/data:/data", text)
		}
		*l = append(*l, mount{Source: word(source), Target: word(target), where: "mount " + text})
	}
	return nil
}

// Type names the kind of value in help texts.
func (*mountList) Type() string { return "list" }

// place notes where in the configuration file each mount stands.
func (l mountList) place(path string, data []byte) {
	for i, where := range tablePlaces("mounts", path, data, len(l)) {
		l[i].where = where
	}
}

// reserved are folders of the sandbox that nothing may be mounted on, or in.
var reserved = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/projects", "/root", "/run", "/sbin", "/sys",
	"/tmp", "/usr", "/var", "/workspace",
}

// targetPattern leaves out what the kernel's list of mounts would escape.
var targetPattern = regexp.MustCompile(`^(/[A-Za-z0-9._+@-]+)+$`)

// check refuses targets that would hide a part of the sandbox, or each other.
func (l mountList) check() error {
	if len(l) > maxMounts {
		return fmt.Errorf("mounts: there are %d; at most %d are taken", len(l), maxMounts)
	}
	for i, m := range l {
		if err := m.check(); err != nil {
			return fmt.Errorf("%s: %w", m.where, err)
		}
		for _, other := range l[:i] {
			if within(m.Target, other.Target) || within(other.Target, m.Target) {
				return fmt.Errorf("%s: target %s and target %s (%s) lie on each other: give each mount a folder of its own", m.where, m.Target, other.Target, other.where)
			}
		}
	}
	return nil
}

func (m mount) check() error {
	source, target := string(m.Source), string(m.Target)
	switch {
	case source == "":
		return errors.New("the mount has no source: name a file or folder, such as source = \"/srv/data\"")
	case target == "":
		return errors.New("the mount has no target: name a path in the sandbox, such as target = \"/data\"")
	case !filepath.IsAbs(source) || filepath.Clean(source) != source:
		return fmt.Errorf("source %q: give an absolute path without . or .. in it", source)
	case !targetPattern.MatchString(target) || filepath.Clean(target) != target:
		return fmt.Errorf("target %q: give an absolute path of letters, digits and ._+@-, such as /data", target)
	}
	for _, dir := range reserved {
		if within(m.Target, word(dir)) {
			return fmt.Errorf("target %s: %s is the sandbox's own; choose for example /data", target, dir)
		}
	}
	return nil
}

// within reports whether path is dir or below it. Both are clean.
func within(path, dir word) bool {
	return path == dir || dir == "/" || strings.HasPrefix(string(path), string(dir)+"/")
}

// resolve replaces each source by what it leads to, which must be a regular
// file or a folder that holds none of the private paths. It returns a warning
// for each that a sandbox's user would not be allowed to read.
func (l mountList) resolve(user string, private []string) (warnings []string, err error) {
	for i, m := range l {
		path, err := filepath.EvalSymlinks(string(m.Source))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: source %s does not exist", m.where, m.Source)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: source: %w", m.where, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%s: source: %w", m.where, err)
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s: source %s is neither a file nor a folder", m.where, m.Source)
		}
		if why := exposes(path, private); why != "" {
			return nil, fmt.Errorf("%s: source %s %s, which no sandbox may reach: mount something below it", m.where, m.Source, why)
		}
		if !readable(info, user) {
			warnings = append(warnings, fmt.Sprintf("%s: source %s can't be read by the sandbox's user %s: allow others to, for example with `chmod -R o+rX %s`", m.where, m.Source, user, m.Source))
		}
		l[i].Source = word(path)
	}
	return warnings, nil
}

// exposes says what a source would show that it must not; "" if nothing.
func exposes(path string, private []string) string {
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if within(word(path), word(dir)) || within(word(dir), word(path)) {
			return "shows " + dir
		}
	}
	for _, p := range append([]string{"/run"}, private...) {
		if target, err := filepath.EvalSymlinks(p); err == nil {
			p = target
		}
		if within(word(p), word(path)) {
			return "holds " + p
		}
	}
	return ""
}

// readable reports whether user, uid:gid, may read a file or search a folder,
// as far as its own mode tells. An engine may map the user to another.
func readable(info fs.FileInfo, user string) bool {
	bits := info.Mode().Perm()
	want := fs.FileMode(0o4)
	if info.IsDir() {
		want = 0o5
	}
	uid, gid, _ := strings.Cut(user, ":")
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case strconv.FormatUint(uint64(st.Uid), 10) == uid:
			bits >>= 6
		case strconv.FormatUint(uint64(st.Gid), 10) == gid:
			bits >>= 3
		}
	}
	return bits&want == want
}

// mounts are the list as the engines take it.
func (l mountList) mounts() []runtime.Mount {
	var list []runtime.Mount
	for _, m := range l {
		list = append(list, runtime.Mount{Source: string(m.Source), Target: string(m.Target)})
	}
	return list
}

// targets are what code can read.
func (l mountList) targets() []string {
	var list []string
	for _, m := range l {
		list = append(list, string(m.Target))
	}
	return list
}

// privatePaths are the sockets that would let code out of its sandbox: a
// read-only mount keeps nobody from connecting to one. The daemon's own folder
// is among them.
func privatePaths(c *config, p paths, getenv func(string) string) []string {
	private := []string{filepath.Dir(p.socket), filepath.Dir(p.ops), p.state, p.audit}
	if p.token != "" {
		private = append(private, p.token)
	}
	if p.cache != "" {
		private = append(private, p.cache)
	}
	if p.output != "" {
		private = append(private, p.output) // other agents' files
	}
	for _, choice := range []string{string(c.Engine.Runtime), runtime.Podman, runtime.Docker} {
		places, err := runtime.Candidates(getenv, runtime.DetectOptions{Runtime: choice, UID: os.Getuid(), GOOS: goruntime.GOOS})
		if err != nil {
			continue // the search for an engine tells
		}
		for _, place := range places {
			if socket, ok := strings.CutPrefix(place.Endpoint, "unix://"); ok {
				private = append(private, socket)
			}
		}
	}
	return private
}
