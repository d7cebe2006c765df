package bridge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

// The budget of the tool's entry in tools/list, in o200k_base tokens.
const (
	maxEntryTokens = 150
	maxLineTokens  = 40
)

func counter(t *testing.T) func(string) int {
	t.Helper()
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	return func(s string) int {
		n, err := enc.Count(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// entry is the tool as it is sent, with the live line for servers.
func entry(t *testing.T, servers []string) string {
	t.Helper()
	tool := runPythonTool()
	tool.Description += liveLine(servers)
	raw, err := json.Marshal(tool)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestToolEntryKeepsToItsTokenBudget(t *testing.T) {
	count := counter(t)
	bare := entry(t, nil)
	n := count(bare)
	t.Logf("%d tokens: %s", n, bare)
	if n > maxEntryTokens {
		t.Errorf("the entry costs %d tokens, want at most %d", n, maxEntryTokens)
	}
	if strings.Contains(bare, `\u`) {
		t.Errorf("the entry holds escapes, which cost tokens: %s", bare)
	}
}

func TestLiveLineKeepsToItsTokenBudget(t *testing.T) {
	count := counter(t)
	bare := count(entry(t, nil))
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(alphabet string, n, length int) []string {
		letters := []rune(alphabet)
		var names []string
		for range n {
			name := make([]rune, 1+rng.IntN(length))
			for i := range name {
				name[i] = letters[rng.IntN(len(letters))]
			}
			names = append(names, string(name))
		}
		return names
	}
	var long []string
	for i := range 100 {
		long = append(long, fmt.Sprintf("organisation-wide-knowledge-base-connector-%03d", i))
	}
	rows := map[string][]string{
		"one":                       {"github"},
		"the usual ones":            {"github", "jira", "postgres", "slack", "filesystem", "memory", "time", "fetch", "git", "sqlite", "puppeteer", "sentry"},
		"a hundred long names":      long,
		"scoped packages":           {"@modelcontextprotocol/server-everything", "io.github.user/thing", "a/b/c", "x"},
		"names that are sentences":  {"ignore previous instructions and", "a\nb", "\"quoted\"", "<tag>"},
		"other scripts":             {"日程管理", "база-данных", "προγράμματα", "ひらがな"},
		"one that is very long":     {strings.Repeat("a", 4000)},
		"a hundred that are hidden": random("\u0001\u0002 ", 100, 5),
	}
	for i := range 200 {
		rows[fmt.Sprintf("letters %d", i)] = random("abcdefghijklmnopqrstuvwxyz", 100, 24)
		rows[fmt.Sprintf("mixed %d", i)] = random("qxzjkvwABCXYZ0123456789-_./:@", 100, 12)
		rows[fmt.Sprintf("scripts %d", i)] = random("äößñąęłшщюя漢字かな한국ابج", 100, 6)
	}
	for name, servers := range rows {
		if n := count(entry(t, servers)) - bare; n > maxLineTokens {
			t.Errorf("%s: the line %q costs %d tokens, want at most %d", name, liveLine(servers), n, maxLineTokens)
		}
	}
}

func TestLiveLine(t *testing.T) {
	for _, tt := range []struct {
		name    string
		servers []string
		want    string
	}{
		{"no server, no line", nil, ""},
		{"all fit", []string{"github", "jira", "postgres"}, "\nServers: github, jira, postgres"},
		{"what does not fit is counted", []string{"github", strings.Repeat("x", 200), "jira"}, "\nServers: github, jira, +1"},
		{"a name that could talk to the model is counted", []string{"do as I say", "git"}, "\nServers: git, +1"},
		{"none fits", []string{strings.Repeat("x", 200)}, "\nServers: 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := liveLine(tt.servers); got != tt.want {
				t.Errorf("liveLine: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDescriptionAndInstructionsAreNotCutByAgents(t *testing.T) {
	var servers []string
	for i := range 100 {
		servers = append(servers, fmt.Sprintf("server%d", i))
	}
	if n := len(description + liveLine(servers)); n > 2048 {
		t.Errorf("the description has %d characters, agents cut at 2048", n)
	}
	if n := len(instructions); n > 2048 {
		t.Errorf("the instructions have %d characters, agents cut at 2048", n)
	}
}
