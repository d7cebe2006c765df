package discovery

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// agentPaths are the places of every agent: on all systems, on one, or on several.
// ~ is the home folder and ./ the project; GS is the folder globalStorage below
// each folder of the user that the VS Code family has, which is CODE.
const agentPaths = `
seed            all      ~/MCPs/*.json
seed            all      ~/.config/mcp/servers/*.json
seed            all      ./mcp-servers/*.json
claude-code     all      ~/.claude.json
claude-code     all      ./.mcp.json
claude-code     all      ~/.claude/plugins/cache/*/*/<latest>/.mcp.json
claude-code     all      ~/.claude/plugins/cache/*/*/<latest>/.claude-plugin/plugin.json
claude-code     linux    /etc/claude-code/managed-mcp.json
claude-code     darwin   /Library/Application Support/ClaudeCode/managed-mcp.json
claude-code     windows  C:\Program Files/ClaudeCode/managed-mcp.json
claude-code     windows  C:\ProgramData/ClaudeCode/managed-mcp.json
claude-desktop  linux    ~/.config/Claude/claude_desktop_config.json
claude-desktop  linux    ~/.config/claude/claude_desktop_config.json
claude-desktop  darwin   ~/Library/Application Support/Claude/claude_desktop_config.json
claude-desktop  windows  ~/AppData/Roaming/Claude/claude_desktop_config.json
cursor          all      ~/.cursor/mcp.json
cursor          all      ./.cursor/mcp.json
vscode          all      CODE/mcp.json
vscode          all      CODE/profiles/*/mcp.json
vscode          all      CODE/settings.json
vscode          all      ./.vscode/mcp.json
vscode          all      ./.vscode/settings.json
vscode          all      ./.devcontainer/devcontainer.json
vscode          all      ./.devcontainer.json
vscode          all      ./.devcontainer/*/devcontainer.json
copilot-cli     all      ~/.copilot/mcp-config.json
copilot-cli     all      ./.github/mcp.json
copilot-jetbrains windows ~/AppData/Local/github-copilot/intellij/mcp.json
copilot-jetbrains all    ~/.config/github-copilot/intellij/mcp.json
visual-studio   all      ~/.mcp.json
visual-studio   all      ./.vs/mcp.json
visual-studio   all      ./.mcp.json
visual-studio   all      ./.cursor/mcp.json
windsurf        all      ~/.codeium/windsurf/mcp_config.json
windsurf        all      ~/.codeium/mcp_config.json
opencode        all      ~/.config/opencode/opencode.jsonc
opencode        all      ~/.config/opencode/opencode.json
opencode        all      ./opencode.jsonc
opencode        all      ./opencode.json
opencode        all      ./.opencode/opencode.jsonc
opencode        all      ./.opencode/opencode.json
opencode        linux    /etc/opencode/opencode.jsonc
opencode        linux    /etc/opencode/opencode.json
opencode        darwin   /Library/Application Support/opencode/opencode.jsonc
opencode        darwin   /Library/Application Support/opencode/opencode.json
opencode        windows  C:\ProgramData/opencode/opencode.jsonc
opencode        windows  C:\ProgramData/opencode/opencode.json
codex           all      ~/.codex/config.toml
codex           all      ./.codex/config.toml
gemini-cli      all      ~/.gemini/settings.json
gemini-cli      all      ./.gemini/settings.json
gemini-cli      all      ~/.gemini/extensions/*/gemini-extension.json
gemini-cli      linux    /etc/gemini-cli/settings.json
gemini-cli      linux    /etc/gemini-cli/system-defaults.json
gemini-cli      darwin   /Library/Application Support/GeminiCli/settings.json
gemini-cli      darwin   /Library/Application Support/GeminiCli/system-defaults.json
gemini-cli      windows  C:\ProgramData/gemini-cli/settings.json
gemini-cli      windows  C:\ProgramData/gemini-cli/system-defaults.json
antigravity     all      ~/.gemini/antigravity/mcp_config.json
qwen-code       all      ~/.qwen/settings.json
qwen-code       all      ./.qwen/settings.json
qwen-code       linux    /etc/qwen-code/settings.json
qwen-code       darwin   /Library/Application Support/QwenCode/settings.json
qwen-code       windows  C:\ProgramData/qwen-code/settings.json
zed             all      ~/.config/zed/settings.json
zed             windows  ~/AppData/Roaming/zed/settings.json
zed             all      ./.zed/settings.json
cline           all      ~/.cline/data/settings/cline_mcp_settings.json
cline           all      GS/saoudrizwan.claude-dev/settings/cline_mcp_settings.json
cline           all      ~/Documents/Cline/MCP/cline_mcp_settings.json
roo-code        all      GS/rooveterinaryinc.roo-cline/settings/mcp_settings.json
roo-code        all      ./.roo/mcp.json
kilo-code       all      GS/kilocode.kilo-code/settings/mcp_settings.json
kilo-code       all      ~/.kilocode/cli/global/settings/mcp_settings.json
kilo-code       all      ~/.config/kilo/kilo.jsonc
kilo-code       all      ~/.config/kilo/kilo.json
kilo-code       all      ./.kilocode/mcp.json
kilo-code       all      ./kilo.jsonc
kilo-code       all      ./kilo.json
kilo-code       all      ./.kilo/kilo.jsonc
kilo-code       all      ./.kilo/kilo.json
continue        all      ~/.continue/config.yaml
continue        all      ~/.continue/mcpServers/*.yaml
continue        all      ~/.continue/mcpServers/*.yml
continue        all      ~/.continue/mcpServers/*.json
continue        all      ./.continue/mcpServers/*.yaml
continue        all      ./.continue/mcpServers/*.yml
continue        all      ./.continue/mcpServers/*.json
goose           all      ~/.config/goose/config.yaml
goose           windows  ~/AppData/Roaming/Block/goose/config/config.yaml
goose           windows  ~/AppData/Block/goose/config/config.yaml
amazon-q        all      ~/.aws/amazonq/mcp.json
amazon-q        all      ~/.aws/amazonq/cli-agents/*.json
amazon-q        all      ~/.aws/amazonq/agents/default.json
amazon-q        all      ./.amazonq/mcp.json
amazon-q        all      ./.amazonq/cli-agents/*.json
kiro            all      ~/.kiro/settings/mcp.json
kiro            all      ~/.kiro/agents/*.json
kiro            all      ./.kiro/settings/mcp.json
kiro            all      ./.kiro/agents/*.json
lm-studio       all      ~/.lmstudio/mcp.json
lm-studio       all      ~/.cache/lm-studio/mcp.json
junie           all      ~/.junie/mcp/mcp.json
junie           all      ./.junie/mcp/mcp.json
air             all      ./.air/mcp.json
crush           all      ~/.config/crush/crush.json
crush           linux    ~/.local/share/crush/crush.json
crush           darwin   ~/.local/share/crush/crush.json
crush           windows  ~/AppData/Local/crush/crush.json
crush           all      ./.crushrc
crush           all      ./crushrc
crush           all      ./.crush.json
crush           all      ./crush.json
warp            all      ~/.warp/.mcp.json
warp            all      ./.warp/.mcp.json
factory         all      ~/.factory/mcp.json
factory         darwin   ~/Library/Application Support/Factory Bridge/mcp.json
factory         all      ./.factory/mcp.json
trae            linux    ~/.config/Trae/User/mcp.json
trae            linux    ~/.config/Trae/mcp.json
trae            darwin   ~/Library/Application Support/Trae/User/mcp.json
trae            darwin   ~/Library/Application Support/Trae/mcp.json
trae            windows  ~/AppData/Roaming/Trae/User/mcp.json
trae            windows  ~/AppData/Roaming/Trae/mcp.json
trae            all      ./.trae/mcp.json
5ire            linux    ~/.config/5ire/mcp.json
5ire            darwin   ~/Library/Application Support/5ire/mcp.json
5ire            windows  ~/AppData/Roaming/5ire/mcp.json
witsy           linux    ~/.config/Witsy/settings.json
witsy           darwin   ~/Library/Application Support/Witsy/settings.json
witsy           windows  ~/AppData/Roaming/Witsy/settings.json
librechat       all      ./librechat.yaml
amp             all      ~/.config/amp/settings.json
amp             windows  ~/AppData/Roaming/amp/settings.json
vibe            all      ~/.vibe/config.toml
kimi            all      ~/.kimi/mcp.json
qoder           all      ~/.qoder/mcp.json
qoder           windows  ~/AppData/Roaming/Qoder/SharedClientCache/mcp.json
docker-mcp      all      ~/.docker/mcp/catalogs/*.yaml
home-manager    all      ~/.config/mcp/mcp.json
`

