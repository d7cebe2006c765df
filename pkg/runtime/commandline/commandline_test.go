package commandline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bridged/bridged/pkg/runtime"
)

// variables are what a definition and its agent hold.
var variables = map[string]string{"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_x", "EMPTY": "", "A": "1"}

func origin(dir string) Origin {
	return Origin{Dir: dir, Lookup: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
}

// words makes an argv of a line whose items have no spaces.
func words(line string) []string { return strings.Fields(line) }

func TestIsRun(t *testing.T) {
	tests := []struct {
		name string
		argv []string
		want bool
	}{
		{"docker run", words("docker run -i img"), true},
		{"a full path", words("/usr/local/bin/docker run -i img"), true},
		{"a program of Windows", []string{`C:\Program Files\Docker\docker.exe`, "run", "img"}, true},
		{"podman", words("podman run img"), true},
		{"nerdctl", words("nerdctl run img"), true},
		{"container run", words("docker container run img"), true},
		{"global options", words("docker --context far run img"), true},
		{"global options of Podman", words("podman --remote -c far run img"), true},
		{"an unknown global option", words("docker --new run img"), true},
		{"nothing but the tool", words("docker"), false},
		{"an exec", words("docker exec -i name server"), false},
		{"compose, which has a run of its own", words("docker compose run server"), false},
		{"the gateway", words("docker mcp gateway run"), false},
		{"a shell that runs it", []string{"sh", "-c", "docker run img"}, false},
		{"another program", words("dockerize run"), false},
		{"no program", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsRun(tt.argv); got != tt.want {
				t.Errorf("IsRun(%q) = %v, want %v", tt.argv, got, tt.want)
			}
		})
	}
}

func bindMount(source, target string) runtime.ServerMount {
	return runtime.ServerMount{Source: source, Target: target}
}

// plain is what a line that names an image alone means.
func plain(image, remote string) Run {
	return Run{Spec: runtime.ServerSpec{Image: image, Network: "bridge"}, Remote: remote, Pull: "missing"}
}

func with(r Run, change func(*Run)) Run {
	change(&r)
	return r
}

