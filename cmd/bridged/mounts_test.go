package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
)

func TestMountsComeFromTheFileOrTheEnvironment(t *testing.T) {
	path := writeConfig(t, "[[mounts]]\nsource = \"/srv/a, b: c\"\ntarget = \"/data/a\"\n[[mounts]]\nsource = \"/srv/b\"\ntarget = \"/data/b\"\n")
	for _, row := range []struct {
		name, env string
		args      []string
		want      []runtime.Mount
	}{
		{name: "the file", want: []runtime.Mount{{Source: "/srv/a, b: c", Target: "/data/a"}, {Source: "/srv/b", Target: "/data/b"}}},
		{name: "the environment", env: "/x:/data, /y:/more", want: []runtime.Mount{{Source: "/x", Target: "/data"}, {Source: "/y", Target: "/more"}}},
		{name: "a flag", env: "/x:/data", args: []string{"--mounts", "/z:/data"}, want: []runtime.Mount{{Source: "/z", Target: "/data"}}},
		{name: "none", env: " ", want: nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := loadConfig(flagsFor(t, append(row.args, "--config", path)...), env("MCP_BRIDGE_MOUNTS="+row.env))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, c.spec().Mounts); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadMountsNameTheSpot(t *testing.T) {
	table := func(source, target string) string {
		return "[[mounts]]\nsource = \"" + source + "\"\ntarget = \"" + target + "\"\n"
	}
	good := table("/srv/a", "/data")
	for _, row := range []struct {
		name, text, env string
		want            []string
	}{
		{name: "a relative source", text: good + table("srv", "/b"), want: []string{"config.toml:4", `"srv"`, "absolute"}},
		{name: "a source with dots", text: table("/srv/../etc", "/b"), want: []string{"config.toml:1", "/srv/../etc"}},
		{name: "no source", text: "\n[[mounts]]\ntarget = \"/b\"\n", want: []string{"config.toml:2", "no source"}},
		{name: "no target", text: "[[ mounts ]]\nsource = \"/b\"\n", want: []string{"config.toml:1", "no target"}},
		{name: "a relative target", text: table("/srv", "data"), want: []string{"config.toml:1", `"data"`}},
		{name: "the root as target", text: table("/srv", "/"), want: []string{`target "/"`}},
		{name: "a target with dots", text: table("/srv", "/data/../usr"), want: []string{"/data/../usr"}},
		{name: "a target with a space", text: table("/srv", "/my data"), want: []string{"/my data", "letters"}},
		{name: "the sandbox's own folder", text: table("/srv", "/workspace"), want: []string{"/workspace is the sandbox's own"}},
		{name: "a place in the sandbox's own folder", text: table("/srv", "/usr/lib/python3"), want: []string{"/usr is the sandbox's own"}},
		{name: "twice the same target", text: good + table("/srv/b", "/data"), want: []string{"config.toml:4", "config.toml:1", "/data"}},
		{name: "a target in another", text: good + table("/srv/b", "/data/b"), want: []string{"config.toml:4", "/data/b"}},
		{name: "a target around another", text: table("/srv/b", "/data/b") + good, want: []string{"config.toml:4", "/data/b"}},
		{name: "an unknown key", text: "[[mounts]]\nsource = \"/a\"\ntarget = \"/data\"\nwritable = true\n", want: []string{"config.toml:4", "mounts.writable"}},
		{name: "a number", text: "[[mounts]]\nsource = 5\n", want: []string{"config.toml:2", "5 is no text"}},
		{name: "a text without target", env: "/srv", want: []string{"MCP_BRIDGE_MOUNTS", "SOURCE:TARGET"}},
		{name: "a text with options", env: "/srv:/data:rw", want: []string{"MCP_BRIDGE_MOUNTS", "SOURCE:TARGET"}},
		{name: "a text with a bad target", env: "/srv:/proc/x", want: []string{"mount /srv:/proc/x", "/proc"}},
		{name: "too many", text: strings.Repeat(good, 33), want: []string{"33", "32"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := loadConfig(flagsFor(t, "--config", writeConfig(t, row.text)), env("MCP_BRIDGE_MOUNTS="+row.env))
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range row.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestSourcesAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	made := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	public, secret, own := made("public", 0o755), made("secret", 0o700), made("own", 0o700)
	link, file, socket := filepath.Join(dir, "link"), filepath.Join(public, "f"), filepath.Join(own, "s")
	if err := os.Symlink(public, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, row := range []struct {
		name, source, resolved, warning, err string
	}{
		{name: "a folder", source: public, resolved: public},
		{name: "a file", source: file, resolved: file},
		{name: "a link is followed once and for all", source: link, resolved: public},
		{name: "what others can't read", source: secret, resolved: secret, warning: "chmod -R o+rX"},
		{name: "what is not there", source: filepath.Join(dir, "no"), err: "does not exist"},
		{name: "a socket", source: socket, err: "neither a file nor a folder"},
		{name: "a device", source: "/dev/null", err: "neither a file nor a folder"},
		{name: "devices", source: "/dev", err: "shows /dev"},
		{name: "processes", source: "/proc/self", err: "shows /proc"},
		{name: "everything", source: "/", err: "shows /proc"},
		{name: "the machine's sockets", source: "/run", err: "holds /run"},
		{name: "the daemon's own folder", source: own, err: "holds " + own},
		{name: "what is around the daemon's own folder", source: dir, err: "holds " + own},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := mountList{{Source: word(row.source), Target: "/data", where: "config.toml:7"}}
			warnings, err := l.resolve("65534:65534", []string{own})
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) || !strings.Contains(err.Error(), "config.toml:7") {
					t.Errorf("got %v, want an error that says config.toml:7 and %q", err, row.err)
				}
				return
			}
			if err != nil || string(l[0].Source) != row.resolved {
				t.Errorf("got %s, %v, want %s", l[0].Source, err, row.resolved)
			}
			if got := strings.Join(warnings, "\n"); !strings.Contains(got, row.warning) || (row.warning == "") != (got == "") {
				t.Errorf("got warnings %q, want one that says %q", got, row.warning)
			}
		})
	}
}

func TestEngineSocketsArePrivate(t *testing.T) {
	p := paths{socket: "/s/run/mcp.sock", ops: "/s/run/ops.sock", state: "/s/state"}
	private := privatePaths(defaultConfig(), p, env("DOCKER_HOST=unix:///elsewhere/d.sock"))
	for _, want := range []string{"/s/run", "/s/state", "/elsewhere/d.sock", "/var/run/docker.sock", "/run/podman/podman.sock"} {
		if !strings.Contains("\n"+strings.Join(private, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("%s is not among %q", want, private)
		}
	}
}

func TestServeRefusesABadMountBeforeItListens(t *testing.T) {
	c := defaultConfig()
	c.Mounts = mountList{{Source: "/nonexistent", Target: "/data", where: "config.toml:1"}}
	dir := t.TempDir()
	p := paths{socket: dir + "/mcp.sock", ops: dir + "/ops.sock", state: dir + "/state"}
	err := serve(t.Context(), c, p, false, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "config.toml:1: source /nonexistent does not exist") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(p.socket); err == nil {
		t.Error("it listened")
	}
}
