package discovery

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// expectations are what a right reader makes of the sample files.
type expectations struct {
	Environment struct {
		Env    map[string]string
		Files  map[string]string
		Inputs map[string]string

		ContinueSecrets map[string]string `json:"continue_secrets"`
	}
	Conflicts []struct {
		Agent, Name, Winner string
		Merged              *expectedServer
	}
	Files []expectedFile
}

type expectedFile struct {
	File, Agent, Scope, Outcome, OS string
	Servers                         []expectedServer
	Skipped                         []struct{ Name, Reason string }
}

type expectedFields struct {
	Transport, Command, URL, Cwd string
	Args                         []string
	Env                          map[string]*string
	Headers                      map[string]string
	EnvFile                      string `json:"env_file"`
}

type expectedServer struct {
	expectedFields
	Name, Scope, Description, Skip string
	Disabled                       bool
	Tools                          struct {
		Allow, Deny []string
		AutoApprove []string `json:"auto_approve"`
	}
	TimeoutMS     float64 `json:"timeout_ms"`
	ToolTimeoutMS float64 `json:"tool_timeout_ms"`
	Expanded      json.RawMessage
	SelfReference bool     `json:"self_reference"`
	NeedsInputs   []string `json:"needs_inputs"`
	NeedsShell    bool     `json:"needs_shell"`
	Image         string
	Secrets       map[string]string
	Volumes       []string
	DisabledIn    []string `json:"disabled_in_projects"`
}

func readExpectations(t *testing.T) expectations {
	t.Helper()
	data, err := os.ReadFile("testdata/formats/EXPECTED.json")
	if err != nil {
		t.Fatal(err)
	}
	var want expectations
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	return want
}

// A sampleTree is a copy of sample files, whose paths are brought to where it
// lies.
type sampleTree struct {
	root string
	want expectations
}

