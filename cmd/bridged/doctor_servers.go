package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy"
)

const (
	// serverTime bounds the trial of one server, a download at its first start
	// included.
	serverTime = 2 * time.Minute
	// serversAtOnce is how many are tried side by side.
	serversAtOnce = 4
)

// serverFacts are the definitions for the current folder.
type serverFacts struct {
	found    discovery.Result
	unusable map[string]error // by server, why it can't be started or contacted
	failed   map[string]string
	tried    bool
	secrets  []secretFacts
	settings []proxy.Setting
	have     func(program string) bool
}

// A secretFacts is one value of the configuration that comes from elsewhere.
type secretFacts struct {
	server string // the pattern of its table
	name   string // of the variable or header
	path   string // of the file, or of the program that prints it
	runs   bool   // it is a program
	mode   fs.FileMode
	err    error
}

func checkServers(ctx context.Context, p *patient) outcome {
	if p.pathsErr != nil {
		return outcome{skipped: noFolders}
	}
	o := p.conf.discovery(p.paths, p.home, p.cwd, os.LookupEnv)
	f := serverFacts{found: discovery.Load(o), settings: p.conf.Server.settings(), have: onPath}
	for _, t := range f.settings {
		f.secrets = append(f.secrets, lookAtSecrets(t.Name, t.Env)...)
		f.secrets = append(f.secrets, lookAtSecrets(t.Name, t.Headers)...)
	}
	f.unusable = examineServers(p.conf, p.paths, p.cwd, f.found.Servers)
	if p.flags.servers {
		f.tried = true
		f.failed = p.tryServers(ctx, f.found.Servers, f.unusable)
	}
	return f.judge()
}

// examineServers says of each server why it can't be used in a folder, without
// starting it. Programs that print secrets are not run either.
func examineServers(c *config, p paths, cwd string, servers []discovery.Server) map[string]error {
	o := proxyOptions(c, p)
	o.Settings = slices.Clone(o.Settings)
	for i, s := range o.Settings {
		o.Settings[i].Env, o.Settings[i].Headers, o.Settings[i].Eager = withoutPrograms(s.Env), withoutPrograms(s.Headers), nil
	}
	o.Reaper = nil
	px := proxy.New(o)
	defer px.Close(context.Background()) //nolint:errcheck // nothing was started
	session := px.NewSession(proxy.SessionOptions{
		Servers: func() []discovery.Server { return servers }, Getenv: os.LookupEnv, Home: os.Getenv("HOME"), Cwd: cwd, Looks: true,
	})
	defer session.Close()
	unusable := map[string]error{}
	for _, s := range servers {
		if err := session.Examine(s.Name); err != nil {
			unusable[s.Name] = err
		}
	}
	return unusable
}

// withoutPrograms has a text in place of what programs print.
func withoutPrograms(values map[string]proxy.Secret) map[string]proxy.Secret {
	values = maps.Clone(values)
	for name, s := range values {
		if len(s.Command) > 0 {
			values[name] = proxy.Secret{Text: "what a program prints"}
		}
	}
	return values
}

func lookAtSecrets(server string, values map[string]proxy.Secret) []secretFacts {
	var list []secretFacts
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s := secretFacts{server: server, name: name, path: values[name].File}
		if c := values[name].Command; len(c) > 0 {
			s.path, s.runs = c[0], true
		}
		if s.path == "" {
			continue
		}
		info, err := os.Stat(s.path)
		if s.err = err; err == nil {
			s.mode = info.Mode().Perm()
			switch {
			case !info.Mode().IsRegular():
				s.err = errors.New("it is no regular file")
			case s.runs && s.mode&0o111 == 0:
				s.err = errors.New("it is not executable")
			case !s.runs:
				s.err = readableFile(s.path)
			}
		}
		list = append(list, s)
	}
	return list
}

// readableFile says why a file that is there has nothing to read for us.
func readableFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	if n, _ := f.Read(make([]byte, 1)); n == 0 {
		return errors.New("there is nothing in it")
	}
	return nil
}

// tryServers starts or contacts the servers, some at a time, and says what failed.
func (p *patient) tryServers(ctx context.Context, servers []discovery.Server, unusable map[string]error) map[string]string {
	failed := map[string]string{}
	var mu sync.Mutex // guards failed
	slots := make(chan struct{}, serversAtOnce)
	var trying sync.WaitGroup
	for _, s := range servers {
		if unusable[s.Name] != nil {
			continue
		}
		trying.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, serverTime)
			defer cancel()
			t := trial{conf: p.conf, paths: p.paths, servers: servers, waits: nowhere{}}
			_, err := t.try(ctx, s.Name, func(step proxy.Step) {
				if step.Err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed[s.Name] = strings.TrimSpace(step.Name + ": " + step.Err.Error() + " " + step.Advice)
				}
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[s.Name] = err.Error()
			}
		})
	}
	trying.Wait()
	return failed
}

// nowhere swallows what is written.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

