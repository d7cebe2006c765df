package discovery

import (
	"slices"
	"time"
)

// sources lists every file that is read. Within one agent an earlier row is the
// stronger one; between agents, the stronger scope is, and then the earlier row.
var sources = slices.Concat(
	seedSources, claudeSources, editorSources, copilotSources, terminalSources,
	extensionSources, desktopSources, yamlSources, tomlSources, mergedSources, dockerSources,
)

// ownAgent is whose files are ours, and no other agent's.
const ownAgent = "seed"

var seedSources = []source{
	{agent: ownAgent, scope: ScopeUser, base: atHome, path: "MCPs/*.json",
		key: servers, bare: true, timeout: milliseconds},
	{agent: ownAgent, scope: ScopeUser, base: atConfig, path: "mcp/servers/*.json",
		key: servers, bare: true, timeout: milliseconds},
	{agent: ownAgent, scope: ScopeUser, base: atFile, env: []string{"MCP_SERVERS_CONFIG"},
		key: servers, bare: true, timeout: milliseconds},
	{agent: ownAgent, scope: ScopeProject, base: atProject, path: "mcp-servers/*.json",
		key: servers, bare: true, timeout: milliseconds},
}

var claudeWorkspace = []string{"workspace"}

var claudeSources = []source{
	{agent: "claude-code", scope: ScopeManaged, base: atSystem, path: "claude-code/managed-mcp.json", goos: "linux",
		key: servers, dialect: claudeDialect, reserved: claudeWorkspace},
	{agent: "claude-code", scope: ScopeManaged, base: atSystem, path: "ClaudeCode/managed-mcp.json", goos: "darwin",
		key: servers, dialect: claudeDialect, reserved: claudeWorkspace},
	{agent: "claude-code", scope: ScopeManaged, base: atPrograms, path: "ClaudeCode/managed-mcp.json", goos: "windows",
		key: servers, dialect: claudeDialect, reserved: claudeWorkspace},
	{agent: "claude-code", scope: ScopeManaged, base: atSystem, path: "ClaudeCode/managed-mcp.json", goos: "windows",
		key: servers, dialect: claudeDialect, reserved: claudeWorkspace},
	{agent: "claude-code", scope: ScopeLocal, base: atHome, path: ".claude.json", env: []string{"CLAUDE_CONFIG_DIR/.claude.json"},
		key: []string{"projects", projectKey, "mcpServers"}, dialect: claudeDialect,
		maxBytes: maxStateFile, reserved: claudeWorkspace},
	{agent: "claude-code", scope: ScopeProject, base: atProject, path: ".mcp.json",
		key: servers, dialect: claudeDialect, reserved: claudeWorkspace},
	{agent: "claude-code", scope: ScopeUser, base: atHome, path: ".claude.json", env: []string{"CLAUDE_CONFIG_DIR/.claude.json"},
		key: servers, dialect: claudeDialect, maxBytes: maxStateFile, reserved: claudeWorkspace},
	{agent: "claude-code", scope: ScopePlugin, base: atHome, path: pluginFolder + "/.mcp.json",
		env: []string{"CLAUDE_CONFIG_DIR/plugins/cache/*/*/" + latestPart + "/.mcp.json"},
		key: servers, dialect: claudeDialect, reserved: claudeWorkspace, bare: true},
	{agent: "claude-code", scope: ScopePlugin, base: atHome, path: pluginFolder + "/.claude-plugin/plugin.json",
		env: []string{"CLAUDE_CONFIG_DIR/plugins/cache/*/*/" + latestPart + "/.claude-plugin/plugin.json"},
		key: servers, dialect: claudeDialect, reserved: claudeWorkspace},
	{agent: "claude-desktop", scope: ScopeUser, base: atAppData, path: "Claude/claude_desktop_config.json", key: servers},
	{agent: "claude-desktop", scope: ScopeUser, base: atConfig, path: "claude/claude_desktop_config.json", goos: "linux", key: servers},
}

// pluginFolder is the folder of one installed plugin of Claude Code.
const pluginFolder = ".claude/plugins/cache/*/*/" + latestPart

