package main

import (
	"os"
	"strings"
	"testing"

	"github.com/bridged/bridged/pkg/bridge"
)

func TestClientTablesSayTheOutputMode(t *testing.T) {
	path := writeConfig(t, `
[output]
mode = "json"
[[client]]
output_mode = "compact"
[[client]]
name = "claude-*"
output_mode = "json"
[[client]]
name = "claude-desktop"
`)
	c, err := loadConfig(flagsFor(t, "--config", path), env())
	if err != nil {
		t.Fatal(err)
	}
	for client, want := range map[string]bridge.Mode{
		"cursor": "compact", "": "compact", "claude-code": "json", "claude-desktop": "json", "Claude-code": "compact",
	} {
		if got := c.Client.mode(client, c.Output.Mode); got != want {
			t.Errorf("%q: got %s, want %s", client, got, want)
		}
	}
	none := clientTables{{Name: "x", OutputMode: "compact"}}
	if got := none.mode("y", c.Output.Mode); got != bridge.JSON {
		t.Errorf("without a table: got %s, want output.mode", got)
	}
}

func TestClientTablesSayWhatResultsMayCost(t *testing.T) {
	path := writeConfig(t, `
[output]
max_tokens = 3000
[[client]]
name = "small-*"
max_tokens = 500
[[client]]
output_mode = "json"
`)
	c, err := loadConfig(flagsFor(t, "--config", path), env())
	if err != nil {
		t.Fatal(err)
	}
	for client, want := range map[string]int{"cursor": 3000, "": 3000, "small-model": 500} {
		if got := c.Client.maxTokens(client, c.Output.MaxTokens); got != want {
			t.Errorf("%q: got %d, want %d", client, got, want)
		}
	}
}

func TestBadClientTablesNameTheSpot(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"an unknown key", "[[client]]\noutput_mood = \"json\"\n", []string{"config.toml:2", "client.output_mood", "did you mean output_mode"}},
		{"a key like none", "[[client]]\nzzz = true\n", []string{"config.toml:2", "known keys are name, output_mode, max_tokens"}},
		{"a mode that there is not", "[[client]]\noutput_mode = \"xml\"\n", []string{"config.toml:2", `"xml"`, "compact"}},
		{"no text", "[[client]]\noutput_mode = 1\n", []string{"config.toml:2", "no mode"}},
		{"a broken pattern", "[[client]]\nname = \"a\"\n[[client]]\nname = \"[\"\n", []string{"config.toml:3", `name "["`, "no pattern"}},
		{"the default", "[output]\nmode = \"xml\"\n", []string{"config.toml:2", `"xml"`, "compact"}},
		{"too few tokens", "[[client]]\nmax_tokens = 20\n", []string{"config.toml:1", "max_tokens is 20", "200 to 200000"}},
		{"too many tokens", "[output]\nmax_tokens = 1000000\n", []string{"output.max_tokens is 1000000", "200 to 200000"}},
		{"too many", strings.Repeat("[[client]]\n", 257), []string{"257", "256"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			wantRefused(t, row.text, row.want...)
		})
	}
}

func TestDocumentationNamesEveryKeyOfAClientTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, client, found := strings.Cut(string(text), "[[client]]")
	client, _, _ = strings.Cut(client, "```")
	for _, key := range tomlKeys[clientTable]() {
		if !found || !strings.Contains(client, "\n"+key+" = ") {
			t.Errorf("docs/configuration.md shows no %s of a [[client]]", key)
		}
	}
}
