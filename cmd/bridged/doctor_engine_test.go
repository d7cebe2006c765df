package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

func podmanPlace(err error) placeFacts {
	return placeFacts{Candidate: runtime.Candidate{Engine: runtime.Podman, Endpoint: "unix:///run/user/1000/podman/podman.sock", Why: "Podman's user socket"},
		path: "/run/user/1000/podman/podman.sock", there: !errors.Is(err, fs.ErrNotExist), socket: true, mode: 0o600, err: err}
}

func dockerPlace(err error) placeFacts {
	return placeFacts{Candidate: runtime.Candidate{Endpoint: "unix:///var/run/docker.sock", Why: "Docker's system socket"},
		path: "/var/run/docker.sock", there: !errors.Is(err, fs.ErrNotExist), socket: true, mode: 0o660, err: err}
}

func TestEngineFaults(t *testing.T) {
	const startUser = "systemctl --user enable --now podman.socket"
	environment := env("MCP_BRIDGE_RUNTIME=podman")
	facts := func(places ...placeFacts) engineFacts {
		return engineFacts{places: places, user: "jo", getenv: environment, start: startUser, mend: repair{deed: repairUnit, path: podmanUnit}, file: "/c/config.toml", line: 3}
	}
	with := func(f engineFacts, edit func(*engineFacts)) func() outcome {
		edit(&f)
		return f.judge
	}
	chosen := func(p placeFacts, why string) placeFacts {
		p.Explicit, p.Why = true, why
		return p
	}
	at := func(p placeFacts, endpoint string) placeFacts {
		p.Endpoint, p.path = endpoint, strings.TrimPrefix(endpoint, "unix://")
		return p
	}
	hung := &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	memory := enginetest.NewMemory(t, enginetest.Options{})
	good := podmanPlace(nil)
	reached := func(f *engineFacts) {
		f.engine, f.at = memory, &good
		f.info = runtime.Info{Name: "podman", Version: "5.4.2", APIVersion: "5.4.2", Endpoint: good.Endpoint}
	}
	testFaults(t, []fault{
		{"all is well", with(facts(good), reached), "", "", "", ""},
		{"nobody there", facts(podmanPlace(fs.ErrNotExist), dockerPlace(syscall.ECONNREFUSED)).judge, "engine.none",
			"unix:///var/run/docker.sock (Docker's system socket): nothing listens there", startUser, repairUnit},
		{"podman is not installed", with(facts(podmanPlace(fs.ErrNotExist)), func(f *engineFacts) { f.install, f.mend = "sudo apt-get install -y podman", repair{} }), "engine.none",
			"no such socket", "sudo apt-get install -y podman", ""},
		{"a user's service hangs", facts(podmanPlace(hung)).judge, "engine.hung", "does not answer within", "systemctl --user restart podman.socket podman.service", ""},
		{"the system's docker hangs", facts(dockerPlace(hung)).judge, "engine.hung", "does not answer within", "sudo systemctl restart docker.service", ""},
		{"the system's podman hangs", facts(at(podmanPlace(hung), "unix:///run/podman/podman.sock")).judge, "engine.hung", "", "sudo systemctl restart podman.socket podman.service", ""},
		{"docker desktop hangs", facts(chosen(dockerPlace(hung), "Docker Desktop")).judge, "engine.hung", "", "systemctl --user restart docker-desktop", ""},
		{"rootless docker hangs", facts(at(dockerPlace(hung), "unix:///run/user/1000/docker.sock")).judge, "engine.hung", "", "systemctl --user restart docker.service", ""},
		{"a podman machine hangs", facts(chosen(podmanPlace(hung), "Podman machine")).judge, "engine.hung", "", "podman machine stop; podman machine start", ""},
		{"colima hangs", facts(chosen(dockerPlace(hung), "Colima")).judge, "engine.hung", "", "colima restart", ""},
		{"orbstack hangs", facts(chosen(dockerPlace(hung), "OrbStack")).judge, "engine.hung", "", "orbctl restart", ""},
		{"a chosen socket hangs", facts(chosen(at(dockerPlace(hung), "unix:///x.sock"), "DOCKER_HOST")).judge, "engine.hung", "(DOCKER_HOST)", "unset DOCKER_HOST", ""},
		{"docker's group", facts(podmanPlace(fs.ErrNotExist), dockerPlace(fs.ErrPermission)).judge, "engine.denied", "permission denied", "sudo usermod -aG docker jo", ""},
		{"the system's podman is root's", facts(podmanPlace(fs.ErrPermission)).judge, "engine.denied", "permission denied", startUser, ""},
		{"the engine that was chosen is nowhere", facts(chosen(podmanPlace(fs.ErrNotExist), "MCP_BRIDGE_RUNTIME, Podman's user socket")).judge, "engine.none", "no such socket", startUser, repairUnit},
		{"docker was chosen and is nowhere", with(facts(chosen(dockerPlace(fs.ErrNotExist), "MCP_BRIDGE_RUNTIME, Docker's system socket")), func(f *engineFacts) { f.docker = "sudo systemctl enable --now docker.service" }),
			"engine.none", "no such socket", "sudo systemctl enable --now docker.service", ""},
		{"the socket that was chosen is not there", facts(chosen(podmanPlace(fs.ErrNotExist), "CONTAINER_HOST")).judge, "engine.missing", "was chosen by CONTAINER_HOST", startUser, repairUnit},
		{"a chosen path is not there", facts(chosen(at(dockerPlace(fs.ErrNotExist), "unix:///x.sock"), "MCP_BRIDGE_RUNTIME")).judge, "engine.missing", "no such socket", "unset MCP_BRIDGE_RUNTIME", ""},
		{"a path chosen in the file is not there", with(facts(chosen(at(dockerPlace(fs.ErrNotExist), "unix:///x.sock"), "the configuration")), func(f *engineFacts) { f.getenv = env() }),
			"engine.missing", "no such socket", "${EDITOR:-vi} +3 /c/config.toml", ""},
		{"no socket at all", facts(podmanPlace(errors.New("/run/user/1000/podman/podman.sock is no socket"))).judge, "engine.broken", "is no socket", "systemctl --user restart podman.socket podman.service", ""},
		{"an old one", func() outcome {
			p := podmanPlace(errors.New("server API version is too old"))
			p.answer = answer{product: runtime.Podman, version: "3.4.4"}
			return facts(p).judge()
		}, "engine.old", "3.4.4", upgrade(runtime.Podman), ""},
		{"a socket for everybody", with(facts(good), func(f *engineFacts) {
			reached(f)
			f.places[0].mode = 0o666
		}), "engine.open", "mode 0666", "sudo chmod o-rw /run/user/1000/podman/podman.sock", ""},
		{"in the clear", facts(placeFacts{Candidate: runtime.Candidate{Endpoint: "tcp://192.0.2.1:2375", Why: "DOCKER_HOST", Explicit: true}, err: hung}).judge, "engine.exposed", "without encryption", "unset DOCKER_HOST", ""},
		{"on the loopback", func() outcome {
			return with(facts(placeFacts{Candidate: runtime.Candidate{Endpoint: "tcp://127.0.0.1:2375", Why: "DOCKER_HOST", Explicit: true}}), reached)()
		}, "", "", "", ""},
		{"a choice that is none", with(facts(), func(f *engineFacts) { f.choice = errors.New("use podman, docker, or a socket") }), "engine.choice", "use podman", "unset MCP_BRIDGE_RUNTIME", ""},
	})
	t.Run("a place that hangs before the one that works is a warning", func(t *testing.T) {
		f := facts(at(podmanPlace(hung), "unix:///run/user/0/podman/podman.sock"), good, dockerPlace(hung))
		reached(&f)
		o := f.judge()
		if len(o.findings) != 1 || o.findings[0].Level != levelWarning {
			t.Errorf("%+v", o.findings)
		}
	})
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		a, b  string
		older bool
	}{{"3.4.4", "4.0", true}, {"4.3.1", "4.0", false}, {"1.40", "1.41", true}, {"1.41", "1.41", false}, {"10.0", "4.0", false}, {"", "4.0", false}, {"v4.0-dev", "4.0", false}} {
		if got := olderThan(tt.a, tt.b); got != tt.older {
			t.Errorf("%s older than %s: got %v", tt.a, tt.b, got)
		}
	}
}