var editorSources = []source{
	{agent: "visual-studio", scope: ScopeProject, base: atProject, path: ".vs/mcp.json", key: []string{"servers"}, dialect: editorDialect},
	{agent: "visual-studio", scope: ScopeProject, base: atProject, path: ".mcp.json", key: []string{"servers"}, dialect: editorDialect},
	{agent: "visual-studio", scope: ScopeProject, base: atProject, path: ".cursor/mcp.json", key: []string{"servers"}, dialect: editorDialect},
	{agent: "visual-studio", scope: ScopeUser, base: atHome, path: ".mcp.json", key: []string{"servers"}, dialect: editorDialect},

	{agent: "cursor", scope: ScopeProject, base: atProject, path: ".cursor/mcp.json", key: servers, dialect: editorDialect},
	{agent: "cursor", scope: ScopeUser, base: atHome, path: ".cursor/mcp.json", key: servers, dialect: editorDialect},

	{agent: "vscode", scope: ScopeProject, base: atProject, path: ".vscode/mcp.json", key: []string{"servers"}, dialect: editorDialect},
	{agent: "vscode", scope: ScopeProject, base: atProject, path: ".vscode/settings.json", key: []string{"mcp", "servers"}, dialect: editorDialect},
	{agent: "vscode", scope: ScopeProject, base: atProject, path: ".devcontainer/devcontainer.json", key: devcontainerKey, dialect: editorDialect},
	{agent: "vscode", scope: ScopeProject, base: atProject, path: ".devcontainer.json", key: devcontainerKey, dialect: editorDialect},
	{agent: "vscode", scope: ScopeProject, base: atProject, path: ".devcontainer/*/devcontainer.json", key: devcontainerKey, dialect: editorDialect},
	{agent: "vscode", scope: ScopeUser, base: atCode, path: "mcp.json", key: []string{"servers"}, dialect: editorDialect},
	{agent: "vscode", scope: ScopeUser, base: atCode, path: "profiles/*/mcp.json", key: []string{"servers"}, dialect: editorDialect},
	{agent: "vscode", scope: ScopeUser, base: atCode, path: "settings.json", key: []string{"mcp", "servers"},
		dialect: editorDialect, maxBytes: maxStateFile},

	{agent: "windsurf", scope: ScopeUser, base: atHome, path: ".codeium/windsurf/mcp_config.json", key: servers, dialect: windsurfDialect},
	{agent: "windsurf", scope: ScopeUser, base: atHome, path: ".codeium/mcp_config.json", key: servers, dialect: windsurfDialect},
	{agent: "antigravity", scope: ScopeUser, base: atHome, path: ".gemini/antigravity/mcp_config.json", key: servers},

	{agent: "zed", scope: ScopeProject, base: atProject, path: ".zed/settings.json", key: []string{"context_servers"},
		untyped: HTTP, timeout: zedTimeout, defaults: zedDefaults, adapt: adaptZed},
	{agent: "zed", scope: ScopeUser, base: atConfig, path: "zed/settings.json", key: []string{"context_servers"},
		untyped: HTTP, timeout: zedTimeout, defaults: zedDefaults, adapt: adaptZed, maxBytes: maxStateFile},
	{agent: "zed", scope: ScopeUser, base: atAppData, path: "zed/settings.json", goos: "windows", key: []string{"context_servers"},
		untyped: HTTP, timeout: zedTimeout, defaults: zedDefaults, adapt: adaptZed, maxBytes: maxStateFile},

	{agent: "trae", scope: ScopeProject, base: atProject, path: ".trae/mcp.json", key: servers},
	{agent: "trae", scope: ScopeUser, base: atAppData, path: "Trae/User/mcp.json", key: servers},
	{agent: "trae", scope: ScopeUser, base: atAppData, path: "Trae/mcp.json", key: servers},
}

var (
	devcontainerKey = []string{"customizations", "vscode", "mcp", "servers"}
	zedDefaults     = []string{"context_server_timeout"}
	zedTimeout      = []timeField{{"timeout", time.Second, startAndCall}, {"context_server_timeout", time.Second, startAndCall}}
)

