package register

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// takeovers are agents' files, what stays in them and what ~/MCPs gets.
var takeovers = []struct {
	name, client, before string
	stay                 []string // names in the notes, with why
	left                 []string // servers left in the file, beside ours
	seed                 string   // "" if there is none
}{
	{
		name: "servers move that mean the same elsewhere, others stay", client: "claude-code",
		before: `{
  "mcpServers": {
    "plain": { "type": "stdio", "command": "npx", "args": ["-y", "a"], "env": { "A": "<1>" } },
    "vars": { "command": "x", "args": ["${HOME}"] },
    "place": { "command": "x", "args": ["${workspaceFolder}"] },
    "here": { "command": "./x" },
    "odd": { "command": "x", "oauth": { "clientId": "c" } },
    "lists": { "command": "x" },
    "tools": { "command": "x" }
  },
  "projects": { "/p": { "disabledMcpServers": ["lists"] } },
  "permissions": { "deny": ["mcp__tools__rm"] }
}
`,
		stay: []string{
			"here stays: the command's path", "lists stays: other settings", "odd stays: oauth",
			"place stays: args depends on what is open", "tools stays: other settings", "vars moves as it is written; its variables",
		},
		left: []string{"here", "lists", "odd", "place", "tools"},
		seed: `{
  "mcpServers": {
    "plain": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "a"],
      "env": { "A": "<1>" }
    },
    "vars": {
      "dialect": "claude-code",
      "command": "x",
      "args": ["${HOME}"]
    }
  }
}
`,
	},
	{
		name: "what is switched off stays without a word", client: "cline",
		before: `{"mcpServers": {"off": {"command": "x", "disabled": true}, "feed": {"url": "https://x/", "timeout": 2}}}`,
		left:   []string{"off"},
		seed:   "{\n  \"mcpServers\": {\n    \"feed\": {\n      \"dialect\": \"cline\",\n      \"timeout\": 2,\n      \"url\": \"https://x/\"\n    }\n  }\n}\n",
	},
	{
		name: "TOML with sub-tables", client: "codex",
		before: "a = 1\n\n[mcp_servers.\"x.y\"]\ncommand = \"x\" # c\n\n[mcp_servers.\"x.y\".env]\n\"A.B\" = \"1\"\n\n[mcp_servers.t]\nurl = \"https://x/\"\nbearer_token_env_var = \"T\"\n",
		seed:   "{\n  \"mcpServers\": {\n    \"t\": {\n      \"dialect\": \"codex\",\n      \"bearer_token_env_var\": \"T\",\n      \"url\": \"https://x/\"\n    },\n    \"x.y\": {\n      \"command\": \"x\",\n      \"env\": { \"A.B\": \"1\" }\n    }\n  }\n}\n",
	},
	{
		name: "YAML map", client: "goose",
		before: "extensions:\n  dev:\n    type: builtin\n    enabled: true\n    name: dev\n    config: 1\n  a:\n    cmd: x\n    args: [b]\n    envs: {A: \"1\"}\n    env_keys: []\n    timeout: 300\n    type: stdio\n    enabled: true\n    name: a\nlast: 1\n",
		stay:   []string{"dev stays: config"}, left: []string{"dev"},
		seed: "{\n  \"mcpServers\": {\n    \"a\": {\n      \"dialect\": \"goose\",\n      \"type\": \"stdio\",\n      \"cmd\": \"x\",\n      \"args\": [\"b\"],\n      \"envs\": { \"A\": \"1\" },\n      \"timeout\": 300\n    }\n  }\n}\n",
	},
	{
		name: "YAML list", client: "continue",
		before: "name: n\nmcpServers:\n  - name: my server\n    command: x\n  - name: secret\n    command: x\n    env:\n      A: ${{ secrets.A }}\n  - name: asks\n    command: x\n    env:\n      A: ${{ inputs.A }}\n",
		stay:   []string{"asks stays: env has an input", "secret moves as it is written"}, left: []string{"asks"},
		seed: "{\n  \"mcpServers\": {\n    \"my server\": {\n      \"command\": \"x\"\n    },\n    \"secret\": {\n      \"dialect\": \"continue\",\n      \"command\": \"x\",\n      \"env\": { \"A\": \"${{ secrets.A }}\" }\n    }\n  }\n}\n",
	},
}

func TestTakeOver(t *testing.T) {
	for _, row := range takeovers {
		t.Run(row.name, func(t *testing.T) {
			r := newRegistrar(t)
			at, seed := clientPath(r, row.client), filepath.Join(r.Home, "MCPs", row.client+".json")
			put(t, at, row.before)
			c, err := r.TakeOver(row.client)
			apply(t, c, err)
			if len(c.Notes()) != len(row.stay) {
				t.Errorf("notes: got %q, want %q", c.Notes(), row.stay)
			}
			for i, want := range row.stay {
				if i < len(c.Notes()) && !strings.HasPrefix(c.Notes()[i], want) {
					t.Errorf("note %d: got %q, want %q", i, c.Notes()[i], want)
				}
			}
			if diff := cmp.Diff(row.seed, get(t, seed)); diff != "" {
				t.Errorf("in ~/MCPs (-want +got):\n%s", diff)
			}
			if got := serversOf(t, r, row.client); len(got) != len(row.left)+1 {
				t.Errorf("left in the file: %v, want %v and ours", got, row.left)
			}
			c, err = r.TakeOver(row.client)
			if err != nil || c.What != "" {
				t.Errorf("once more: %v, %v; want nothing to do", c, err)
			}
			written := get(t, at)

			c, err = r.Unregister(row.client)
			apply(t, c, err)
			if got := get(t, at); got != row.before {
				t.Errorf("Unregister makes %q", got)
			}
			if exists(seed) {
				t.Errorf("Unregister leaves %q in ~/MCPs", get(t, seed))
			}
			putBackAfterAnEdit(t, r, row.client, written)
		})
	}
}

