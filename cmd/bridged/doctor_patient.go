package main

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
)

// A patient is what doctor looks at: one user's set-up. What several checks want
// to know of an engine is found out once.
type patient struct {
	flags   doctorFlags
	getenv  func(string) string
	conf    *config // as far as it can be had
	confErr error
	file    string // the configuration file
	paths   paths  // none where pathsErr says why
	home    string
	cwd     string
	uid     int
	user    string // name

	pathsErr error

	ctx    context.Context // ends with close; what checks share is found out under it
	cancel context.CancelFunc
	engine func() engineFacts
	launch func() launchFacts
}

// noFolders is why a check that looks into our folders is skipped.
const noFolders = "it is not known where bridged keeps its things"

// newPatient finds whose set-up is meant. The caller must close it.
func newPatient(flags *pflag.FlagSet, f doctorFlags) (*patient, error) {
	p := &patient{flags: f, getenv: os.Getenv, home: os.Getenv("HOME"), uid: os.Getuid(), user: os.Getenv("USER")}
	if u, err := user.Current(); err == nil { // else there is no such user in the system's files, as in many a container
		p.user = u.Username
	}
	var err error
	if p.cwd, err = os.Getwd(); err != nil {
		p.cwd = p.home // the folder is gone; its project's servers are too
	}
	p.file, _ = configPath(flags, p.getenv)
	if abs, err := filepath.Abs(p.file); err == nil {
		p.file = abs
	}
	if p.conf, p.confErr = loadConfig(flags, p.getenv); p.confErr != nil {
		p.conf = configAnyway(p.getenv)
	}
	p.paths, p.pathsErr = findPaths(p.getenv)
	if p.pathsErr == nil {
		p.pathsErr = p.paths.configured(p.conf, p.getenv)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.engine = sync.OnceValue(func() engineFacts { return p.askEngines(p.ctx) })
	p.launch = sync.OnceValue(func() launchFacts { return p.tryLaunch(p.ctx) })
	return p, nil
}

// configAnyway is what can be had of a configuration that is wrong: defaults, and
// each variable that is right.
func configAnyway(getenv func(string) string) *config {
	c := defaultConfig()
	for _, k := range c.keys() {
		if v := getenv(k.env); v != "" {
			_ = k.value.Set(v) // the check of the configuration tells
		}
	}
	if c.check() != nil {
		return defaultConfig()
	}
	return c
}

// mounts are what sandboxes may read, as the daemon would have it.
func (p *patient) mounts() (list mountList, warnings []string, err error) {
	list = slices.Clone(p.conf.Mounts)
	warnings, err = list.resolve(string(p.conf.Sandbox.User), privatePaths(p.conf, p.paths, p.getenv))
	return list, warnings, err
}

// lineOf is where the configuration file sets a key, 0 if it does not.
func (p *patient) lineOf(section, key string) int {
	data, err := os.ReadFile(p.file)
	if err != nil {
		return 0
	}
	return lineOfKey(string(data), section, key)
}

// close lets go of the engine.
func (p *patient) close() {
	p.cancel()
}

// exists reports whether something is at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readLine returns the first line of a small file of the system's, "" if there
// is none.
func readLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(firstLine(string(data)))
}