var copilotSources = []source{
	{agent: "copilot-cli", scope: ScopeProject, base: atProject, path: ".github/mcp.json",
		key: servers, dialect: copilotDialect},
	{agent: "copilot-cli", scope: ScopeUser, base: atHome, path: ".copilot/mcp-config.json", env: []string{"COPILOT_HOME/mcp-config.json"},
		key: servers, dialect: copilotDialect},
	{agent: "copilot-jetbrains", scope: ScopeUser, base: atLocalAppData, path: "github-copilot/intellij/mcp.json", key: []string{"servers"}},
	{agent: "copilot-jetbrains", scope: ScopeUser, base: atConfig, path: "github-copilot/intellij/mcp.json", key: []string{"servers"}},
}

// terminalSources are those of agents in a terminal.
var terminalSources = []source{
	{agent: "gemini-cli", scope: ScopeManaged, base: atSystem, path: "gemini-cli/settings.json", darwin: "GeminiCli/settings.json", env: []string{"GEMINI_CLI_SYSTEM_SETTINGS_PATH"},
		key: servers, dialect: geminiDialect, timeout: milliseconds, adapt: adaptGemini},
	{agent: "gemini-cli", scope: ScopeProject, base: atProject, path: ".gemini/settings.json",
		key: servers, dialect: geminiDialect, timeout: milliseconds, adapt: adaptGemini},
	{agent: "gemini-cli", scope: ScopeUser, base: atHome, path: ".gemini/settings.json",
		key: servers, dialect: geminiDialect, timeout: milliseconds, adapt: adaptGemini, maxBytes: maxStateFile},
	{agent: "gemini-cli", scope: ScopeDefaults, base: atSystem, path: "gemini-cli/system-defaults.json", darwin: "GeminiCli/system-defaults.json",
		key: servers, dialect: geminiDialect, timeout: milliseconds, adapt: adaptGemini},
	{agent: "gemini-cli", scope: ScopePlugin, base: atHome, path: ".gemini/extensions/*/gemini-extension.json",
		key: servers, dialect: geminiDialect, timeout: milliseconds, adapt: adaptGemini},

	{agent: "qwen-code", scope: ScopeManaged, base: atSystem, path: "qwen-code/settings.json", darwin: "QwenCode/settings.json",
		key: servers, dialect: geminiDialect, timeout: qwenTimeout, untyped: SSE, adapt: adaptGemini},
	{agent: "qwen-code", scope: ScopeProject, base: atProject, path: ".qwen/settings.json",
		key: servers, dialect: geminiDialect, timeout: qwenTimeout, untyped: SSE, adapt: adaptGemini},
	{agent: "qwen-code", scope: ScopeUser, base: atHome, path: ".qwen/settings.json",
		key: servers, dialect: geminiDialect, timeout: qwenTimeout, untyped: SSE, adapt: adaptGemini, maxBytes: maxStateFile},

	{agent: "amazon-q", scope: ScopeProject, base: atProject, path: ".amazonq/cli-agents/*.json",
		key: servers, dialect: amazonDialect, timeout: milliseconds, defaults: amazonDefaults, adapt: adaptAmazon},
	{agent: "amazon-q", scope: ScopeProject, base: atProject, path: ".amazonq/mcp.json",
		key: servers, dialect: amazonDialect, timeout: milliseconds},
	{agent: "amazon-q", scope: ScopeUser, base: atHome, path: ".aws/amazonq/cli-agents/*.json",
		key: servers, dialect: amazonDialect, timeout: milliseconds, defaults: amazonDefaults, adapt: adaptAmazon},
	{agent: "amazon-q", scope: ScopeUser, base: atHome, path: ".aws/amazonq/agents/default.json",
		key: servers, dialect: amazonDialect, timeout: milliseconds, defaults: amazonDefaults, adapt: adaptAmazon},
	{agent: "amazon-q", scope: ScopeUser, base: atHome, path: ".aws/amazonq/mcp.json",
		key: servers, dialect: amazonDialect, timeout: milliseconds},

	{agent: "kiro", scope: ScopeProject, base: atProject, path: ".kiro/agents/*.json", key: servers, dialect: kiroDialect},
	{agent: "kiro", scope: ScopeUser, base: atHome, path: ".kiro/agents/*.json", key: servers, dialect: kiroDialect},
	{agent: "kiro", scope: ScopeProject, base: atProject, path: ".kiro/settings/mcp.json", key: servers, dialect: kiroDialect},
	{agent: "kiro", scope: ScopeUser, base: atHome, path: ".kiro/settings/mcp.json", key: servers, dialect: kiroDialect},

	{agent: "warp", scope: ScopeProject, base: atProject, path: ".warp/.mcp.json", key: servers, bare: true},
	{agent: "warp", scope: ScopeUser, base: atHome, path: ".warp/.mcp.json", key: servers, bare: true},

	{agent: "factory", scope: ScopeProject, base: atProject, path: ".factory/mcp.json", key: servers},
	{agent: "factory", scope: ScopeUser, base: atHome, path: ".factory/mcp.json", key: servers},
	{agent: "factory", scope: ScopeUser, base: atAppData, path: "Factory Bridge/mcp.json", goos: "darwin", key: servers},

	{agent: "amp", scope: ScopeUser, base: atConfig, path: "amp/settings.json", key: []string{"amp.mcpServers"}},
	{agent: "amp", scope: ScopeUser, base: atAppData, path: "amp/settings.json", goos: "windows", key: []string{"amp.mcpServers"}},

	{agent: "kimi", scope: ScopeUser, base: atHome, path: ".kimi/mcp.json", key: servers},
	{agent: "qoder", scope: ScopeUser, base: atHome, path: ".qoder/mcp.json", key: servers},
	{agent: "qoder", scope: ScopeUser, base: atAppData, path: "Qoder/SharedClientCache/mcp.json", goos: "windows", key: servers},
}