// codeFoldersOf are the folders of the VS Code family's users on each system.
var codeFoldersOf = map[string]string{
	"linux": "~/.config", "darwin": "~/Library/Application Support", "windows": "~/AppData/Roaming",
}

// wantedPaths returns the lines of agentPaths that count on a system.
func wantedPaths(t *testing.T, goos string) []string {
	t.Helper()
	var list []string
	for line := range strings.Lines(strings.TrimSpace(agentPaths)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			t.Fatalf("%q has no agent, system and path", line)
		}
		if words[1] != "all" && words[1] != goos {
			continue
		}
		file := strings.TrimSpace(line[strings.Index(line, words[1])+len(words[1]):])
		file, ok := strings.CutPrefix(file, "GS/")
		if ok {
			file = "CODE/globalStorage/" + file
		}
		below, inCode := strings.CutPrefix(file, "CODE/")
		if !inCode {
			list = append(list, words[0]+" "+file)
			continue
		}
		for _, editor := range []string{"Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Trae"} {
			list = append(list, words[0]+" "+path.Join(codeFoldersOf[goos], editor, "User", below))
		}
		for _, server := range []string{".vscode-server", ".vscode-server-insiders", ".cursor-server", ".windsurf-server"} {
			list = append(list, words[0]+" "+path.Join("~", server, "data/User", below))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestEveryAgentsPathsOnEverySystem(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		l := newTestLoader(Options{Home: "/home/u", GOOS: goos, Getenv: environment(nil)})
		l.projects = []string{"/p"}
		var got []string
		for i := range sources {
			src := &sources[i]
			for _, p := range l.places(src) {
				file := path.Join(p.dir, p.path)
				file = strings.Replace(strings.Replace(file, "/home/u/", "~/", 1), "/p/", "./", 1)
				got = append(got, fmt.Sprint(src.agent, " ", file))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(wantedPaths(t, goos), slices.Compact(got)); diff != "" {
			t.Errorf("%s: paths (-want +got):\n%s", goos, diff)
		}
	}
}

// TestVariablesMoveEveryAgentsFiles lists the variables that FORMATS of agents
// name, and where the files are then.
func TestVariablesMoveEveryAgentsFiles(t *testing.T) {
	tests := []struct{ goos, variable, value, agent, want string }{
		{"linux", "MCP_SERVERS_CONFIG", "/v/f.json", "seed", "/v/f.json"},
		{"linux", "CLAUDE_CONFIG_DIR", "/v", "claude-code", "/v/.claude.json"},
		{"linux", "CLAUDE_CONFIG_DIR", "/v", "claude-code", "/v/plugins/cache/*/*/<latest>/.mcp.json"},
		{"linux", "XDG_CONFIG_HOME", "/v", "claude-desktop", "/v/Claude/claude_desktop_config.json"},
		{"windows", "APPDATA", "/v", "claude-desktop", "/v/Claude/claude_desktop_config.json"},
		{"windows", "APPDATA", "/v", "vscode", "/v/Code/User/mcp.json"},
		{"windows", "APPDATA", "/v", "amp", "/v/amp/settings.json"},
		{"windows", "LOCALAPPDATA", "/v", "copilot-jetbrains", "/v/github-copilot/intellij/mcp.json"},
		{"windows", "LOCALAPPDATA", "/v", "crush", "/v/crush/crush.json"},
		{"windows", "ProgramData", "/v", "opencode", "/v/opencode/opencode.json"},
		{"windows", "ProgramFiles", "/v", "claude-code", "/v/ClaudeCode/managed-mcp.json"},
		{"darwin", "COPILOT_HOME", "/v", "copilot-cli", "/v/mcp-config.json"},
		{"linux", "OPENCODE_CONFIG", "/v/any", "opencode", "/v/any"},
		{"linux", "CODEX_HOME", "/v/.codex", "codex", "/v/.codex/config.toml"},
		{"linux", "GEMINI_CLI_SYSTEM_SETTINGS_PATH", "/v/s.json", "gemini-cli", "/v/s.json"},
		{"linux", "CLINE_MCP_SETTINGS_PATH", "/v/c.json", "cline", "/v/c.json"},
		{"linux", "CLINE_DATA_DIR", "/v", "cline", "/v/settings/cline_mcp_settings.json"},
		{"linux", "CLINE_DIR", "/v", "cline", "/v/data/settings/cline_mcp_settings.json"},
		{"linux", "CONTINUE_GLOBAL_DIR", "/v", "continue", "/v/config.yaml"},
		{"linux", "CONTINUE_GLOBAL_DIR", "/v", "continue", "/v/mcpServers/*.json"},
		{"linux", "CRUSH_GLOBAL_CONFIG", "/v", "crush", "/v/crush.json"},
		{"linux", "CRUSH_GLOBAL_CONFIG", "/v/mine.json", "crush", "/v/mine.json"},
		{"linux", "XDG_DATA_HOME", "/v", "crush", "/v/crush/crush.json"},
		{"linux", "XDG_CONFIG_HOME", "/v", "home-manager", "/v/mcp/mcp.json"},
		{"darwin", "XDG_CONFIG_HOME", "/v", "goose", "/v/goose/config.yaml"},
	}
	for _, tt := range tests {
		l := newTestLoader(Options{Home: "/home/u", GOOS: tt.goos, Getenv: environment(map[string]string{tt.variable: tt.value})})
		var got []string
		for i := range sources {
			for _, p := range l.places(&sources[i]) {
				if sources[i].agent == tt.agent {
					got = append(got, path.Join(p.dir, p.path))
				}
			}
		}
		if !slices.Contains(got, tt.want) {
			t.Errorf("%s with %s=%s: got %q, want %s among them", tt.goos, tt.variable, tt.value, got, tt.want)
		}
	}
}