func TestParse(t *testing.T) {
	const remote = "docker.io/library/img:latest"
	spec := func(change func(*runtime.ServerSpec)) Run {
		return with(plain("img", remote), func(r *Run) { change(&r.Spec) })
	}
	tests := []struct {
		name string
		argv []string
		want Run
	}{
		{
			"a token passed on by name",
			words("docker run -i --rm -e GITHUB_PERSONAL_ACCESS_TOKEN ghcr.io/github/github-mcp-server"),
			with(plain("ghcr.io/github/github-mcp-server", "ghcr.io/github/github-mcp-server:latest"), func(r *Run) {
				r.Spec.Env = map[string]string{"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_x"}
			}),
		},
		{
			"folders by --mount and as arguments",
			words("docker run -i --rm --mount type=bind,src=/Users/me/Desktop,dst=/projects/Desktop " +
				"--mount type=bind,src=/srv/files,dst=/projects/files,ro --mount type=bind,src=/a/file.txt,dst=/projects/file.txt mcp/filesystem /projects"),
			with(plain("mcp/filesystem", "docker.io/mcp/filesystem:latest"), func(r *Run) {
				r.Spec.Args = []string{"/projects"}
				r.Spec.Mounts = []runtime.ServerMount{
					bindMount("/Users/me/Desktop", "/projects/Desktop"),
					{Source: "/srv/files", Target: "/projects/files", ReadOnly: true},
					bindMount("/a/file.txt", "/projects/file.txt"),
				}
			}),
		},
		{
			"a volume, a user and a network",
			words("docker run --rm -i -v claude-memory:/app/dist -u 1000:1000 --network=none mcp/memory"),
			with(plain("mcp/memory", "docker.io/mcp/memory:latest"), func(r *Run) {
				r.Spec.Mounts = []runtime.ServerMount{{Volume: true, Source: "claude-memory", Target: "/app/dist"}}
				r.Spec.User, r.Spec.Network = "1000:1000", "none"
			}),
		},
		{
			"a variable with its value, and a shared memory size",
			words("docker run -i --rm --init -e DOCKER_CONTAINER=true --shm-size 1g mcp/puppeteer@sha256:" + strings.Repeat("a", 64)),
			with(plain("mcp/puppeteer@sha256:"+strings.Repeat("a", 64), "docker.io/mcp/puppeteer@sha256:"+strings.Repeat("a", 64)), func(r *Run) {
				r.Spec.Init, r.Spec.ShmBytes = true, 1<<30
				r.Spec.Env = map[string]string{"DOCKER_CONTAINER": "true"}
			}),
		},
		{
			"Podman, whose short names are the user's own",
			words("/usr/bin/podman run --interactive --replace --pull=never --entrypoint [\"npx\",\"-y\"] tools:1 server --port 1"),
			with(plain("tools:1", "tools:1"), func(r *Run) {
				r.Spec.Entrypoint, r.Spec.Args, r.Pull = []string{"npx", "-y"}, []string{"server", "--port", "1"}, "never"
			}),
		},
		{"nerdctl", words("nerdctl run -i img"), plain("img", remote)},
		{"container run", words("docker container run -i img"), plain("img", remote)},
		{"Podman's remote flag", words("podman --remote --log-level=debug run img"), plain("img", "img")},
		{"an image by its id", words("docker run " + strings.Repeat("ab", 32)), plain(strings.Repeat("ab", 32), strings.Repeat("ab", 32))},
		{
			"a terminal, which is left out",
			words("docker run -it --rm img"),
			with(plain("img", remote), func(r *Run) {
				r.Notes = []string{"-t/--tty is left out: a server speaks over pipes, a terminal would garble it"}
			}),
		},
		{"letters together, the last with a value", words("docker run -ie A=2 img"), spec(func(s *runtime.ServerSpec) { s.Env = map[string]string{"A": "2"} })},
		{"a letter with its value", words("docker run -eA=2 -w/app img"), spec(func(s *runtime.ServerSpec) { s.Env, s.Workdir = map[string]string{"A": "2"}, "/app" })},
		{
			"variables that are not set, or empty, or hold anything",
			[]string{"docker", "run", "-e", "NONE", "-e", "EMPTY", "-e", "B=", "--env", "C=x=y z\n", "-e", "A", "-e", "A=2", "img"},
			spec(func(s *runtime.ServerSpec) { s.Env = map[string]string{"EMPTY": "", "B": "", "C": "x=y z\n", "A": "2"} }),
		},
		{
			"a flag and its value in one item",
			[]string{"docker", "run", "-i", "-e A=3", "-v /a:/b", "img"},
			spec(func(s *runtime.ServerSpec) {
				s.Env, s.Mounts = map[string]string{"A": "3"}, []runtime.ServerMount{bindMount("/a", "/b")}
			}),
		},
		{"flags after the image are the server's", words("docker run img --privileged -e X -- y"), spec(func(s *runtime.ServerSpec) { s.Args = words("--privileged -e X -- y") })},
		{"two dashes before the image", words("docker run -i -- img -x"), spec(func(s *runtime.ServerSpec) { s.Args = []string{"-x"} })},
		{
			"volumes of all kinds",
			words("docker run -v /a:/b:ro -v ./rel:/c:rw,z -v ..:/d -v named:/e -v /anon -v /x/../y/:/f:cached img"),
			spec(func(s *runtime.ServerSpec) {
				s.Mounts = []runtime.ServerMount{
					{Source: "/a", Target: "/b", ReadOnly: true}, {Source: "/work/dir/rel", Target: "/c", Relabel: "z"},
					bindMount("/work", "/d"), {Volume: true, Source: "named", Target: "/e"}, {Volume: true, Target: "/anon"}, bindMount("/y", "/f"),
				}
			}),
		},
		{
			"mounts of other kinds",
			[]string{"docker", "run", "--mount", "type=volume,source=v,target=/v,readonly", "--mount", "type=tmpfs,dst=/t,tmpfs-size=1m,tmpfs-mode=700",
				"--mount", `type=bind,"src=/with,comma",dst=/c`, "--mount", "type=bind,src=./d,dst=/d", "img"},
			spec(func(s *runtime.ServerSpec) {
				s.Mounts = []runtime.ServerMount{
					{Volume: true, Source: "v", Target: "/v", ReadOnly: true}, bindMount("/with,comma", "/c"), bindMount("/work/dir/d", "/d"),
				}
				s.Tmpfs = []runtime.Tmpfs{{Target: "/t", SizeBytes: 1 << 20, Mode: 0o700}}
			}),
		},
		{
			"folders in memory",
			words("docker run --tmpfs /a --tmpfs /b:size=2m,mode=755,exec --read-only img"),
			spec(func(s *runtime.ServerSpec) {
				s.ReadOnly = true
				s.Tmpfs = []runtime.Tmpfs{{Target: "/a", Mode: 0o1777}, {Target: "/b", SizeBytes: 2 << 20, Mode: 0o755, Exec: true}}
			}),
		},
		{
			"limits",
			words("docker run -m 512m --memory-swap 1g --cpus=1.5 --pids-limit 50 img"),
			with(spec(func(s *runtime.ServerSpec) { s.MemoryBytes, s.CPUs, s.Pids = 512<<20, 1.5, 50 }), func(r *Run) {
				r.Notes = []string{"--memory-swap is left out: memory and swap are limited together"}
			}),
		},
		{"no limits", words("docker run -m 0 --pids-limit=-1 img"), spec(func(s *runtime.ServerSpec) { s.MemoryBytes, s.Pids = -1, -1 })},
		{
			"capabilities and privileges",
			words("docker run --cap-drop ALL --cap-add=NET_ADMIN --cap-add cap_kill,CHOWN --security-opt no-new-privileges --security-opt=no-new-privileges:true --privileged=false img"),
			spec(func(s *runtime.ServerSpec) { s.CapDrop, s.CapAdd = words("ALL"), words("NET_ADMIN cap_kill CHOWN") }),
		},
		{
			"names and addresses",
			words("docker run --name box -h here --add-host db:10.0.0.1 --dns 9.9.9.9 --label a=b -l c --net host --platform linux/arm64/v8 img"),
			spec(func(s *runtime.ServerSpec) {
				s.Name, s.Hostname, s.Network, s.Platform = "box", "here", "host", "linux/arm64/v8"
				s.ExtraHosts, s.DNS, s.Labels = words("db:10.0.0.1"), words("9.9.9.9"), map[string]string{"a": "b", "c": ""}
			}),
		},
		{
			"ports, on this machine alone where no address is given",
			words("docker run -p 8080:80 --publish 0.0.0.0:53:53/udp -p 90 --network mine img"),
			spec(func(s *runtime.ServerSpec) {
				s.Network = "mine"
				s.Ports = []runtime.Port{
					{Address: "0.0.0.0", Host: 53, Container: 53, Protocol: "udp"}, {Address: "127.0.0.1", Host: 8080, Container: 80, Protocol: "tcp"},
					{Address: "127.0.0.1", Container: 90, Protocol: "tcp"},
				}
			}),
		},
		{
			"how it ends",
			words("docker run --stop-signal SIGINT --stop-timeout 7 --log-driver none --restart no img"),
			with(plain("img", remote), func(r *Run) {
				r.StopSignal, r.StopGrace = "SIGINT", 7*time.Second
				r.Notes = []string{"--log-driver is left out: what a server writes is kept by bridged alone", "--restart is left out: bridged starts a server again when it is needed"}
			}),
		},
		{"an entrypoint that takes the image's away", []string{"docker", "run", "--entrypoint", "", "img", "sh", "-c", "x"}, spec(func(s *runtime.ServerSpec) { s.Entrypoint = words("sh -c x") })},
		{"an entrypoint without arguments", words("docker run --entrypoint /bin/server img"), spec(func(s *runtime.ServerSpec) { s.Entrypoint = words("/bin/server") })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.argv, origin("/work/dir"))
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name string
		argv []string
		want []string // in the error
	}{
		{
			"everything that can't be honoured, at once",
			words("docker run -d --privileged -i --gpus all --device /dev/kvm --volumes-from other -e A img"),
			[]string{"-d/--detach (the server must stay attached)", "--privileged (", "--gpus", "--device", "--volumes-from", "take that out of args"},
		},
		{"an unknown flag beside a known one", words("docker run --privileged --wonder -i img"), []string{"--privileged", "--wonder (no such flag is known)"}},
		{"an unknown letter", words("docker run -iX img"), []string{"-X (no such flag is known)"}},
		{"two unknown flags", words("docker run --one --two=3 img"), []string{"--one", "--two"}},
		{"a flag with its value in one item", []string{"docker", "run", "--mount type=bind,src=/a,dst=/b", "img"}, []string{"two items of args"}},
		{"an engine chosen on the line", words("docker --context far -H tcp://x run img"), []string{"-c/--context", "-H/--host", "engine.runtime"}},
		{"an engine chosen with Podman", words("podman --connection far run img"), []string{"--connection"}},
		{"an unknown flag before run", words("docker --new run img"), []string{"--new before run"}},
		{"no image", words("docker run -i --rm"), []string{"names no image"}},
		{"an image that is none", []string{"docker", "run", "a b"}, []string{`"a b" is no name of an image`}},
		{"an end in the middle", words("docker run -i -e"), []string{"end in the middle"}},
		{"another container's network", words("docker run --network container:db img"), []string{"--network container:db"}},
		{"two networks", words("docker run --network a --network b img"), []string{"more than one --network"}},
		{"a network with options", words("docker run --network name=a,alias=b img"), []string{"more than a name"}},
		{"no seccomp", words("docker run --security-opt seccomp=unconfined img"), []string{"--security-opt seccomp=unconfined"}},
		{"privileges that may grow", words("docker run --security-opt no-new-privileges=false img"), []string{"no-new-privileges=false"}},
		{"all capabilities", words("docker run --cap-add ALL img"), []string{"--cap-add ALL"}},
		{"a path that a shell would read", words("docker run -v ~/a:/b img"), []string{"~/a", "absolute path"}},
		{"a path that is no volume either", words("docker run -v a/b:/b img"), []string{`"a/b"`}},
		{"a target that is relative", words("docker run -v /a:b img"), []string{`target "b"`}},
		{"a target that is the root", words("docker run -v /a:/ img"), []string{`target "/"`}},
		{"an option of a volume", words("docker run -v /a:/b:rshared img"), []string{"option rshared"}},
		{"an option of a mount", words("docker run --mount type=bind,src=/a,dst=/b,bind-propagation=shared img"), []string{"can be honoured"}},
		{"a mount of another kind", words("docker run --mount type=image,src=a,dst=/b img"), []string{"type image"}},
		{"a mount that is none", words("docker run --mount src img"), []string{"--mount"}},
		{"a pull that is none", words("docker run --pull sometimes img"), []string{`--pull "sometimes"`}},
		{"a size that is none", words("docker run -m lots img"), []string{"-m/--memory"}},
		{"a port that is none", words("docker run -p web img"), []string{"-p/--publish"}},
		{"many ports", words("docker run -p 1-65535:1-65535 img"), []string{"range of ports"}},
		{"a label of ours", words("docker run -l io.bridged.managed=true img"), []string{"io.bridged.managed"}},
		{"a name that is none", words("docker run --name a/b img"), []string{"--name"}},
		{"a variable without a name", []string{"docker", "run", "-e", "=x", "img"}, []string{"NAME=value"}},
		{"a file of variables that is missing", words("docker run --env-file none img"), []string{"--env-file none"}},
		{"a NUL", []string{"docker", "run", "-e", "A=\x00", "img"}, []string{"NUL"}},
		{"help", words("docker run --help"), []string{"--help"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Parse(tt.argv, origin(t.TempDir()))
			if err == nil {
				t.Fatalf("Parse = %+v, want an error", r)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want it to say %q", err, want)
				}
			}
		})
	}
}

func TestEnvFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one.env", "\uFEFF# comment\n  A=file \nB=1\nGITHUB_PERSONAL_ACCESS_TOKEN\nNONE\n")
	write("two.env", "B=2\n")
	r, err := Parse(words("docker run --env-file one.env --env-file "+filepath.Join(dir, "two.env")+" -e A=flag img"), origin(dir))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	want := map[string]string{"A": "flag", "B": "2", "GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_x"}
	if diff := cmp.Diff(want, r.Spec.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	write("bad.env", "SECRET hunter2\n")
	write("worse.env", "X=\xff hunter2")
	for _, file := range []string{"bad.env", "worse.env", "."} {
		_, err := Parse(words("docker run --env-file "+file+" img"), origin(dir))
		if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Parse with %s: %v, want an error that names the file and no value", file, err)
		}
	}
}

// No error may hold the value of a variable, whatever is wrong beside it.
func TestErrorsHoldNoValue(t *testing.T) {
	for _, line := range []string{"--privileged", "--wonder", "-m x", "--mount x", "-v ~:/a", "-p x", "--env-file none", "-e", "--network a --network b"} {
		argv := append(words("docker run -e TOKEN=hunter2 --env=OTHER=hunter2"), words(line+" img")...)
		if _, err := Parse(argv, origin("/")); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Parse of %s: %v, want an error without the value", line, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"docker run -i --rm -e A=b -v /a:/b:ro --mount type=bind,src=./a,dst=/b img arg",
		"podman --remote run -it --tmpfs /a:size=1m --entrypoint [\"a\"] -- img", "docker run -p 1:2/udp --net name=x --unknown=1 -zq img",
		"nerdctl run --cap-add a,b --label x=y --add-host a:1.2.3.4 --memory 1g --cpus 0.5 img", "docker run --env-file x --help",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		argv := strings.Split(text, "\n")
		if !IsRun(argv) {
			return
		}
		r, err := Parse(argv, origin(dir))
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		if r.Spec.Image == "" || r.Remote == "" || r.Spec.Network == "" {
			t.Errorf("Parse = %+v: a field is empty", r)
		}
		for _, m := range r.Spec.Mounts {
			if !strings.HasPrefix(m.Target, "/") || !m.Volume && !filepath.IsAbs(m.Source) {
				t.Errorf("mount %+v is not absolute", m)
			}
		}
	})
}