var qwenTimeout = []timeField{{"discoveryTimeoutMs", time.Millisecond, onlyStart}, {"timeout", time.Millisecond, startAndCall}}

var amazonDefaults = []string{"tools", "allowedTools"}

// extensionSources are those of editor extensions.
var extensionSources = []source{
	{agent: "cline", scope: ScopeUser, base: atFile, env: []string{"CLINE_MCP_SETTINGS_PATH"}, key: servers,
		dialect: clineDialect, untyped: SSE, timeout: seconds, minimum: time.Second, clamp: time.Hour},
	{agent: "cline", scope: ScopeUser, base: atHome, path: ".cline/data/settings/cline_mcp_settings.json",
		env: []string{"CLINE_DATA_DIR/settings/cline_mcp_settings.json", "CLINE_DIR/data/settings/cline_mcp_settings.json"},
		key: servers, dialect: clineDialect, untyped: SSE, timeout: seconds, minimum: time.Second, clamp: time.Hour},
	{agent: "cline", scope: ScopeUser, base: atCode, path: "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
		key: servers, dialect: clineDialect, untyped: SSE, timeout: seconds, minimum: time.Second, clamp: time.Hour},
	{agent: "cline", scope: ScopeUser, base: atHome, path: "Documents/Cline/MCP/cline_mcp_settings.json",
		key: servers, dialect: clineDialect, untyped: SSE, timeout: seconds, minimum: time.Second, clamp: time.Hour},

	{agent: "roo-code", scope: ScopeProject, base: atProject, path: ".roo/mcp.json", key: servers,
		dialect: rooDialect, timeout: seconds, minimum: time.Second, clamp: time.Hour, adapt: adaptRoo},
	{agent: "roo-code", scope: ScopeUser, base: atCode, path: "globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
		key: servers, dialect: rooDialect, timeout: seconds, minimum: time.Second, clamp: time.Hour, adapt: adaptRoo},

	{agent: "kilo-code", scope: ScopeProject, base: atProject, path: ".kilocode/mcp.json", key: servers, dialect: rooDialect, timeout: seconds},
	{agent: "kilo-code", scope: ScopeUser, base: atCode, path: "globalStorage/kilocode.kilo-code/settings/mcp_settings.json",
		key: servers, dialect: rooDialect, timeout: seconds},
	{agent: "kilo-code", scope: ScopeUser, base: atHome, path: ".kilocode/cli/global/settings/mcp_settings.json",
		key: servers, dialect: rooDialect, timeout: seconds},
}