// copySamples copies the samples that are wanted, and the files that values
// come from.
func copySamples(t *testing.T, want expectations, wanted func(path string) bool) sampleTree {
	t.Helper()
	tr := sampleTree{tree{}.write(t), want}
	samples := os.DirFS("testdata/formats/samples")
	err := fs.WalkDir(samples, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !wanted(path) {
			return err
		}
		data, err := fs.ReadFile(samples, path)
		if err == nil {
			tr.put(t, path, string(data))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range want.Environment.Files {
		if rest, ok := strings.CutPrefix(path, "/home/dev/"); ok {
			tr.put(t, "home/"+rest, text)
		}
	}
	var secrets strings.Builder
	for name, value := range want.Environment.ContinueSecrets {
		fmt.Fprintf(&secrets, "%s=%s\n", name, value)
	}
	tr.put(t, "home/.continue/.env", secrets.String())
	return tr
}

func (tr sampleTree) put(t *testing.T, path, text string) {
	t.Helper()
	text = strings.ReplaceAll(text, `"/work/project"`, `"`+tr.root+`/project"`)
	file := filepath.Join(tr.root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// generic brings a text to the paths of the expectations.
func (tr sampleTree) generic(text string) string {
	text = strings.ReplaceAll(text, tr.root+"/home", "/home/dev")
	return strings.ReplaceAll(text, tr.root+"/project", "/work/project")
}

func (tr sampleTree) getenv(name string) (string, bool) {
	if name == "HOME" {
		return tr.root + "/home", true
	}
	value, ok := tr.want.Environment.Env[name]
	return value, ok
}

func (tr sampleTree) options(goos, project string) Options {
	return Options{Home: filepath.Join(tr.root, "home"), Cwd: filepath.Join(tr.root, project),
		GOOS: cmp.Or(goos, "linux"), Getenv: tr.getenv}
}

// companions are files that change what another file means: lists of what is
// on, and values.
func companions(f expectedFile) []string {
	switch f.Agent {
	case "claude-code":
		if f.File == "project/.mcp.json" {
			return []string{"home/.claude.json", "home/.claude/settings.json", "project/.claude/settings.local.json"}
		}
		if f.Scope == "plugin" {
			return []string{"home/.claude/settings.json"}
		}
	case "gemini-cli":
		return []string{"home/.gemini/mcp-server-enablement.json"}
	case "docker-mcp":
		return []string{"home/.docker/mcp/registry.yaml", "home/.docker/mcp/config.yaml"}
	}
	return nil
}

func TestEverySampleIsReadAsExpected(t *testing.T) {
	want := readExpectations(t)
	for _, f := range want.Files {
		if f.Agent == "edge" {
			continue
		}
		t.Run(f.File, func(t *testing.T) {
			with := companions(f)
			tr := copySamples(t, want, func(path string) bool { return path == f.File || slices.Contains(with, path) })
			project := "project"
			if strings.HasPrefix(f.File, "project-vs") {
				project = "project-vs"
			}
			opts := tr.options(f.OS, project)
			res := Load(opts)
			for _, s := range f.Servers {
				tr.checkServer(t, opts, f, s, res)
			}
			if got, want := countFrom(res, filepath.Join(tr.root, f.File)), expectedCount(f); got != want {
				t.Errorf("got %d servers of the file, want %d:\n%s", got, want, problems(res))
			}
		})
	}
}

// expectedCount counts what a file should bring into the result.
func expectedCount(f expectedFile) int {
	n := 0
	for _, s := range f.Servers {
		if s.Skip == "" && !s.SelfReference {
			n++
		}
	}
	return n
}

func all(res Result) []Server {
	list := slices.Concat(res.Servers, res.Disabled)
	for _, s := range res.Shadowed {
		list = append(list, s.Server)
	}
	return list
}

func countFrom(res Result, file string) int {
	n := 0
	for _, s := range all(res) {
		for _, src := range s.Sources {
			if src.Path == file {
				n++
			}
		}
	}
	return n
}

// checkServer compares one server of a file with what is expected of it, as
// written and expanded.
func (tr sampleTree) checkServer(t *testing.T, opts Options, f expectedFile, want expectedServer, res Result) {
	t.Helper()
	list := all(res)
	i := slices.IndexFunc(list, func(s Server) bool {
		scope := want.Scope == "" || string(s.Sources[0].Scope) == want.Scope
		return s.Name == want.Name && s.Sources[0].Path == filepath.Join(tr.root, f.File) && scope
	})
	if want.Skip != "" || want.SelfReference {
		if i >= 0 {
			t.Errorf("%s is there, and should be skipped", want.Name)
		}
		return
	}
	if i < 0 {
		t.Errorf("%s is not there; problems: %s", want.Name, problems(res))
		return
	}
	got := list[i]
	disabled := want.Disabled || slices.Contains(want.DisabledIn, "/work/project")
	if (got.DisabledBy != "") != disabled {
		t.Errorf("%s: disabled by %q, want %v", want.Name, got.DisabledBy, disabled)
	}
	if got.Agent() != f.Agent {
		t.Errorf("%s: agent %q, want %q", want.Name, got.Agent(), f.Agent)
	}
	if want.Transport == "container" {
		tr.checkContainer(t, opts, want, got)
		return
	}
	tr.checkDetails(t, want, got)
	if diff := gocmp.Diff(normalFields(want.expectedFields), tr.fieldsOf(got)); diff != "" {
		t.Errorf("%s as written (-want +got):\n%s", want.Name, diff)
	}
	tr.checkExpanded(t, opts, want, got)
}

func (tr sampleTree) checkDetails(t *testing.T, want expectedServer, got Server) {
	t.Helper()
	if diff := gocmp.Diff(want.Tools.Allow, got.Tools.Allow); diff != "" {
		t.Errorf("%s: allowed tools (-want +got):\n%s", want.Name, diff)
	}
	if got.Sources[0].Scope == ScopeProject {
		want.Tools.AutoApprove = nil // others write a project's files, so they approve nothing
	}
	for _, lists := range [][2][]string{{want.Tools.Deny, got.Tools.Deny}, {want.Tools.AutoApprove, got.Approved}} {
		if strings.Join(lists[0], " ") != strings.Join(lists[1], " ") {
			t.Errorf("%s: tools %q, want %q", want.Name, lists[1], lists[0])
		}
	}
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	call := want.TimeoutMS
	if a := got.Agent(); want.ToolTimeoutMS > 0 || a == "codex" || a == "continue" {
		call = want.ToolTimeoutMS // theirs are of the start alone
	}
	start := ms(want.TimeoutMS)
	if got.Agent() == "qwen-code" && start == 0 {
		start = got.StartTimeout // discoveryTimeoutMs, which has no expectation
	}
	if got.StartTimeout != start || got.CallTimeout != ms(call) {
		t.Errorf("%s: timeouts %v and %v, want %v and %v", want.Name, got.StartTimeout, got.CallTimeout, ms(want.TimeoutMS), ms(call))
	}
	if want.Description != "" && got.Description != want.Description {
		t.Errorf("%s: description %q, want %q", want.Name, got.Description, want.Description)
	}
}

func (tr sampleTree) checkExpanded(t *testing.T, opts Options, want expectedServer, got Server) {
	t.Helper()
	fields := want.expectedFields
	if want.Expanded != nil {
		fields.Headers, fields.Env = maps.Clone(fields.Headers), maps.Clone(fields.Env)
		var over expectedFields
		if err := json.Unmarshal(want.Expanded, &over); err != nil {
			t.Fatal(err)
		}
		fields = overlay(fields, over)
	}
	expanded, err := got.Expand(opts.Getenv, opts.Home, opts.Cwd)
	have := tr.fieldsOf(expanded)
	have = tr.answerInputs(have)
	if diff := gocmp.Diff(normalFields(fields), have); diff != "" {
		t.Errorf("%s expanded (-want +got):\n%s\n%v", want.Name, diff, err)
	}
	missing, _ := err.(*MissingError)
	var inputs []string
	if missing != nil {
		inputs = missing.Inputs
	}
	if diff := gocmp.Diff(want.NeedsInputs, inputs); diff != "" {
		t.Errorf("%s: inputs (-want +got):\n%s", want.Name, diff)
	}
	if want.NeedsShell && (missing == nil || !strings.Contains(err.Error(), "commands in config files are not run")) {
		t.Errorf("%s: got %v, want an error about the command in it", want.Name, err)
	}
}

// answerInputs does what an editor would do.
func (tr sampleTree) answerInputs(f expectedFields) expectedFields {
	answer := func(text string) string {
		for id, value := range tr.want.Environment.Inputs {
			text = strings.ReplaceAll(text, "${input:"+id+"}", value)
		}
		return text
	}
	for i := range f.Args {
		f.Args[i] = answer(f.Args[i])
	}
	for name, value := range f.Env {
		if value != nil {
			text := answer(*value)
			f.Env[name] = &text
		}
	}
	for name, value := range f.Headers {
		f.Headers[name] = answer(value)
	}
	return f
}

// overlay puts the fields that differ after expansion over the others.
func overlay(f, over expectedFields) expectedFields {
	f.Command, f.URL = cmp.Or(over.Command, f.Command), cmp.Or(over.URL, f.URL)
	f.Cwd, f.EnvFile = cmp.Or(over.Cwd, f.Cwd), cmp.Or(over.EnvFile, f.EnvFile)
	if over.Args != nil {
		f.Args = over.Args
	}
	if over.Env != nil {
		f.Env = over.Env
	}
	if over.Headers != nil {
		f.Headers = over.Headers
	}
	return f
}

// normalFields makes empty and missing the same.
func normalFields(f expectedFields) expectedFields {
	if len(f.Args) == 0 {
		f.Args = nil
	}
	if len(f.Env) == 0 {
		f.Env = nil
	}
	if len(f.Headers) == 0 {
		f.Headers = nil
	}
	return f
}

func (tr sampleTree) fieldsOf(s Server) expectedFields {
	f := expectedFields{Transport: string(s.Transport), Command: tr.generic(s.Command), URL: tr.generic(s.URL),
		Cwd: tr.generic(s.Cwd), EnvFile: tr.generic(s.EnvFile), Env: map[string]*string{}, Headers: map[string]string{}}
	for _, arg := range s.Args {
		f.Args = append(f.Args, tr.generic(arg))
	}
	for name, value := range s.Env {
		text := tr.generic(value)
		f.Env[name] = &text
	}
	for _, name := range s.Unset {
		f.Env[name] = nil
	}
	for name, value := range s.Headers {
		f.Headers[name] = tr.generic(value)
	}
	return normalFields(f)
}

// checkContainer compares a server that a container runs, whose command is the
// run of it.
func (tr sampleTree) checkContainer(t *testing.T, opts Options, want expectedServer, got Server) {
	t.Helper()
	args := []string{"run", "--rm", "-i", "--init"}
	for _, name := range slices.Sorted(maps.Keys(want.Env)) {
		args = append(args, "-e", name)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Secrets)) {
		args = append(args, "-e", name)
	}
	for _, v := range want.Volumes {
		args = append(args, "-v", v)
	}
	args = append(append(args, want.Image), want.Args...)
	if got.Transport != Stdio || got.Command != "docker" || !slices.Equal(got.Args, args) {
		t.Errorf("%s: got %s %s %q, want docker %q", want.Name, got.Transport, got.Command, got.Args, args)
	}
	getenv := func(name string) (string, bool) {
		if _, secret := want.Secrets[name]; secret {
			return "secret of " + name, true
		}
		return opts.Getenv(name)
	}
	expanded, err := got.Expand(getenv, opts.Home, opts.Cwd)
	if err != nil {
		t.Errorf("%s: %v", want.Name, err)
	}
	var over expectedFields
	if want.Expanded != nil {
		if err := json.Unmarshal(want.Expanded, &over); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{}
	for name, value := range over.Env {
		env[name] = *value
	}
	for name := range want.Secrets {
		env[name] = "secret of " + name
	}
	if !maps.Equal(env, expanded.Env) {
		t.Errorf("%s: environment %q, want %q", want.Name, expanded.Env, env)
	}
	_, err = got.Expand(opts.Getenv, opts.Home, opts.Cwd)
	for name := range want.Secrets {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want the secret's name", want.Name, err)
		}
	}
}

func TestOddFilesAreReadAsExpected(t *testing.T) {
	want := readExpectations(t)
	problem := map[string]string{"edge/array-root.json": "not an object", "edge/truncated.json": "the file ends in the middle"}
	for _, f := range want.Files {
		if f.Agent != "edge" {
			continue
		}
		t.Run(f.File, func(t *testing.T) {
			data, err := os.ReadFile("testdata/formats/samples/" + f.File)
			if err != nil {
				t.Fatal(err)
			}
			res, _ := tree{"home/MCPs/odd.json": string(data), "home/MCPs/other.json": `{"mcpServers": {"neighbour": {"command": "n"}}}`}.load(t)
			names := map[string]string{"neighbour": "n"}
			for _, s := range f.Servers {
				names[s.Name] = s.Command
			}
			got := map[string]string{}
			for _, s := range res.Servers {
				got[s.Name] = s.Command
			}
			if diff := gocmp.Diff(names, got); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
			if told := problems(res); !strings.Contains(told, problem[f.File]) {
				t.Errorf("problems: got %q, want %q in it", told, problem[f.File])
			}
		})
	}
}

func TestConflictsAreResolvedAsExpected(t *testing.T) {
	want := readExpectations(t)
	tr := copySamples(t, want, func(path string) bool { return !strings.HasPrefix(path, "edge/") })
	res := Load(tr.options("linux", "project"))
	winners := map[string]string{"clock": "home/.claude.json"}
	for _, c := range want.Conflicts {
		if c.Merged != nil {
			tr.checkMerged(t, c.Agent, *c.Merged, c.Name, res)
			continue
		}
		winner := winners[c.Name]
		if strings.HasPrefix(c.Winner, "home/") || strings.HasPrefix(c.Winner, "project/") {
			winner = c.Winner
		}
		i := slices.IndexFunc(slices.Concat(res.Servers, res.Disabled), func(s Server) bool {
			return s.Agent() == c.Agent && (s.Name == c.Name || s.Name == c.Agent+"/"+c.Name)
		})
		if i < 0 {
			t.Errorf("%s of %s is not there", c.Name, c.Agent)
			continue
		}
		got := slices.Concat(res.Servers, res.Disabled)[i].Sources[0].Path
		if winner != "" && got != filepath.Join(tr.root, winner) {
			t.Errorf("%s of %s: the one in %s is in force, want %s", c.Name, c.Agent, got, winner)
		}
	}
}

func (tr sampleTree) checkMerged(t *testing.T, agent string, want expectedServer, name string, res Result) {
	t.Helper()
	i := slices.IndexFunc(res.Servers, func(s Server) bool { return s.Agent() == agent && s.Name == name })
	if i < 0 {
		t.Errorf("%s of %s is not there", name, agent)
		return
	}
	got := res.Servers[i]
	if len(got.Sources) != 2 {
		t.Errorf("%s: got the sources %v, want both files", name, got.Sources)
	}
	if diff := gocmp.Diff(normalFields(want.expectedFields), tr.fieldsOf(got)); diff != "" {
		t.Errorf("%s merged (-want +got):\n%s", name, diff)
	}
}
