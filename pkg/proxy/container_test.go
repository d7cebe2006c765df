package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/discovery"
	engines "github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// A dock is a bench whose servers run in containers of an engine.
type dock struct {
	*bench
	engine *enginetest.Memory
	left   chan engines.ID // containers that could not be removed
}

// newDock must come before newProxy: at the end of the test it checks that no
// container and no process is left.
func newDock(t *testing.T) *dock {
	t.Helper()
	d := &dock{engine: enginetest.NewMemory(t, enginetest.Options{}), left: make(chan engines.ID, 10)}
	t.Cleanup(func() {
		if n := d.engine.Counts().Present; n != len(d.left) {
			t.Errorf("%d containers are left", n)
		}
	})
	d.bench = newBench(t)
	return d
}

// options are quick ones with the engine.
func (d *dock) options() Options {
	o := quick()
	o.Containers = Containers{
		Engine:  func(context.Context) (engines.Engine, error) { return d.engine, nil },
		Lost:    func(_ engines.Engine, err error) error { return fmt.Errorf("the engine is gone: %w", err) },
		Abandon: func(id engines.ID) { d.left <- id },
		Labels:  map[string]string{engines.LabelInstance: "test"},
	}
	return o
}

// run returns a definition that runs a fake in a container. Flags come first
// among docker's.
func (d *dock) run(name string, c fakeConfig, flags ...string) discovery.Server {
	d.t.Helper()
	server := d.server(name, c)
	args := append([]string{"run", "-i", "--rm"}, flags...)
	for _, name := range slices.Sorted(maps.Keys(server.Env)) {
		args = append(args, "-e", name)
	}
	server.Args = append(args, enginetest.MemoryImage, server.Command)
	server.Command = "docker"
	return server
}

