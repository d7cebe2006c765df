package discovery

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// baseNames say in docs/agents.md where paths start.
var baseNames = map[base]string{
	atHome: "~/", atProject: "", atFile: "", atConfig: "CONFIG/", atAppData: "APPDATA/",
	atLocalAppData: "LOCALAPPDATA/", atData: "DATA/", atSystem: "SYSTEM/", atPrograms: "PROGRAMS/", atCode: "CODE/", atText: "",
}

// agentRow writes one source the way docs/agents.md has it.
func agentRow(src source) string {
	file := baseNames[src.base] + src.path
	var variables []string
	for _, env := range src.env {
		variables = append(variables, "`$"+env+"`")
	}
	if file != "" {
		file = "`" + file + "`"
	}
	where := strings.Trim(strings.Join(append([]string{file}, variables...), ", "), ", ")
	if src.darwin != "" {
		where = strings.Replace(where, file, file+", `"+baseNames[src.base]+src.darwin+"` (macOS)", 1)
	}
	if src.goos != "" {
		where += " (" + map[string]string{"linux": "Linux", "darwin": "macOS", "windows": "Windows"}[src.goos] + ")"
	}
	dialect := string(src.dialect)
	if dialect == "" {
		dialect = "none"
	}
	key := "`" + strings.Join(src.key, "` → `") + "`"
	switch {
	case src.script:
		key = "(a script, which is not run)"
	case src.base == atText:
		where += " (the text itself)"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", src.agent, src.scope, where, key, dialect)
}

func TestTheDocumentListsEverySource(t *testing.T) {
	var want strings.Builder
	for _, src := range sources {
		fmt.Fprintln(&want, agentRow(src))
	}
	data, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "| --- | --- | --- | --- | --- |\n"
	_, table, ok := strings.Cut(string(data), head)
	table, _, end := strings.Cut(table, "\n\n")
	if !ok || !end || table+"\n" != want.String() {
		t.Errorf("docs/agents.md does not have the table of sources; it should hold:\n%s%s", head, want.String())
	}
}
