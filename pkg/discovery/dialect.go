package discovery

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A dialect is an agent's way to write variables.
type dialect string

// The dialects. In each a text is expanded once: what a value contains is
// never expanded again, and no shell is involved.
const (
	literalDialect       dialect = ""               // nothing is a variable
	claudeDialect        dialect = "claude"         // ${VAR} and ${VAR:-default}
	editorDialect        dialect = "editor"         // ${env:VAR}, ${input:id}, ${userHome}, ${workspaceFolder}
	windsurfDialect      dialect = "windsurf"       // ${env:VAR}, ${file:/path}
	opencodeDialect      dialect = "opencode"       // {env:VAR}, {file:path}
	geminiDialect        dialect = "gemini"         // $VAR, ${VAR}, ${VAR:-default}
	geminiWindowsDialect dialect = "gemini-windows" // the same, and %VAR% in env and headers
	copilotDialect       dialect = "copilot"        // $VAR, ${VAR}, ${VAR:-default}
	clineDialect         dialect = "cline"          // ${env:VAR}
	rooDialect           dialect = "roo"            // ${env:VAR}, ${workspaceFolder}
	amazonDialect        dialect = "amazon-q"       // ${env:VAR} in env
	kiroDialect          dialect = "kiro"           // ${VAR} in env and headers, if the variable is approved
	continueDialect      dialect = "continue"       // ${{ secrets.NAME }}, ${{ inputs.NAME }}
	continueJSONDialect  dialect = "continue-json"  // ${NAME} in env
	crushDialect         dialect = "crush"          // a shell's $VAR, ${VAR}, ${VAR:-default}; \$ is a dollar
	librechatDialect     dialect = "librechat"      // ${VAR} in env and url
	dockerDialect        dialect = "docker"         // {{server.key}} from config.yaml, ${VAR} in headers
)

// A fieldSet says in which fields a dialect has variables.
type fieldSet uint

const (
	inCommand fieldSet = 1 << iota
	inArgs
	inEnv
	inURL
	inHeaders
	inCwd // and envFile

	everywhere  = inCommand | inArgs | inEnv | inURL | inHeaders | inCwd
	inTransport = inCommand | inArgs | inEnv | inURL | inHeaders
)

// A grammar is what one dialect means. resolve gets the groups of a match of
// pattern; ok is false for what is no variable of the dialect or is missing and
// stays as written.
type grammar struct {
	pattern    *regexp.Regexp
	fields     fieldSet
	dropsEmpty fieldSet // where a value that expands to nothing is left out
	resolve    func(x *expansion, where fieldSet, group []string) (value string, ok bool)
}