func serversOf(t *testing.T, r *Registrar, client string) map[string]any {
	t.Helper()
	e, err := r.open(client)
	if err != nil {
		t.Fatal(err)
	}
	return e.entries
}

// putBackAfterAnEdit takes over, edits the file, and unregisters.
func putBackAfterAnEdit(t *testing.T, r *Registrar, client, written string) {
	t.Helper()
	before := serversOf(t, r, client)
	c, err := r.TakeOver(client)
	apply(t, c, err)
	if got := get(t, c.Path); got != written {
		t.Errorf("the second time the file is %q, want %q", got, written)
	}
	put(t, c.Path, written+"\n")
	c, err = r.Unregister(client)
	apply(t, c, err)
	if after := serversOf(t, r, client); !same(before, after) {
		t.Errorf("servers after an edit and Unregister:\n%v, want\n%v", after, before)
	}
	if exists(c.seed.path) {
		t.Errorf("Unregister leaves %q in ~/MCPs", get(t, c.seed.path))
	}
}

func TestTakeOverBesideWhatIsThere(t *testing.T) {
	r := newRegistrar(t)
	seed := filepath.Join(r.Home, "MCPs", "cursor.json")
	put(t, clientPath(r, "cursor"), `{"mcpServers": {"equal": {"command": "x"}, "other": {"command": "y"}, "new": {"command": "z"}}}`)
	there := `{ "mcpServers": { "equal": {"command": "x"}, "other": {"command": "not y"} } } // mine`
	put(t, seed, there)
	c, err := r.TakeOver("cursor")
	apply(t, c, err)
	if diff := cmp.Diff([]string{"other stays: ~/MCPs has another server of that name"}, c.Notes()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	c, err = r.Unregister("cursor")
	apply(t, c, err)
	if diff := cmp.Diff(there, get(t, seed)); diff != "" {
		t.Errorf("in ~/MCPs after Unregister (-want +got):\n%s", diff)
	}
}

func TestServersUnderARuleOfTheAgentsForAllStay(t *testing.T) {
	for client, text := range map[string]string{
		"gemini-cli": `{"mcp": {"allowed": ["b"]}, "mcpServers": {"a": {"command": "x"}}}`,
		"zed":        `{"context_server_timeout": 60, "context_servers": {"a": {"command": "x"}}}`,
	} {
		r := newRegistrar(t)
		put(t, clientPath(r, client), text)
		c, err := r.TakeOver(client)
		apply(t, c, err)
		if len(c.Notes()) != 1 || !strings.Contains(c.Notes()[0], "holds for it") {
			t.Errorf("%s: notes %q, want that a stays", client, c.Notes())
		}
		if got := serversOf(t, r, client); len(got) != 2 {
			t.Errorf("%s: left in the file: %v, want two", client, got)
		}
	}
}

func TestAServerThatWasChangedInItsNewPlaceStaysThere(t *testing.T) {
	r := newRegistrar(t)
	seed := filepath.Join(r.Home, "MCPs", "cursor.json")
	put(t, clientPath(r, "cursor"), `{"mcpServers": {"a": {"command": "x"}}}`)
	c, err := r.TakeOver("cursor")
	apply(t, c, err)
	put(t, seed, strings.Replace(get(t, seed), `"x"`, `"mine"`, 1))
	c, err = r.Unregister("cursor")
	apply(t, c, err)
	if len(c.Notes()) != 1 || !strings.Contains(get(t, seed), "mine") {
		t.Errorf("notes %q, and in ~/MCPs %q", c.Notes(), get(t, seed))
	}
}

func TestNothingMovesIfTheAgentsFileCannotBeWritten(t *testing.T) {
	r := newRegistrar(t)
	at := clientPath(r, "cursor")
	put(t, at, `{"mcpServers": {"a": {"command": "x"}}}`)
	c, err := r.TakeOver("cursor")
	if err != nil {
		t.Fatal(err)
	}
	put(t, at, `{}`)
	if err := c.Apply(); !errors.Is(err, ErrChanged) {
		t.Errorf("Apply: got %v, want %v", err, ErrChanged)
	}
	if _, err := os.Stat(filepath.Join(r.Home, "MCPs", "cursor.json")); !os.IsNotExist(err) {
		t.Errorf("the file in ~/MCPs: %v, want none", err)
	}
}

func TestAProjectsServersAreNotTakenOver(t *testing.T) {
	r := newRegistrar(t)
	r.Project = filepath.Join(r.Home, "p")
	if _, err := r.TakeOver("cursor"); err == nil {
		t.Error("TakeOver of a project's servers has no error")
	}
}