// serveAt answers like an engine at a socket, or in another way.
func serveAt(t *testing.T, path string, handle http.HandlerFunc) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: handle, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }() // ends with Close
	t.Cleanup(func() {
		if err := errors.Join(srv.Close()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func TestPlacesAreAskedWhoIsThere(t *testing.T) {
	dir := t.TempDir()
	look := func(name string) placeFacts {
		return lookAtPlace(t.Context(), runtime.Candidate{Endpoint: "unix://" + filepath.Join(dir, name), Why: "test"})
	}
	serveAt(t, filepath.Join(dir, "podman"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Libpod-Api-Version", "4.3.1")
		fmt.Fprint(w, "OK")
	})
	serveAt(t, filepath.Join(dir, "docker"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.47")
		w.Header().Set("Server", "Docker/27.5.1 (linux)")
		w.Header().Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT")
		fmt.Fprint(w, "OK")
	})
	serveAt(t, filepath.Join(dir, "other"), http.NotFound)
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := look("podman"); f.err != nil || f.answer.product != runtime.Podman || f.answer.version != "4.3.1" || f.answer.date.IsZero() {
		t.Errorf("podman: %+v", f)
	}
	if f := look("docker"); f.err != nil || f.answer.product != runtime.Docker || f.answer.version != "27.5.1" || f.answer.date.Year() != 2006 {
		t.Errorf("docker: %+v", f)
	}
	for name, want := range map[string]string{"other": "no container engine", "file": "is no socket", "nothing": "no such file"} {
		if f := look(name); f.err == nil || !strings.Contains(f.err.Error(), want) {
			t.Errorf("%s: %v", name, f.err)
		}
	}
}