func (f serverFacts) judge() outcome {
	var o outcome
	good := 0
	for _, s := range f.found.Servers {
		err := f.unusable[s.Name]
		switch {
		case err != nil:
			o.findings = append(o.findings, f.unusableServer(s, err))
		case f.failed[s.Name] != "":
			o.findings = append(o.findings, found("servers.failed", s.Name, fmt.Sprintf("server %s (%s) does not work: %s", s.Name, sourceOf(s), f.failed[s.Name]),
				shellLine("bridged", "servers", "test", s.Name)))
		default:
			good++
		}
	}
	for _, p := range f.found.Problems {
		if p.Self {
			continue
		}
		fix := edit(p.Path, p.Line)
		if name, is := strings.CutPrefix(p.Path, "$"); is {
			fix = "unset " + name
		}
		o.findings = append(o.findings, found("servers.definition", p.Path, p.String(), fix))
	}
	o.findings = append(o.findings, f.judgeSecrets()...)
	for _, s := range f.found.Held {
		fix := shellLine("bridged", "servers", "approve", s.Name)
		if !strings.Contains(s.Held, approveCommand) {
			fix = ""
		}
		o.findings = append(o.findings, found("servers.held", s.Name, fmt.Sprintf("server %s is not used: %s", s.Name, s.Held), fix))
	}
	o.findings = append(o.findings, f.unmatched()...)
	state := "can be started or contacted"
	if f.tried {
		state = "work"
	}
	if len(f.found.Servers)+len(f.found.Disabled)+len(f.found.Held) == 0 {
		o.summary = "none is defined for this folder"
		return o
	}
	o.summary = fmt.Sprintf("%d of %d %s, %d disabled, %d held", good, len(f.found.Servers), state, len(f.found.Disabled), len(f.found.Held))
	return o
}

// notFoundPattern finds the program in the proxy's "command ... is not found".
var notFoundPattern = regexp.MustCompile(`command "?([^" ]+)"? is not found`)

// unusableServer is one whose definition can't work as it is.
func (f serverFacts) unusableServer(s discovery.Server, err error) finding {
	text := fmt.Sprintf("%s: %s", sourceOf(s), strings.TrimSuffix(err.Error(), "."))
	place := discovery.Source{}
	if len(s.Sources) > 0 {
		place = s.Sources[0]
	}
	fix := edit(place.Path, place.Line)
	if strings.HasPrefix(place.Path, "$") {
		fix = "unset " + place.Path[1:]
	}
	if m := notFoundPattern.FindStringSubmatch(err.Error()); m != nil {
		if install := f.installProgram(filepath.Base(m[1])); install != "" {
			fix = install
		}
		return found("servers.program", s.Name, text, fix)
	}
	return found("servers.unusable", s.Name, text, fix)
}

// installProgram is how a launcher gets here that is not; "" for other programs,
// which nobody knows.
func (f serverFacts) installProgram(name string) string {
	switch name {
	case "npx", "npm", "node":
		return installPackage(f.have, map[string]string{"": "npm", "brew": "node"})
	case "uvx", "uv":
		if f.have("pipx") {
			return "pipx install uv"
		}
		return installPackage(f.have, map[string]string{"apt-get": "pipx", "": "uv"})
	case "python3", "pipx", "git":
		return installPackage(f.have, map[string]string{"": name})
	}
	return ""
}

func (f serverFacts) judgeSecrets() []finding {
	var list []finding
	for _, s := range f.secrets {
		what := "the file"
		if s.runs {
			what = "the program"
		}
		switch {
		case s.err != nil:
			fix := "ls -l " + shellWord(s.path)
			if errors.Is(s.err, fs.ErrPermission) {
				fix = shellLine("sudo", "chown", fmt.Sprint(os.Getuid()), s.path)
			} else if s.runs && s.mode != 0 && s.mode&0o111 == 0 {
				fix = shellLine("chmod", "u+x", s.path)
			}
			list = append(list, found("servers.secret", s.name, fmt.Sprintf("%s of servers %q comes from %s %s, which can't be used: %v", s.name, or(s.server, "*"), what, s.path, s.err), fix))
		case !s.runs && s.mode&0o077 != 0:
			list = append(list, found("servers.exposed", s.name, fmt.Sprintf("others may read %s (mode %04o), which holds %s of servers %q", s.path, s.mode, s.name, or(s.server, "*")), shellLine("chmod", "600", s.path)))
		}
	}
	return list
}

// unmatched lists the tables of the configuration that speak of no server here.
func (f serverFacts) unmatched() []finding {
	var list []finding
	for _, t := range f.settings {
		matches := func(s discovery.Server) bool {
			ok, err := path.Match(t.Name, s.Name)
			return t.Name == "" || err != nil || ok
		}
		all := slices.Concat(f.found.Servers, f.found.Disabled, f.found.Held)
		if !slices.ContainsFunc(all, matches) {
			list = append(list, found("servers.unmatched", t.Name, fmt.Sprintf("a [[server]] table of the configuration is for %q, and no server of that name is defined here", t.Name), ""))
		}
	}
	return list
}