func TestServersRunInContainers(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	s := open(t, p, d.run("fake", fakeConfig{}, "--name", "box", "-l", "mine=1", "-m", "64m", "-it"))
	if got := must(t, s, "sleep_echo", args{"v": 1}); got != "1" {
		t.Errorf("the answer is %s", got)
	}
	specs := d.engine.Servers()
	if len(specs) != 1 {
		t.Fatalf("there are %d containers, want one", len(specs))
	}
	spec := specs[0]
	wantLabels := map[string]string{
		engines.LabelManaged: "true", engines.LabelInstance: "test", engines.LabelServer: "fake", "mine": "1",
	}
	if diff := cmp.Diff(wantLabels, spec.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(spec.Name, "box-") || spec.MemoryBytes != 64<<20 || spec.Network != engines.NetworkBridge {
		t.Errorf("container = %+v", spec)
	}
	st := p.Status()[0]
	if st.State != StateStarted || st.PID != 0 || st.Container == "" || st.ContainerName != spec.Name {
		t.Errorf("status = %+v, want the container %s", st, spec.Name)
	}
	closeProxy(t, p)
	if got := d.engine.Counts(); got.Present != 0 || got.OpenStreams != 0 {
		t.Errorf("after Close there are %d containers and %d streams", got.Present, got.OpenStreams)
	}
}

func TestAgentsShareAContainer(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	server := d.run("fake", fakeConfig{})
	var agents sync.WaitGroup
	for i := range 20 {
		s := p.NewSession(SessionOptions{
			Servers: openServers(server), Home: "/", Cwd: fmt.Sprintf("/%d", i),
			Getenv: func(name string) (string, bool) { return fmt.Sprint(name, i), name == "PATH" },
		})
		t.Cleanup(s.Close)
		agents.Go(func() {
			if _, err := s.Load([]string{"fake"}); err != nil {
				t.Error(err)
			}
			if _, err := call(t, s, "fake", "echo", args{}); err != nil {
				t.Error(err)
			}
		})
	}
	agents.Wait()
	if got := d.engine.Counts(); got.Created != 1 {
		t.Errorf("20 agents have %d containers, want one", got.Created)
	}
}

func TestAgentsWithOtherVariablesHaveOtherContainers(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	server := d.run("fake", fakeConfig{}, "-e", "WHO", "--name", "box")
	for _, who := range []string{"ann", "bob"} {
		s := p.NewSession(SessionOptions{Servers: openServers(server), Getenv: func(name string) (string, bool) { return who, name == "WHO" }})
		t.Cleanup(s.Close)
		if _, err := s.Load([]string{"fake"}); err != nil {
			t.Fatal(err)
		}
		if env := environmentOf(t, s); !slices.Contains(env, "WHO="+who) {
			t.Errorf("the container's variables are %q, want WHO=%s", env, who)
		}
	}
	if got := d.engine.Counts(); got.Present != 2 {
		t.Errorf("there are %d containers, want two of one --name", got.Present)
	}
}

func TestContainersEndByTheLadder(t *testing.T) {
	for _, deaf := range []string{"", "eof", "term"} {
		t.Run("deaf to "+deaf, func(t *testing.T) {
			d := newDock(t)
			p := newProxy(t, d.options())
			s := open(t, p, d.run("fake", fakeConfig{DeafTo: deaf, Sleepers: 1}))
			must(t, s, "echo", args{})
			closeProxy(t, p)
			if got := d.engine.Counts(); got.Present != 0 || got.Removed != 1 {
				t.Errorf("counts = %+v, want one container and none left", got)
			}
		})
	}
}

func TestEndOfAContainerIsExplained(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	s := open(t, p, d.run("fake", fakeConfig{Log: d.path("log")}))
	_, err := call(t, s, "fake", "exit", args{"code": 3})
	wantCode(t, err, CodeOutcomeUnknown, "exit code 3", "about to exit", "may or may not")
	must(t, s, "echo", args{}) // of another container
	for i, row := range []struct {
		exit engines.Exit
		want string
	}{
		{engines.Exit{Code: 137, OOM: true}, "more memory than its limit of 2048 MiB"},
		{engines.Exit{Code: 137}, "exit code 137: it was killed, maybe"},
	} {
		must(t, s, "echo", args{})
		done := make(chan error, 1)
		go func() {
			_, err := call(t, s, "fake", "hang", args{})
			done <- err
		}()
		eventually(t, "the server has a call", func() bool {
			return strings.Count(strings.Join(d.lines("log"), ""), `"hang"`) == i+1
		})
		if err := d.engine.End(d.running(), row.exit); err != nil {
			t.Fatal(err)
		}
		wantCode(t, next(t, done), CodeOutcomeUnknown, row.want)
	}
}

// environmentOf returns the variables of the server fake.
func environmentOf(t *testing.T, s *Session) []string {
	t.Helper()
	raw, err := call(t, s, "fake", "env", args{})
	var r struct {
		StructuredContent struct{ Env []string }
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.StructuredContent.Env
}

// running returns the only container.
func (d *dock) running() engines.ID {
	d.t.Helper()
	list, err := d.engine.List(d.t.Context(), map[string]string{engines.LabelServer: "fake"})
	list = slices.DeleteFunc(list, func(c engines.Container) bool { return c.State != "running" })
	if err != nil || len(list) != 1 {
		d.t.Fatalf("containers: %v, %v; want one", list, err)
	}
	return list[0].ID
}

func TestContainerThatSomebodyRemovesIsReplaced(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	s := open(t, p, d.run("fake", fakeConfig{}))
	must(t, s, "echo", args{})
	if err := d.engine.Remove(t.Context(), d.running()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end is noticed", func() bool { return p.Status()[0].State != StateStarted })
	must(t, s, "echo", args{})
	if st := p.Status()[0]; st.Restarts != 1 {
		t.Errorf("status = %+v, want one restart", st)
	}
}

func TestContainerThatDiesAtTheStartIsQuotedWithoutItsSecrets(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	server := d.run("fake", fakeConfig{Complaint: "bad key canary-secret-1 and canary-secret-2", ExitAt: "start", ExitCode: 4},
		"-e", "API_KEY", "-e", "OTHER=canary-secret-2")
	server.Env["API_KEY"] = "canary-secret-1"
	s := open(t, p, server)
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "exit code 4", "bad key [API_KEY] and [OTHER]")
	if text := fmt.Sprint(err, p.Status()); strings.Contains(text, "canary") {
		t.Errorf("a secret is shown: %s", text)
	}
}

func TestStartsOfContainersThatFail(t *testing.T) {
	rows := []struct {
		name  string
		spoil func(d *dock, o *Options, s *discovery.Server)
		want  []string
	}{
		{"no engine", func(_ *dock, o *Options, _ *discovery.Server) {
			o.Containers.Engine = func(context.Context) (engines.Engine, error) { return nil, errors.New("looked at /run/x.sock") }
		}, []string{"no container engine", "/run/x.sock"}},
		{"no engine at all", func(_ *dock, o *Options, _ *discovery.Server) { o.Containers = Containers{} }, []string{"no container engine is configured"}},
		{"an engine that is gone", func(d *dock, _ *Options, _ *discovery.Server) { d.engine.SetUnreachable(true) }, []string{"the engine is gone"}},
		{"an engine that makes none", func(d *dock, _ *Options, _ *discovery.Server) { d.engine.Fail("create", 1, nil) }, []string{"making its container", "refused on request"}},
		{"an engine that attaches to none", func(d *dock, _ *Options, _ *discovery.Server) { d.engine.Fail("attach", 1, nil) }, []string{"starting its container", "refused on request"}},
		{"an engine that starts none", func(d *dock, _ *Options, _ *discovery.Server) { d.engine.Fail("start", 1, nil) }, []string{"starting its container", "refused on request"}},
		{"a command that the image lacks", func(_ *dock, _ *Options, s *discovery.Server) { s.Args[len(s.Args)-1] = "nonesuch" }, []string{"nonesuch", "not found"}},
		{"an image that no registry has", func(_ *dock, _ *Options, s *discovery.Server) { s.Args[len(s.Args)-2] = "none/such" }, []string{"docker.io/none/such:latest", "manifest unknown", "load the image"}},
		{"an image that is not to be fetched", func(_ *dock, _ *Options, s *discovery.Server) {
			s.Args = slices.Insert(s.Args, 1, "--pull=never")
			s.Args[len(s.Args)-2] = "none/such"
		}, []string{"none/such", "--pull"}},
		{"an image of this machine that is not there", func(_ *dock, _ *Options, s *discovery.Server) { s.Args[len(s.Args)-2] = "localhost/none" }, []string{"localhost/none", "make it"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			d := newDock(t)
			o, server := d.options(), d.run("fake", fakeConfig{})
			o.backoffMin = time.Hour
			row.spoil(d, &o, &server)
			s := open(t, newProxy(t, o), server)
			_, err := call(t, s, "fake", "echo", args{})
			wantCode(t, err, CodeServerFailed, row.want...)
			d.engine.SetUnreachable(false)
			if got := d.engine.Counts(); got.Present != 0 {
				t.Errorf("%d containers are left", got.Present)
			}
		})
	}
}

func TestContainerThatCannotBeRemovedIsLeftToOthers(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	s := open(t, p, d.run("fake", fakeConfig{}))
	must(t, s, "echo", args{})
	id := d.running()
	d.engine.Fail("remove", 1, nil)
	closeProxy(t, p)
	if got := next(t, d.left); got != id {
		t.Errorf("%s is left to others, want %s", got, id)
	}
	if err := d.engine.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestDefinitionsThatCannotBeHonouredAreTold(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	rows := []struct {
		name   string
		change func(*discovery.Server)
		want   []string
	}{
		{"flags", func(s *discovery.Server) { s.Args = slices.Insert(s.Args, 1, "--privileged", "-d") }, []string{"--privileged", "-d/--detach", "args"}},
		{"an engine of its own", func(s *discovery.Server) { s.Env["DOCKER_HOST"] = "tcp://far" }, []string{"DOCKER_HOST", "engine.runtime"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			server := d.run("fake", fakeConfig{})
			row.change(&server)
			s := p.NewSession(SessionOptions{Servers: openServers(server)})
			t.Cleanup(s.Close)
			_, err := s.Load([]string{"fake"})
			wantCode(t, err, CodeNotAvailable, row.want...)
			list, err := ask(t, s, "servers.list", args{})
			if err != nil || !strings.Contains(string(list), row.want[0]) {
				t.Errorf("servers.list = %s, %v; want the problem", list, err)
			}
		})
	}
}

// A slowEngine has a registry whose images come when they are let.
type slowEngine struct {
	*enginetest.Memory
	pulled chan string   // a name for each pull that begins
	let    chan struct{} // closed when they may come
}

func (e *slowEngine) Pull(ctx context.Context, ref, _ string, progress engines.Progress) error {
	e.pulled <- ref
	progress("layer one", 5e6, 9e6)
	select {
	case <-e.let:
		e.AddImage(ref, nil)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestImagesAreFetchedOnceAndForAll(t *testing.T) {
	d := newDock(t)
	engine := &slowEngine{Memory: d.engine, pulled: make(chan string, 10), let: make(chan struct{})}
	o := d.options()
	o.Containers.Engine = func(context.Context) (engines.Engine, error) { return engine, nil }
	o.FirstStartTimeout = 5 * time.Second                     // which is enough when the image is there
	o.backoffMin, o.backoffMax = 2*time.Second, 2*time.Second // a call tries once
	p := newProxy(t, o)
	one, two := d.run("fake", fakeConfig{}), d.run("other", fakeConfig{})
	one.Args[len(one.Args)-2], two.Args[len(two.Args)-2] = "some/image", "some/image"
	s := open(t, p, one, two)
	failed := make(chan error, 2)
	for _, name := range []string{"fake", "other"} {
		go func() {
			_, err := call(t, s, name, "echo", args{})
			failed <- err
		}()
	}
	for range 2 {
		wantCode(t, next(t, failed), CodeServerFailed, "docker.io/some/image:latest", "still being fetched", "layer one (5 of 9 MB)", "try again")
	}
	close(engine.let)
	for _, name := range []string{"fake", "other"} {
		eventually(t, name+" starts", func() bool {
			_, err := call(t, s, name, "echo", args{})
			return err == nil
		})
	}
	if got := len(engine.pulled); got != 1 {
		t.Errorf("the image was fetched %d times, want once", got)
	}
}

func TestCloseEndsAFetch(t *testing.T) {
	d := newDock(t)
	engine := &slowEngine{Memory: d.engine, pulled: make(chan string, 10), let: make(chan struct{})}
	o := d.options()
	o.Containers.Engine = func(context.Context) (engines.Engine, error) { return engine, nil }
	p := newProxy(t, o)
	server := d.run("fake", fakeConfig{}, "--pull", "always")
	server.Args[len(server.Args)-2] = "some/image"
	d.engine.AddImage("some/image", nil)
	s := open(t, p, server)
	done := make(chan error, 1)
	go func() {
		_, err := call(t, s, "fake", "echo", args{})
		done <- err
	}()
	if got := next(t, engine.pulled); got != "docker.io/some/image:latest" {
		t.Errorf("fetched %s", got)
	}
	eventually(t, "the session is told of it", func() bool {
		return strings.HasSuffix(strings.Join(s.Waiting(), ""), "its image docker.io/some/image:latest is being fetched: layer one (5 of 9 MB)")
	})
	closeProxy(t, p)
	if err := next(t, done); !errors.Is(err, ErrClosed) {
		t.Errorf("the call: %v, want %v", err, ErrClosed)
	}
}

func TestSandboxesRunAnyServer(t *testing.T) {
	d := newDock(t)
	o := d.options()
	o.Settings = []Setting{{Name: "fa*", Sandbox: &Sandbox{Image: enginetest.MemoryImage, Mounts: []string{d.dir + ":/data:ro"}, User: "7:7"}}}
	p := newProxy(t, o)
	server := d.server("fake", fakeConfig{})
	server.Cwd = "/nowhere" // is not looked at
	s := open(t, p, server, d.server("other", fakeConfig{}))
	t.Setenv("LANG", "not for servers in containers")
	if env := environmentOf(t, s); slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "LANG=") }) {
		t.Errorf("the container's variables are %q, want no LANG", env)
	}
	specs := d.engine.Servers()
	if len(specs) != 1 {
		t.Fatalf("there are %d containers, want one", len(specs))
	}
	got := specs[0]
	want := engines.ServerSpec{
		Name: got.Name, Image: enginetest.MemoryImage, Entrypoint: []string{server.Command}, Env: server.Env, Labels: got.Labels,
		User: "7:7", Workdir: "/", Network: engines.NetworkNone,
		Mounts: []engines.ServerMount{{Source: d.dir, Target: "/data", ReadOnly: true}},
	}.WithDefaults()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if _, err := call(t, s, "other", "echo", args{}); err != nil {
		t.Errorf("a server that the setting is not for: %v", err)
	}
	if st := p.Status()[1]; st.PID == 0 || st.Container != "" {
		t.Errorf("status = %+v, want a process", st)
	}
}

func TestSandboxOfAContainerIsRefused(t *testing.T) {
	d := newDock(t)
	o := d.options()
	o.Settings = []Setting{{Sandbox: &Sandbox{Image: enginetest.MemoryImage}}}
	s := newProxy(t, o).NewSession(SessionOptions{Servers: openServers(d.run("fake", fakeConfig{}))})
	t.Cleanup(s.Close)
	_, err := s.Load([]string{"fake"})
	wantCode(t, err, CodeNotAvailable, "runs a container already", "[[server]]")
}

func TestContainerNames(t *testing.T) {
	for _, row := range []struct{ given, server, want string }{
		{"box", "x", "box-"},
		{"", "My server/2 ü", "bridged-My-server-2---"},
		{"", strings.Repeat("a", 200), "bridged-" + strings.Repeat("a", 111) + "-"},
	} {
		got := containerName(row.given, row.server)
		if !strings.HasPrefix(got, row.want) || len(got) != len(row.want)+8 || got == containerName(row.given, row.server) {
			t.Errorf("containerName(%q, %q) = %s, want %s and an end of its own", row.given, row.server, got, row.want)
		}
	}
}

// What a container is named by must not hold what its variables hold.
func TestKeysOfContainersHoldNoSecret(t *testing.T) {
	d := newDock(t)
	p := newProxy(t, d.options())
	server := d.run("fake", fakeConfig{}, "-e", "KEY=canary-secret")
	s := open(t, p, server)
	must(t, s, "echo", args{})
	list, err := json.Marshal(p.Status())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range p.list() {
		if strings.Contains(b.key+b.digest+string(list), "canary") {
			t.Errorf("the key, the digest or the status shows a secret")
		}
	}
	if _, set := os.LookupEnv("KEY"); set {
		t.Error("KEY is set in the test's own environment")
	}
}
