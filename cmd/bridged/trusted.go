package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
)

const (
	// maxTrusted bounds the approvals that are kept, and maxTrustedFile the
	// file that they are in.
	maxTrusted     = 10_000
	maxTrustedFile = 8 << 20
)

// A trusted is one definition of a project's files that a person has approved.
type trusted struct {
	Project    string    `json:"project"` // its real path
	Name       string    `json:"name"`
	Definition string    `json:"definition"` // see [discovery.Server.Definition]
	Since      time.Time `json:"since"`
}

func (t trusted) is(s discovery.Server) bool {
	return t.Project == s.Root && t.Name == s.Name && t.Definition == s.Definition()
}

// A trustFile holds what a person has approved. The command line writes it and
// the daemon reads it again when it has changed. It is safe for concurrent use.
type trustFile struct {
	path string

	mu   sync.Mutex // guards the fields below
	seen os.FileInfo
	list []trusted
	err  error // why the file can't be read; nothing is approved then
}

// trustPath is where approvals are kept. They are the person's, whichever
// daemon serves them.
func (p paths) trustPath() string { return filepath.Join(p.state, "approved-servers.json") }

// current returns the approvals as the file has them now. The list must not be
// changed.
func (f *trustFile) current() ([]trusted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.seen, f.list, f.err = nil, nil, nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading approvals: %w", err)
	}
	if f.seen != nil && unaltered(f.seen, info) {
		return f.list, f.err
	}
	f.seen = info
	f.list, f.err = readTrusted(f.path)
	return f.list, f.err
}

func readTrusted(path string) ([]trusted, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading approvals: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	data, err := io.ReadAll(io.LimitReader(file, maxTrustedFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading approvals: %w", err)
	}
	var all struct {
		Approved []trusted `json:"approved"`
	}
	if len(data) > maxTrustedFile {
		err = fmt.Errorf("it has more than %d bytes", maxTrustedFile)
	} else {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading approvals in %s: %w; put the file right or remove it, and approve anew", path, err)
	}
	return all.Approved, nil
}

// trusts reports whether a definition, as it is now, is approved.
func (f *trustFile) trusts(s discovery.Server) bool {
	list, err := f.current()
	return err == nil && slices.ContainsFunc(list, func(t trusted) bool { return t.is(s) })
}

// change replaces the list by what edit makes of it. Other processes that do
// the same wait.
func (f *trustFile) change(edit func([]trusted) []trusted) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	lock := flock.New(f.path + ".lock")
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("locking approvals: %w", err)
	}
	defer lock.Close() //nolint:errcheck // nothing is written, and it unlocks
	list, err := f.current()
	if err != nil {
		return err
	}
	list = edit(slices.Clone(list))
	if len(list) > maxTrusted {
		return fmt.Errorf("%d servers are approved, and %d is the limit: revoke those of projects that are gone", len(list)-1, maxTrusted)
	}
	data, err := json.MarshalIndent(map[string]any{"version": 1, "approved": list}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing approvals: %w", err)
	}
	if err := renameio.WriteFile(f.path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing approvals: %w", err)
	}
	return nil
}

// approve adds a definition. Earlier ones of the name and agent stay approved,
// so that a change that is taken back needs no new answer.
func (f *trustFile) approve(s discovery.Server) error {
	return f.change(func(list []trusted) []trusted {
		list = slices.DeleteFunc(list, func(t trusted) bool { return t.is(s) })
		return append(list, trusted{s.Root, s.Name, s.Definition(), time.Now().UTC().Truncate(time.Second)})
	})
}

// revoke takes back what is approved in a project, of one name or, if that is
// empty, all of it, and returns how much that was.
func (f *trustFile) revoke(project, name string) (n int, err error) {
	err = f.change(func(list []trusted) []trusted {
		before := len(list)
		list = slices.DeleteFunc(list, func(t trusted) bool { return t.Project == project && (name == "" || t.Name == name) })
		n = before - len(list)
		return list
	})
	return n, err
}

// discovery says what is read for a session in a folder.
func (c *config) discovery(p paths, home, cwd string, getenv func(string) (string, bool)) discovery.Options {
	return discovery.Options{
		Home: home, Cwd: cwd, Getenv: getenv, Self: []string{p.socket},
		Sources: c.Discovery.Sources, Exclude: c.Discovery.Exclude,
		Trust: c.trust(p), TrustAgents: c.Discovery.ProjectConfigs == projectAsk && bool(c.Discovery.TrustAgents),
	}
}

// The values of discovery.project_configs.
const (
	projectAsk   = "ask"
	projectAllow = "allow"
	projectDeny  = "deny"
)

// trust decides about the definitions of projects' own files.
func (c *config) trust(p paths) func(discovery.Server) string {
	switch c.Discovery.ProjectConfigs {
	case projectAllow:
		return nil
	case projectDeny:
		return func(discovery.Server) string {
			return "the project's own file defines it, and discovery.project_configs is \"deny\" in the configuration of bridged"
		}
	}
	file := &trustFile{path: p.trustPath()}
	return func(s discovery.Server) string {
		if file.trusts(s) {
			return ""
		}
		return needsApproval(s)
	}
}

// approveCommand is what a person types to approve servers of a project.
const approveCommand = "bridged servers approve"

// simpleName is a name that a person may be told to type as it is.
var simpleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@/-]*$`)

// needsApproval says what to type. The text is shown to models and people, and
// the name and the folder are a stranger's: what a shell would read is left out.
func needsApproval(s discovery.Server) string {
	command := approveCommand
	if simpleName.MatchString(s.Name) && len(s.Name) < 100 {
		command += " " + s.Name
	}
	return fmt.Sprintf("it is defined by the project's own file and needs approval: the user has to run '%s' in the folder %s",
		command, policy.Plain(s.Root, 500))
}