// desktopSources are those of programs with a window of their own.
var desktopSources = []source{
	{agent: "lm-studio", scope: ScopeUser, base: atHome, path: ".lmstudio/mcp.json", key: servers},
	{agent: "lm-studio", scope: ScopeUser, base: atHome, path: ".cache/lm-studio/mcp.json", key: servers},
	{agent: "junie", scope: ScopeProject, base: atProject, path: ".junie/mcp/mcp.json", key: servers},
	{agent: "junie", scope: ScopeUser, base: atHome, path: ".junie/mcp/mcp.json", key: servers},
	{agent: "air", scope: ScopeProject, base: atProject, path: ".air/mcp.json", key: servers},
	{agent: "5ire", scope: ScopeUser, base: atAppData, path: "5ire/mcp.json", key: servers},
	{agent: "5ire", scope: ScopeUser, base: atAppData, path: "5ire/mcp.json", key: []string{"servers"}, named: []string{"key", "name"}},
	{agent: "witsy", scope: ScopeUser, base: atAppData, path: "Witsy/settings.json", key: []string{"mcp", "servers"},
		named: []string{"uuid", "name"}, adapt: adaptWitsy, maxBytes: maxStateFile},
	{agent: "witsy", scope: ScopeUser, base: atAppData, path: "Witsy/settings.json", key: servers, maxBytes: maxStateFile},
	{agent: "home-manager", scope: ScopeUser, base: atConfig, path: "mcp/mcp.json", key: []string{"programs", "mcp", "servers"}},
	{agent: "home-manager", scope: ScopeUser, base: atConfig, path: "mcp/mcp.json", key: servers},
}

// yamlSources are those of agents with files in YAML.
var yamlSources = []source{
	{agent: "continue", scope: ScopeProject, base: atProject, path: ".continue/mcpServers/*.yaml", key: servers, named: []string{"name"},
		dialect: continueDialect, timeout: continueTimeout, adapt: adaptContinue},
	{agent: "continue", scope: ScopeProject, base: atProject, path: ".continue/mcpServers/*.yml", key: servers, named: []string{"name"},
		dialect: continueDialect, timeout: continueTimeout, adapt: adaptContinue},
	{agent: "continue", scope: ScopeProject, base: atProject, path: ".continue/mcpServers/*.json", key: servers, named: []string{"name"},
		dialect: continueJSONDialect, timeout: continueTimeout, adapt: adaptContinue, bare: true},
	{agent: "continue", scope: ScopeUser, base: atHome, path: ".continue/config.yaml", env: []string{"CONTINUE_GLOBAL_DIR/config.yaml"},
		key: servers, named: []string{"name"}, dialect: continueDialect, timeout: continueTimeout, adapt: adaptContinue},
	{agent: "continue", scope: ScopeUser, base: atHome, path: ".continue/mcpServers/*.yaml", env: []string{"CONTINUE_GLOBAL_DIR/mcpServers/*.yaml"},
		key: servers, named: []string{"name"}, dialect: continueDialect, timeout: continueTimeout, adapt: adaptContinue},
	{agent: "continue", scope: ScopeUser, base: atHome, path: ".continue/mcpServers/*.yml", env: []string{"CONTINUE_GLOBAL_DIR/mcpServers/*.yml"},
		key: servers, named: []string{"name"}, dialect: continueDialect, timeout: continueTimeout, adapt: adaptContinue},
	{agent: "continue", scope: ScopeUser, base: atHome, path: ".continue/mcpServers/*.json", env: []string{"CONTINUE_GLOBAL_DIR/mcpServers/*.json"},
		key: servers, named: []string{"name"}, dialect: continueJSONDialect, timeout: continueTimeout, adapt: adaptContinue, bare: true},

	{agent: "goose", scope: ScopeUser, base: atConfig, path: "goose/config.yaml", key: []string{"extensions"}, timeout: seconds, adapt: adaptGoose},
	{agent: "goose", scope: ScopeUser, base: atAppData, path: "Block/goose/config/config.yaml", goos: "windows",
		key: []string{"extensions"}, timeout: seconds, adapt: adaptGoose},
	{agent: "goose", scope: ScopeUser, base: atHome, path: "AppData/Block/goose/config/config.yaml", goos: "windows",
		key: []string{"extensions"}, timeout: seconds, adapt: adaptGoose},

	{agent: "librechat", scope: ScopeProject, base: atProject, path: "librechat.yaml", key: servers,
		dialect: librechatDialect, timeout: librechatTimeout, adapt: adaptLibreChat},
}