var (
	// braces is the form that most dialects share. An opening brace without a
	// closing one stays as it is.
	braces = regexp.MustCompile(`\$\{([^{}]*)\}`)

	// dollars are $VAR and ${VAR}.
	dollars = regexp.MustCompile(`\$(?:\{([^{}]*)\}|([A-Za-z_][A-Za-z0-9_]*))`)

	// dollarsOrPercents are those of Windows, too.
	dollarsOrPercents = regexp.MustCompile(`\$(?:\{([^{}]*)\}|([A-Za-z_][A-Za-z0-9_]*))|%([A-Za-z_][A-Za-z0-9_()]*)%`)

	// shellPattern is what a shell would replace. A command substitution
	// goes to the end of the text, since only a shell knows where it ends.
	shellPattern = regexp.MustCompile("(?s)\\\\([$`\"\\\\])|\\$(?:\\{([^{}]*)\\}|([A-Za-z_][A-Za-z0-9_]*))|(\\$\\(.*|`.*)")

	bracesHere   = regexp.MustCompile(`^\{(env|file):([^{}\n]+)\}`)
	singleBraces = regexp.MustCompile(`\{(env|file):([^{}]+)\}`)
	secretBraces = regexp.MustCompile(`\$\{\{\s*([^{}]*?)\s*\}\}`)
	doubleBraces = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}|\$\{([^{}]*)\}`)

	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// grammars says what each dialect means.
var grammars = map[dialect]grammar{
	claudeDialect:        {pattern: braces, fields: everywhere, resolve: (*expansion).claude},
	editorDialect:        {pattern: braces, fields: everywhere, resolve: (*expansion).editor},
	windsurfDialect:      {pattern: braces, fields: inTransport, resolve: (*expansion).windsurf},
	opencodeDialect:      {pattern: singleBraces, fields: everywhere, resolve: (*expansion).opencode},
	geminiDialect:        {pattern: dollars, fields: everywhere, resolve: (*expansion).gemini},
	geminiWindowsDialect: {pattern: dollarsOrPercents, fields: everywhere, resolve: (*expansion).gemini},
	copilotDialect:       {pattern: dollars, fields: everywhere, resolve: (*expansion).copilot},
	clineDialect:         {pattern: braces, fields: everywhere, resolve: (*expansion).envOnly},
	rooDialect:           {pattern: braces, fields: everywhere, resolve: (*expansion).roo},
	amazonDialect:        {pattern: braces, fields: inEnv, resolve: (*expansion).amazon},
	kiroDialect:          {pattern: braces, fields: inEnv | inHeaders, resolve: (*expansion).kiro},
	continueDialect:      {pattern: secretBraces, fields: everywhere, resolve: (*expansion).secret},
	continueJSONDialect:  {pattern: braces, fields: inEnv, resolve: (*expansion).jsonSecret},
	crushDialect:         {pattern: shellPattern, fields: inTransport, dropsEmpty: inHeaders, resolve: (*expansion).shell},
	librechatDialect:     {pattern: braces, fields: inEnv | inURL, resolve: (*expansion).plain},
	dockerDialect:        {pattern: doubleBraces, fields: inArgs | inEnv | inURL | inHeaders, resolve: (*expansion).docker},
}

// plain is ${VAR}.
func (x *expansion) plain(_ fieldSet, group []string) (string, bool) {
	if !variableName.MatchString(group[0]) {
		return "", false
	}
	return x.env(group[0])
}

// kiro is ${VAR}, where the person has approved the variable.
func (x *expansion) kiro(where fieldSet, group []string) (string, bool) {
	if x.approved != nil && variableName.MatchString(group[0]) && !slices.Contains(x.approved, group[0]) {
		x.missing.Others = append(x.missing.Others, "variable "+group[0]+" is not among those that are approved in Kiro (kiroAgent.mcpApprovedEnvVars)")
		return "", false
	}
	return x.plain(where, group)
}

// fallback is VAR or VAR:-default. The default counts when VAR is not set.
func (x *expansion) fallback(inner string) (string, bool) {
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !variableName.MatchString(name) {
		return "", false
	}
	if value, ok := x.vars[name]; ok {
		return value, true
	}
	if !hasFallback {
		return x.env(name)
	}
	if value, ok := x.getenv(name); ok {
		return value, true
	}
	return fallback, true
}

// claude is ${VAR} and ${VAR:-default}. In an argument, a variable that only the
// entry itself sets is left to the program, as with npx mcp-remote.
func (x *expansion) claude(where fieldSet, group []string) (string, bool) {
	if _, own := x.own[group[0]]; own && where == inArgs {
		if _, set := x.getenv(group[0]); !set {
			return "", false
		}
	}
	return x.fallback(group[0])
}

// editorOnly are variables whose value only an editor has.
var editorOnly = []string{
	"file", "fileWorkspaceFolder", "relativeFile", "relativeFileDirname", "fileBasename", "fileBasenameNoExtension",
	"fileExtname", "fileDirname", "fileDirnameBasename", "lineNumber", "columnNumber", "selectedText", "execPath", "defaultBuildTask",
}

func (x *expansion) editor(_ fieldSet, group []string) (string, bool) {
	kind, name, _ := strings.Cut(group[0], ":")
	switch {
	case kind == "env" && name != "":
		return x.env(name)
	case kind == "input" && name != "":
		x.missing.Inputs = append(x.missing.Inputs, name)
		return "", false
	case kind == "workspaceFolder" && name == filepath.Base(x.cwd):
		return x.cwd, true
	case (kind == "config" || kind == "command" || kind == "workspaceFolder") && name != "", slices.Contains(editorOnly, group[0]):
		x.missing.Inputs = append(x.missing.Inputs, group[0])
		return "", false
	}
	switch group[0] {
	case "userHome":
		return x.home, true
	case "workspaceFolder", "workspaceRoot", "cwd":
		return x.cwd, true
	case "workspaceFolderBasename":
		return filepath.Base(x.cwd), true
	case "pathSeparator", "/":
		return string(filepath.Separator), true
	}
	return "", false
}

// envOnly is ${env:VAR}.
func (x *expansion) envOnly(_ fieldSet, group []string) (string, bool) {
	if name, ok := strings.CutPrefix(group[0], "env:"); ok && name != "" {
		return x.env(name)
	}
	return "", false
}

// amazon is ${env:VAR}, which becomes ${VAR} where VAR is not set.
func (x *expansion) amazon(_ fieldSet, group []string) (string, bool) {
	name, isEnv := strings.CutPrefix(group[0], "env:")
	if !isEnv || name == "" {
		return "", false
	}
	if value, ok := x.env(name); ok {
		return value, true
	}
	return "${" + name + "}", true
}

func (x *expansion) roo(where fieldSet, group []string) (string, bool) {
	if group[0] == "workspaceFolder" {
		return strings.ReplaceAll(x.cwd, `\`, "/"), true
	}
	return x.envOnly(where, group)
}

func (x *expansion) windsurf(where fieldSet, group []string) (string, bool) {
	if path, ok := strings.CutPrefix(group[0], "file:"); ok && path != "" {
		return x.file(path)
	}
	return x.envOnly(where, group)
}

// opencode is {env:VAR}, nothing where VAR is not set, and {file:path}.
func (x *expansion) opencode(_ fieldSet, group []string) (string, bool) {
	if group[0] == "file" {
		return x.file(group[1])
	}
	value, _ := x.env(group[1])
	return value, true
}

// gemini has variables in every text. In env and headers one that is not set is
// nothing, elsewhere it stays.
func (x *expansion) gemini(where fieldSet, group []string) (string, bool) {
	inner := strings.Join(group, "") // one of them matched
	if value, ok := x.vars[inner]; ok {
		return value, true
	}
	if inner == "workspacePath" {
		return x.cwd, true
	}
	if inner == "/" || inner == "pathSeparator" {
		return string(filepath.Separator), true
	}
	percent := len(group) > 2 && group[2] != ""
	if percent && where&(inEnv|inHeaders) == 0 {
		return "", false
	}
	if percent {
		value, _ := x.env(inner)
		return value, true
	}
	value, ok := x.fallback(inner)
	return value, ok || where&(inEnv|inHeaders) != 0 && variableName.MatchString(inner)
}

func (x *expansion) copilot(_ fieldSet, group []string) (string, bool) {
	return x.fallback(group[0] + group[1])
}

// shell is what a shell would replace, without one: commands are never run.
func (x *expansion) shell(_ fieldSet, group []string) (string, bool) {
	escaped, inBraces, name, command := group[0], group[1], group[2], group[3]
	switch {
	case escaped != "":
		return escaped, true
	case command != "":
		x.missing.Others = append(x.missing.Others,
			"the output of a command is in it ($(...)), and commands in config files are not run; write the value or a variable into the config")
		return "", false
	case name != "":
		value, _ := x.env(name)
		return value, true
	}
	value, ok := x.shellDefault(inBraces)
	return value, ok
}

// shellDefault is ${VAR}, ${VAR-default} and ${VAR:-default}. Other forms need
// a shell.
func (x *expansion) shellDefault(inner string) (string, bool) {
	name, fallback, hasFallback := strings.Cut(inner, "-")
	name, emptyToo := strings.CutSuffix(name, ":")
	if !variableName.MatchString(name) || emptyToo && !hasFallback {
		x.missing.Others = append(x.missing.Others, "only a shell can expand the braces in it; write the value or a variable into the config")
		return "", false
	}
	if !hasFallback {
		value, _ := x.env(name)
		return value, true
	}
	if value, ok := x.getenv(name); ok && (value != "" || !emptyToo) {
		return value, true
	}
	return fallback, true
}

// docker is {{server.key}}, from the values in config.yaml, and in headers
// ${VAR}. A missing value is named like a variable.
func (x *expansion) docker(where fieldSet, group []string) (string, bool) {
	if group[1] != "" {
		if where&(inHeaders|inURL) == 0 || !variableName.MatchString(group[1]) {
			return "", false
		}
		return x.env(group[1])
	}
	name, _, _ := strings.Cut(group[0], "|") // a filter, such as |into or |volume
	name = strings.TrimSpace(name)
	if value, ok := x.vars[name]; ok {
		return value, true
	}
	x.missing.Others = append(x.missing.Others, "value "+name+" is not in config.yaml of Docker's MCP settings")
	return "", false
}
