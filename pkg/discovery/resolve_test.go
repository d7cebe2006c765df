package discovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrecedence(t *testing.T) {
	files := tree{
		"home/.claude.json": `{"mcpServers": {"db": {"command": "user"}, "mail": {"command": "user"}},
			"projects": {"ROOT/work": {"mcpServers": {"db": {"command": "local"}}}}}`,
		"work/.mcp.json":        `{"mcpServers": {"db": {"command": "project"}, "mail": {"command": "project"}}}`,
		"home/.cursor/mcp.json": `{"mcpServers": {"db": {"command": "cursor"}, "DB": {"command": "upper"}}}`,
		"home/MCPs/a.json":      `{"mcpServers": {"db": {"command": "seed-a"}, "files": {"command": "a"}}}`,
		"home/MCPs/b.json":      `{"mcpServers": {"files": {"command": "b"}}}`,
	}
	res, _ := files.load(t)
	want := map[string]string{
		"db": "local", "mail": "project", "cursor/db": "cursor", "DB": "upper", "seed/db": "seed-a", "files": "a",
	}
	got := map[string]string{}
	for _, s := range res.Servers {
		got[s.Name] = s.Command
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	var shadowed []string
	for _, s := range res.Shadowed {
		shadowed = append(shadowed, s.Server.Name+" "+s.Server.Command+" by "+filepath.Base(s.By.Path))
	}
	wantShadowed := []string{
		"db project by .claude.json", "files b by a.json", "db user by .claude.json", "mail user by .mcp.json",
	}
	if diff := cmp.Diff(wantShadowed, shadowed); diff != "" {
		t.Errorf("shadowed (-want +got):\n%s", diff)
	}
}

func TestLoadIsDeterministic(t *testing.T) {
	root := tree{
		"home/.claude.json":     `{"mcpServers": {"a": {"command": "1", "env": {"X": "1", "Y": "2", "Z": "3"}}, "b": {}, "c": {}}}`,
		"home/.cursor/mcp.json": `{"mcpServers": {"a": {"command": "2"}, "b": 1, "d": {"command": "x", "env": {"A": [], "B": [], "C": []}}}}`,
	}.write(t)
	opts := Options{Home: root + "/home", Cwd: root + "/home"}
	first := Load(opts)
	for range 10 {
		if diff := cmp.Diff(first, Load(opts), cmp.AllowUnexported(Server{})); diff != "" {
			t.Fatalf("a second load differs (-first +second):\n%s", diff)
		}
	}
}

func TestEqualDefinitionsAreOneServer(t *testing.T) {
	root := tree{
		"home/.claude.json":     `{"mcpServers": {"docs": {"type": "http", "url": "https://e.test", "headers": {"A": "${TOKEN}"}}, "fs": {"command": "fs", "args": []}}}`,
		"home/.cursor/mcp.json": `{"mcpServers": {"docs": {"url": "https://e.test", "headers": {"A": "${env:TOKEN}"}}, "fs": {"command": "fs", "env": {}}}}`,
		"home/MCPs/a.json":      `{"mcpServers": {"docs": {"url": "https://e.test", "headers": {"A": "${TOKEN}"}}}}`,
	}.write(t)
	res := Load(Options{Home: root + "/home", Getenv: environment(map[string]string{"TOKEN": "secret"})})
	// The seed's file has no variables, so its header is another one.
	if diff := cmp.Diff([]string{"claude-code/docs", "docs", "fs"}, names(res.Servers)); diff != "" {
		t.Fatalf("servers (-want +got):\n%s", diff)
	}
	for _, name := range []string{"claude-code/docs", "fs"} {
		var agents []string
		for _, s := range find(t, res.Servers, name).Sources {
			agents = append(agents, s.Agent)
		}
		if diff := cmp.Diff([]string{"claude-code", "cursor"}, agents); diff != "" {
			t.Errorf("agents of %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDuplicateKeysAreTold(t *testing.T) {
	res, _ := tree{"home/.cursor/mcp.json": "{\"mcpServers\": {\"a\": {\"command\": \"1\"}},\n\"mcpServers\": {\"b\": {\"command\": \"2\"},\n\"b\": {\"command\": \"3\"}}}"}.load(t)
	if got := find(t, res.Servers, "b"); len(res.Servers) != 1 || got.Command != "3" {
		t.Errorf("got %q, command %q", names(res.Servers), got.Command)
	}
	told := problems(res)
	for _, want := range []string{":1 (mcpServers): the key is there more than once", ":2 (mcpServers.b): the key is there more than once"} {
		if !strings.Contains(told, want) {
			t.Errorf("problems lack %q:\n%s", want, told)
		}
	}
}

func TestDisabledServersAreNotUsable(t *testing.T) {
	res, root := tree{
		"home/.claude.json": `{"mcpServers": {"feed": {"url": "https://e.test"}, "team": {"command": "user"}, "denied": {"command": "d"}},
			"projects": {"ROOT/work": {"disabledMcpServers": ["feed"], "disabledMcpjsonServers": ["winny"]}}}`,
		"home/.claude/settings.json":       `{"deniedMcpServers": [{"serverName": "denied"}]}`,
		"work/.claude/settings.local.json": `{"disabledMcpjsonServers": ["paint", "team"]}`,
		"work/.mcp.json": `{"mcpServers": {"winny": {"command": "w"}, "paint": {"command": "p"}, "stay": {"command": "s"},
			"off": {"command": "o", "disabled": true}}, "servers": {"paint": {"command": "other"}}}`,
	}.load(t)
	if diff := cmp.Diff([]string{"paint", "stay", "team"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if got := find(t, res.Servers, "paint").Agent(); got != "visual-studio" {
		t.Errorf("paint: Claude Code's list switched off the server of %s", "visual-studio")
	}
	got := map[string]string{}
	for _, s := range res.Disabled {
		got[s.Name] = strings.ReplaceAll(s.DisabledBy, root, "")
	}
	want := map[string]string{
		"feed":   "projects./work.disabledMcpServers in /home/.claude.json",
		"winny":  "projects./work.disabledMcpjsonServers in /home/.claude.json",
		"paint":  "disabledMcpjsonServers in /work/.claude/settings.local.json",
		"denied": "deniedMcpServers in /home/.claude/settings.json",
		"off":    "disabled: true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("disabled (-want +got):\n%s", diff)
	}
}

func TestADisabledDefinitionStillHidesAWeakerOne(t *testing.T) {
	for name, user := range map[string]string{"another one": "user", "an equal one that is on": "project"} {
		t.Run(name, func(t *testing.T) {
			res, _ := tree{
				"home/.claude.json": `{"mcpServers": {"db": {"command": "` + user + `"}}}`,
				"work/.mcp.json":    `{"mcpServers": {"db": {"command": "project", "disabled": true}}}`,
			}.load(t)
			if len(res.Servers) != 0 || len(res.Disabled) != 1 || len(res.Shadowed) != 1 {
				t.Errorf("got servers %q, disabled %q, %d shadowed", names(res.Servers), names(res.Disabled), len(res.Shadowed))
			}
		})
	}
}

func TestProjectsDoNotSeeEachOther(t *testing.T) {
	root := tree{
		"home/.claude.json": `{"projects": {"ROOT/a": {"mcpServers": {"db": {"command": "a", "env": {"CANARY": "1"}}}},
			"ROOT/b": {}, "ROOT": {"mcpServers": {"top": {"command": "top"}}}}}`,
		"a/.git/HEAD":     "",
		"b/.git/HEAD":     "",
		"b/sub/x":         "",
		"b/.mcp.json":     `{"mcpServers": {"team": {"command": "far"}, "same": {"command": "far"}}}`,
		"b/sub/.mcp.json": `{"mcpServers": {"team": {"command": "near"}}}`,
		"plain/sub/x":     "",
		"plain/.mcp.json": `{"mcpServers": {"stranger": {"command": "x"}}}`,
	}.write(t)
	if err := os.Symlink(root+"/a", root+"/b/link"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, cwd string
		want      []string
	}{
		{"the project itself", "a", []string{"db"}},
		{"another project's folder", "b/sub", []string{"same", "team"}},
		{"a link belongs where it leads", "b/link", []string{"db"}},
		{"no repository, so no parents", "plain/sub", nil},
		{"a folder that is not there", "b/gone", []string{"same", "team"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := Load(Options{Home: root + "/home", Cwd: filepath.Join(root, tt.cwd)})
			if diff := cmp.Diff(tt.want, names(res.Servers)); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
			for _, s := range res.Servers {
				if s.Name == "team" && tt.cwd == "b/sub" && s.Command != "near" {
					t.Errorf("team: got %q, want the nearest file's", s.Command)
				}
			}
		})
	}
}

func TestAProjectFileThatLeadsOutIsNotRead(t *testing.T) {
	root := tree{
		"work/.git/HEAD": "",
		"elsewhere.json": `{"mcpServers": {"secret": {"command": "x"}}}`,
		"work/in.json":   `{"mcpServers": {"fine": {"command": "x"}}}`,
		"work/sub/x":     "",
	}.write(t)
	for link, to := range map[string]string{"work/.mcp.json": "elsewhere.json", "work/sub/.mcp.json": "work/in.json"} {
		if err := os.Symlink(filepath.Join(root, to), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	res := Load(Options{Home: root + "/home", Cwd: root + "/work/sub"})
	if diff := cmp.Diff([]string{"fine"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if got := problems(res); strings.Count(got, "outside of the project") != 1 {
		t.Errorf("problems: got %q", got)
	}
}

func TestWindowsProjectKeysMatchLoosely(t *testing.T) {
	l := &loader{opts: Options{GOOS: "windows"}}
	if !l.samePath(`C:\Users\Dev\site\`, `c:/users/dev/site`) || l.samePath(`C:\a`, `C:\b`) {
		t.Error("folders of Windows are compared wrongly")
	}
}

func TestSelfReferencesAreSkipped(t *testing.T) {
	root := tree{
		"bin/bridge-shim":                         "",
		"home/bin/linked":                         "",
		"src/mcp-server-code-execution-mode/x.py": "",
	}.write(t)
	if err := os.Symlink(root+"/bin/bridge-shim", root+"/bin/innocent"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, entry string
		self        bool
	}{
		{"the bare name", `{"command": "bridge-shim"}`, true},
		{"an absolute path", `{"command": "/usr/local/bin/bridge-shim", "args": ["x"]}`, true},
		{"a Windows path", `{"command": "C:\\tools\\bridge-shim.exe"}`, true},
		{"the daemon", `{"command": "bridged", "args": ["serve"]}`, true},
		{"a symbolic link", `{"command": "ROOT/bin/innocent"}`, true},
		{"a symbolic link on the PATH", `{"command": "innocent"}`, true},
		{"npx", `{"command": "npx", "args": ["-y", "@bridged/bridge-shim@1.2"]}`, true},
		{"a shell", `{"command": "sh", "args": ["-c", "exec bridge-shim"]}`, true},
		{"a shell and the daemon", `{"command": "sh", "args": ["-c", "cd /; exec /opt/bridged serve"]}`, true},
		{"env", `{"command": "env", "args": ["X=1", "bridge-shim"]}`, true},
		{"docker run", `{"command": "docker", "args": ["run", "-i", "--rm", "ghcr.io/me/bridge-shim:1"]}`, true},
		{"docker run of the daemon", `{"command": "docker", "args": ["run", "-i", "--rm", "me/bridged:1"]}`, true},
		{"the seed", `{"command": "uvx", "args": ["mcp-server-code-execution-mode", "run"]}`, true},
		{"the seed from a checkout", `{"command": "uv", "args": ["--directory", "/src", "run", "mcp_server_code_execution_mode.py"]}`, true},
		{"the seed as a module", `{"command": "python3", "args": ["-m", "mcp_server_code_execution_mode"]}`, true},
		{"a relay to the socket", `{"command": "socat", "args": ["-", "UNIX-CONNECT:/run/user/1000/bridged/mcp.sock"]}`, true},
		{"the socket as a URL", `{"url": "unix:///run/user/1000/bridged/mcp.sock"}`, true},
		{"our own socket under another name", `{"url": "unix:///tmp/own.sock"}`, true},
		{"a variable", `{"command": "${SHIM}"}`, true},
		{"one of our own paths", `{"command": "/opt/renamed"}`, true},

		{"a network called bridged", `{"command": "docker", "args": ["run", "-i", "--network", "bridged", "example/a"]}`, false},
		{"a checkout of the seed", `{"command": "npx", "args": ["-y", "fs", "ROOT/src/mcp-server-code-execution-mode"]}`, false},
		{"a name that starts alike", `{"command": "bridge-shimmer"}`, false},
		{"another server", `{"command": "npx", "args": ["-y", "@example/files"]}`, false},
		{"another unix socket", `{"url": "unix:///tmp/other.sock"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home := tree{".claude.json": `{"mcpServers": {"x": ` + strings.ReplaceAll(tt.entry, "ROOT", root) + `}}`}.write(t)
			res := Load(Options{
				Home: home, Self: []string{"/opt/renamed"},
				Getenv: environment(map[string]string{
					"SHIM": "/opt/bin/bridge-shim", "PATH": root + "/bin", "BRIDGED_SOCKET": "/tmp/own.sock",
				}),
			})
			if got := len(res.Servers) == 0; got != tt.self {
				t.Errorf("skipped: got %v, want %v\n%s", got, tt.self, problems(res))
			}
			if tt.self && !strings.Contains(problems(res), "would start this bridge inside itself") {
				t.Errorf("problems: got %q", problems(res))
			}
		})
	}
}

func TestArgv(t *testing.T) {
	tests := []struct {
		name, goos string
		server     Server
		want       []string
		err        string
	}{
		{"as it is", "linux", Server{Command: "npx", Args: []string{"-y", "a b"}}, []string{"npx", "-y", "a b"}, ""},
		{"cmd /c on Windows", "windows", Server{Command: "cmd", Args: []string{"/c", "npx"}}, []string{"cmd", "/c", "npx"}, ""},
		{"cmd /c elsewhere", "linux", Server{Command: "cmd", Args: []string{"/c", "npx", "-y", "x"}}, []string{"npx", "-y", "x"}, ""},
		{"cmd with a line", "linux", Server{Command: "cmd.exe", Args: []string{"/c", "npx -y x"}}, nil, "Windows-only"},
		{"cmd alone", "darwin", Server{Command: "cmd"}, nil, "Windows-only"},
		{"a drive letter", "linux", Server{Command: `C:\x\run`}, nil, "Windows-only"},
		{"a batch file", "linux", Server{Command: "cmd", Args: []string{"/c", "run.bat"}}, nil, "Windows-only"},
		{"a whole command line", "linux", Server{Command: `~/bin/fake --port "1"`}, nil, "whole command line"},
		{"a path with spaces", "linux", Server{Command: "/opt/My Tools/run"}, []string{"/opt/My Tools/run"}, ""},
		{"a remote server", "linux", Server{Transport: HTTP, URL: "https://e.test"}, nil, "has no command"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.server.Transport == "" {
				tt.server.Transport = Stdio
			}
			got, err := tt.server.Argv(tt.goos)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error: got %v, want %q", err, tt.err)
			}
		})
	}
}
