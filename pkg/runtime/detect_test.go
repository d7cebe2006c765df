package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCandidates(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		opts DetectOptions
		want []string // engine, endpoint, and * if explicit
		err  string
	}{
		{
			name: "without a word the usual sockets are looked at, rootless first",
			env:  map[string]string{"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/7"},
			opts: DetectOptions{UID: 7},
			want: []string{
				"podman unix:///run/user/7/podman/podman.sock",
				"podman unix:///run/podman/podman.sock",
				"docker unix:///run/user/7/docker.sock",
				"docker unix:///home/u/.docker/run/docker.sock",
				"docker unix:///home/u/.docker/desktop/docker.sock",
				"docker unix:///home/u/.colima/default/docker.sock",
				"docker unix:///home/u/.orbstack/run/docker.sock",
				" unix:///var/run/docker.sock",
			},
		},
		{
			name: "a runtime folder elsewhere does not hide the usual one",
			env:  map[string]string{"XDG_RUNTIME_DIR": "/tmp/x"},
			opts: DetectOptions{UID: 7, Runtime: "podman"},
			want: []string{
				"podman unix:///tmp/x/podman/podman.sock*",
				"podman unix:///run/user/7/podman/podman.sock*",
				"podman unix:///run/podman/podman.sock*",
				"podman unix:///var/run/docker.sock*",
			},
		},
		{
			name: "a Mac has Podman machines",
			env:  map[string]string{"HOME": "/Users/u", "TMPDIR": "/var/t/", "MCP_BRIDGE_RUNTIME": "podman"},
			opts: DetectOptions{UID: 501, GOOS: "darwin"},
			want: []string{
				"podman unix:///var/t/podman/podman-machine-default-api.sock*",
				"podman unix:///Users/u/.local/share/containers/podman/machine/podman.sock*",
				"podman unix:///Users/u/.local/share/containers/podman/machine/podman-machine-default/podman.sock*",
				"podman unix:///Users/u/.local/share/containers/podman/machine/qemu/podman.sock*",
				"podman unix:///var/run/docker.sock*",
			},
		},
		{
			name: "the hosts of the engines' own tools come before the usual sockets",
			env:  map[string]string{"CONTAINER_HOST": "unix:///a", "DOCKER_HOST": "tcp://b:1"},
			want: []string{"podman unix:///a*", " tcp://b:1*"},
		},
		{
			name: "a chosen engine keeps to its own host",
			env:  map[string]string{"CONTAINER_HOST": "unix:///a", "MCP_BRIDGE_RUNTIME": "docker"},
			want: []string{"docker unix:///run/user/0/docker.sock*", "docker unix:///var/run/docker.sock*"},
		},
		{
			name: "the configuration comes before MCP_BRIDGE_RUNTIME",
			env:  map[string]string{"MCP_BRIDGE_RUNTIME": "docker", "CONTAINER_HOST": "unix:///a"},
			opts: DetectOptions{Runtime: "/my/engine.sock"},
			want: []string{" unix:///my/engine.sock*"},
		},
		{
			name: "an unset configuration falls through",
			env:  map[string]string{"MCP_BRIDGE_RUNTIME": "podman=tcp://h:2"},
			opts: DetectOptions{Runtime: "auto"},
			want: []string{"podman tcp://h:2*"},
		},
		{
			name: "ssh is Podman's",
			env:  map[string]string{"MCP_BRIDGE_RUNTIME": "ssh://u@h/run/podman/podman.sock"},
			want: []string{"podman ssh://u@h/run/podman/podman.sock*"},
		},
		{
			name: "a choice that is none is an error that lists the choices",
			env:  map[string]string{"MCP_BRIDGE_RUNTIME": "containerd"},
			err:  `MCP_BRIDGE_RUNTIME is "containerd": use podman, docker, or a socket`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := Candidates(func(k string) string { return tt.env[k] }, tt.opts)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error = %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("Candidates: %v", err)
			}
			var got []string
			for _, c := range list {
				row := c.Engine + " " + c.Endpoint
				if c.Explicit {
					row += "*"
				}
				got = append(got, row)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
		})
	}
}

// namedEngine is an engine that is only told from others.
type namedEngine struct {
	Engine
	name string
}

func (namedEngine) Close() error { return nil }

func dialers(up map[string]bool, asked *[]string, fail error) map[string]DialFunc {
	dial := func(name string) DialFunc {
		return func(_ context.Context, endpoint string) (Engine, error) {
			key := name + " " + endpoint
			*asked = append(*asked, key)
			if up[key] {
				return namedEngine{name: key}, nil
			}
			return nil, fail
		}
	}
	return map[string]DialFunc{Podman: dial(Podman), Docker: dial(Docker)}
}

