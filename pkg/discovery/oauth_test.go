package discovery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatADefinitionSaysOfItsLogin(t *testing.T) {
	const url = `"type":"http","url":"https://e.test/mcp"`
	rows := []struct {
		name, entry string
		want        OAuth
		note        string // a part of what is told; empty for nothing
	}{
		{"nothing", `{` + url + `}`, OAuth{}, ""},
		{"Claude Code's form", `{` + url + `,"oauth":{"clientId":"c","callbackPort":8080,"scopes":"read  write"}}`,
			OAuth{ClientID: "c", Port: 8080, Scopes: []string{"read", "write"}}, ""},
		{"scopes as a list", `{` + url + `,"oauth":{"client_id":"c","scopes":["read"," write "]}}`,
			OAuth{ClientID: "c", Scopes: []string{"read", "write"}}, ""},
		{"scopes beside the object", `{` + url + `,"oauthScopes":["a"]}`, OAuth{Scopes: []string{"a"}}, ""},
		{"switched off", `{` + url + `,"oauth":false}`, OAuth{}, ""},
		{"left to the server", `{` + url + `,"oauth":{}}`, OAuth{}, ""},
		{"no object", `{` + url + `,"oauth":"c"}`, OAuth{}, "oauth it is not an object"},
		{"a port that is none", `{` + url + `,"oauth":{"callbackPort":"http"}}`, OAuth{}, "oauth.callbackPort it is not the number"},
		{"a port out of range", `{` + url + `,"oauth":{"callbackPort":70000}}`, OAuth{}, "oauth.callbackPort it is not the number"},
		{"a scope with a line end", `{` + url + `,"oauth":{"scopes":["a\nb"]}}`, OAuth{}, "oauth.scopes it has what can be no scope"},
		{"a client that is no text", `{` + url + `,"oauth":{"clientId":5}}`, OAuth{}, "oauth.clientId it is no text"},
		{"an endless client", `{` + url + `,"oauth":{"clientId":"` + strings.Repeat("x", maxScope+1) + `"}}`, OAuth{}, "oauth.clientId it is too long"},
		{"a server that is started", `{"command":"x","oauth":{"clientId":"c"}}`, OAuth{}, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s, told, err := decode(t, source{agent: "test"}, row.entry)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(row.want, s.OAuth); d != "" {
				t.Errorf("want -, got +:\n%s", d)
			}
			if (row.note == "") != (told == "") || !strings.Contains(told, row.note) {
				t.Errorf("told %q, want %q", told, row.note)
			}
		})
	}
}