var librechatTimeout = []timeField{{"initTimeout", time.Millisecond, onlyStart}, {"timeout", time.Millisecond, startAndCall}}

var continueTimeout = []timeField{{"connectionTimeout", time.Millisecond, onlyStart}}

// tomlSources are those of agents with files in TOML.
var tomlSources = []source{
	{agent: "codex", scope: ScopeProject, base: atProject, path: ".codex/config.toml", key: []string{"mcp_servers"},
		untyped: HTTP, timeout: codexTimeout, adapt: adaptCodex},
	{agent: "codex", scope: ScopeUser, base: atHome, path: ".codex/config.toml", env: []string{"CODEX_HOME/config.toml"},
		key: []string{"mcp_servers"}, untyped: HTTP, timeout: codexTimeout, adapt: adaptCodex},
	{agent: "vibe", scope: ScopeUser, base: atHome, path: ".vibe/config.toml", key: []string{"mcp_servers"},
		named: []string{"name"}},
}

var codexTimeout = []timeField{
	{"startup_timeout_sec", time.Second, onlyStart}, {"startup_timeout_ms", time.Millisecond, onlyStart}, {"tool_timeout_sec", time.Second, onlyCall},
}

// mergedSources are those of agents that merge their files.
var mergedSources = []source{
	{agent: "opencode", scope: ScopeManaged, base: atSystem, path: "opencode/opencode.jsonc", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeManaged, base: atSystem, path: "opencode/opencode.json", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeUser, base: atText, env: []string{"OPENCODE_CONFIG_CONTENT"}, key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeProject, base: atProject, path: ".opencode/opencode.jsonc", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeProject, base: atProject, path: ".opencode/opencode.json", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeProject, base: atProject, path: "opencode.jsonc", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeProject, base: atProject, path: "opencode.json", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeUser, base: atFile, env: []string{"OPENCODE_CONFIG"}, key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeUser, base: atConfig, path: "opencode/opencode.jsonc", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "opencode", scope: ScopeUser, base: atConfig, path: "opencode/opencode.json", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},

	{agent: "kilo-code", scope: ScopeProject, base: atProject, path: ".kilo/kilo.jsonc", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "kilo-code", scope: ScopeProject, base: atProject, path: ".kilo/kilo.json", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "kilo-code", scope: ScopeProject, base: atProject, path: "kilo.jsonc", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "kilo-code", scope: ScopeProject, base: atProject, path: "kilo.json", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "kilo-code", scope: ScopeUser, base: atConfig, path: "kilo/kilo.jsonc", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},
	{agent: "kilo-code", scope: ScopeUser, base: atConfig, path: "kilo/kilo.json", key: []string{"mcp"},
		dialect: opencodeDialect, timeout: milliseconds, merged: true, defaults: []string{"tools"}, adapt: adaptOpenCode},

	{agent: "crush", scope: ScopeProject, base: atProject, path: ".crushrc", script: true},
	{agent: "crush", scope: ScopeProject, base: atProject, path: "crushrc", script: true},
	{agent: "crush", scope: ScopeProject, base: atProject, path: ".crush.json", key: []string{"mcp"},
		dialect: crushDialect, timeout: seconds, merged: true},
	{agent: "crush", scope: ScopeProject, base: atProject, path: "crush.json", key: []string{"mcp"},
		dialect: crushDialect, timeout: seconds, merged: true},
	{agent: "crush", scope: ScopeUser, base: atData, path: "crush/crush.json", key: []string{"mcp"},
		dialect: crushDialect, timeout: seconds, merged: true},
	{agent: "crush", scope: ScopeUser, base: atLocalAppData, path: "crush/crush.json", key: []string{"mcp"},
		dialect: crushDialect, timeout: seconds, merged: true},
	{agent: "crush", scope: ScopeUser, base: atConfig, path: "crush/crush.json", env: []string{"CRUSH_GLOBAL_CONFIG/crush.json"},
		key: []string{"mcp"}, dialect: crushDialect, timeout: seconds, merged: true},
}

var dockerSources = []source{
	{agent: "docker-mcp", scope: ScopePlugin, base: atHome, path: ".docker/mcp/catalogs/*.yaml", key: []string{"registry"},
		dialect: dockerDialect, adapt: adaptDocker},
}