func TestDetectTakesTheFirstThatAnswers(t *testing.T) {
	var asked []string
	up := map[string]bool{"docker unix:///b": true, "docker unix:///c": true}
	list := []Candidate{{Engine: Podman, Endpoint: "unix:///a"}, {Endpoint: "unix:///b"}, {Engine: Docker, Endpoint: "unix:///c"}}
	e, err := Detect(t.Context(), list, dialers(up, &asked, syscall.ECONNREFUSED))
	if err != nil {
		t.Fatalf("Detect: %v", err)
	}
	if want := (namedEngine{name: "docker unix:///b"}); e != want {
		t.Errorf("engine = %v, want %v", e, want)
	}
	want := []string{"podman unix:///a", "podman unix:///b", "docker unix:///b", "podman unix:///b"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// A service that is starting answers to the second question only.
func TestDetectTakesNoPodmanForADocker(t *testing.T) {
	var asked []string
	up := map[string]bool{"docker unix:///b": true}
	dial := dialers(up, &asked, syscall.ECONNREFUSED)
	inner := dial[Docker]
	dial[Docker] = func(ctx context.Context, endpoint string) (Engine, error) {
		up["podman unix:///b"] = true
		return inner(ctx, endpoint)
	}
	e, err := Detect(t.Context(), []Candidate{{Endpoint: "unix:///b"}}, dial)
	if want := (namedEngine{name: "podman unix:///b"}); e != want || err != nil {
		t.Errorf("engine = %v, %v, want %v", e, err, want)
	}
}

func TestDetectSaysWhatWasTriedAndWhatToDo(t *testing.T) {
	usual := []Candidate{
		{Engine: Podman, Endpoint: "unix:///p", Why: "Podman's user socket"},
		{Engine: Docker, Endpoint: "unix:///d", Why: "Docker's system socket"},
	}
	chosen := slices.Clone(usual[1:])
	chosen[0].Explicit, chosen[0].Why = true, "MCP_BRIDGE_RUNTIME, Docker's system socket"
	tests := []struct {
		name string
		list []Candidate
		fail error
		want []string
	}{
		{
			"sockets that are not there", usual, fmt.Errorf("dial: %w", syscall.ENOENT),
			[]string{"unix:///p as podman (Podman's user socket): no such socket", "unix:///d as docker", "systemctl --user enable --now podman.socket"},
		},
		{
			"sockets that are not there, in the words of Docker's library", usual, fmt.Errorf("%s", "Cannot connect to the Docker daemon at unix:///d. Is the docker daemon running?"),
			[]string{"unix:///d as docker (Docker's system socket): no such socket", "`bridged doctor`"},
		},
		{
			"sockets on which nothing listens", usual, errors.New("dial unix /p: connect: connection refused"),
			[]string{"nothing listens there"},
		},
		{
			"a socket of another group", usual, fmt.Errorf("dial: %w", syscall.EACCES),
			[]string{"permission denied", "sudo usermod -aG docker $USER"},
		},
		{
			"a choice that fails", chosen, syscall.ENOENT,
			[]string{"unix:///d as docker", "sudo systemctl start docker", "change MCP_BRIDGE_RUNTIME."},
		},
		{"no place at all", nil, nil, []string{"there was no place to look"}},
		{"another error in its own words", usual, errors.New("the server is haunted"), []string{"the server is haunted"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			_, err := Detect(t.Context(), tt.list, dialers(nil, &asked, tt.fail))
			if !errors.Is(err, ErrNoEngine) {
				t.Fatalf("error = %v, want one that wraps ErrNoEngine", err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

// Where the configuration's value comes from the variable, that is told.
func TestAChoiceIsToldByItsPlace(t *testing.T) {
	env := map[string]string{"MCP_BRIDGE_RUNTIME": "/a.sock"}
	for configured, want := range map[string]string{"/a.sock": "MCP_BRIDGE_RUNTIME", "/b.sock": "the configuration", "": "MCP_BRIDGE_RUNTIME"} {
		list, err := Candidates(func(k string) string { return env[k] }, DetectOptions{Runtime: configured})
		if err != nil || len(list) != 1 || list[0].Why != want {
			t.Errorf("%q: got %+v, %v, want %s", configured, list, err, want)
		}
	}
}

func TestDetectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("shutting down")
	cancel(stop)
	var asked []string
	_, err := Detect(ctx, []Candidate{{Engine: Podman, Endpoint: "unix:///a"}}, dialers(nil, &asked, syscall.ENOENT))
	if !errors.Is(err, stop) {
		t.Errorf("error = %v, want %v", err, stop)
	}
}
