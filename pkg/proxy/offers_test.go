package proxy

import (
	"strings"
	"testing"
)

const everything = `{"tools":{},"resources":{},"prompts":{},"completions":{}}`

func TestListsBesideToolsHaveAllPages(t *testing.T) {
	rows := []struct{ name, method, cursor, member, want string }{
		{"resources", "resources.list", "", "resources", `{"resources":[{"uri":"a:1","n":9007199254740993},{"uri":"a:2"}]}`},
		{"from a page on", "resources.list", "1", "resources", `{"resources":[{"uri":"a:2"}]}`},
		{"templates", "resources.templates", "", "resourceTemplates", `{"resourceTemplates":[{"uri":"a:1","n":9007199254740993},{"uri":"a:2"}]}`},
		{"prompts", "prompts.list", "", "prompts", `{"prompts":[{"uri":"a:1","n":9007199254740993},{"uri":"a:2"}]}`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, s := one(t, quick(), fakeConfig{Capabilities: everything, Listed: []string{
				`{"` + row.member + `":[{"uri":"a:1","n":9007199254740993}],"nextCursor":"1"}`, `{"` + row.member + `":[{"uri":"a:2"}]}`,
			}})
			got, err := ask(t, s, row.method, args{"server": "fake", "cursor": row.cursor})
			if err != nil || string(got) != row.want {
				t.Errorf("got %s, %v, want %s", got, err, row.want)
			}
		})
	}
}

func TestListsThatCannotBeReadToTheirEndSayWhy(t *testing.T) {
	rows := []struct {
		name   string
		listed []string
		want   string
	}{
		{"a page that fails", []string{`{"prompts":[1],"nextCursor":"1"}`}, `{"nextCursor":"1","prompts":[1],"warning":"its list of prompts is incomplete: page 2 failed: no such page`},
		{"the same cursor again", []string{`{"prompts":[1],"nextCursor":"1"}`, `{"prompts":[2],"nextCursor":"1"}`}, `{"prompts":[1,2],"warning":"its list of prompts was cut after page 2`},
		{"a member that is missing", []string{`{}`}, `{"prompts":[]}`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, s := one(t, quick(), fakeConfig{Capabilities: everything, Listed: row.listed})
			got, err := ask(t, s, "prompts.list", args{"server": "fake"})
			if err != nil || !strings.HasPrefix(string(got), row.want) {
				t.Errorf("got %s, %v, want %s", got, err, row.want)
			}
		})
	}
	t.Run("no list", func(t *testing.T) {
		_, s := one(t, quick(), fakeConfig{Capabilities: everything, Listed: []string{`{"prompts":3}`}})
		_, err := ask(t, s, "prompts.list", args{"server": "fake"})
		wantCode(t, err, CodeServerFailed, "reading its list of prompts")
	})
}

// offers are requests for what a server may have, and what it is asked then.
var offers = []struct {
	method string
	params args
	want   string
}{
	{"resources.read", args{"uri": "file:///a"}, `{"asked":{"uri":"file:///a"},"n":9007199254740993}`},
	{"prompts.get", args{"name": "p"}, `{"asked":{"name":"p"},"n":9007199254740993}`},
	{"prompts.get", args{"name": "p", "arguments": args{"b": "<&>"}}, `{"asked":{"name":"p","arguments":{"b":"<&>"}},"n":9007199254740993}`},
	{"complete", args{"ref": args{"type": "ref/prompt", "name": "p"}, "argument": args{"name": "a", "value": "x"}, "context": nil},
		`{"asked":{"ref":{"name":"p","type":"ref/prompt"},"argument":{"name":"a","value":"x"}},"n":9007199254740993}`},
}

func TestResourcesPromptsAndCompletionsPassAsWritten(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{Capabilities: everything})
	for _, row := range offers {
		row.params["server"] = "fake"
		got, err := ask(t, s, row.method, row.params)
		if err != nil || string(got) != row.want {
			t.Errorf("%s: got %s, %v, want %s", row.method, got, err, row.want)
		}
	}
	_, err := ask(t, s, "resources.read", args{"server": "fake", "uri": "bad:"})
	wantCode(t, err, CodeUpstream, "refused the call of resources.read", "not found (code -32002)")
}

func TestWhatAServerDoesNotOfferIsRefusedAndListedAsNothing(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	s := open(t, p, b.server("fake", fakeConfig{Log: b.path("log")}))
	for _, row := range offers {
		row.params["server"] = "fake"
		_, err := ask(t, s, row.method, row.params)
		wantCode(t, err, CodeNotAvailable, "Server fake offers no ")
	}
	for method, want := range map[string]string{
		"resources.list": `{"resources":[]}`, "resources.templates": `{"resourceTemplates":[]}`, "prompts.list": `{"prompts":[]}`,
	} {
		got, err := ask(t, s, method, args{"server": "fake"})
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", method, got, err, want)
		}
	}
	must(t, s, "echo", args{}) // so that all that was sent before it is in the log
	if log := strings.Join(b.lines("log"), "\n"); strings.Contains(log, "resources/") || strings.Contains(log, "prompts/") || strings.Contains(log, "completion") {
		t.Errorf("the server was asked all the same: %s", log)
	}
}

func TestServersThatSayNothingOfThemselvesAreAsked(t *testing.T) {
	rows := []struct{ name, version, capabilities string }{
		{"no capabilities", "2025-11-25", "null"},
		{"completions before they had a name", "2024-11-05", `{"tools":{},"prompts":{},"resources":{}}`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, s := one(t, quick(), fakeConfig{Version: row.version, Capabilities: row.capabilities})
			for _, row := range offers {
				row.params["server"] = "fake"
				if _, err := ask(t, s, row.method, row.params); err != nil {
					t.Errorf("%s: %v", row.method, err)
				}
			}
		})
	}
}

func TestOnlyLoadedServersAreReadAndAnyIsListed(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	s := p.NewSession(SessionOptions{Servers: openServers(b.server("fake", fakeConfig{Capabilities: everything, Listed: []string{`{"prompts":[1]}`}}))})
	t.Cleanup(s.Close)
	for _, row := range offers {
		row.params["server"] = "fake"
		_, err := ask(t, s, row.method, row.params)
		wantCode(t, err, CodeNotAvailable, `servers=["fake"]`)
	}
	if n := len(b.processes()); n != 0 {
		t.Errorf("%d processes were started", n)
	}
	if got, err := ask(t, s, "prompts.list", args{"server": "fake"}); err != nil || string(got) != `{"prompts":[1]}` {
		t.Errorf("prompts.list: got %s, %v", got, err)
	}
	got, err := ask(t, s, "server.info", args{"server": "fake"})
	want := `{"name":"fake","version":"1","protocolVersion":"2025-11-25","capabilities":` + everything + `,"instructions":"be kind"}`
	if err != nil || string(got) != want {
		t.Errorf("server.info: got %s, %v, want %s", got, err, want)
	}
}

func TestWrongRequestsForOffersSayWhatIsWrong(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	rows := []struct {
		method string
		params args
		want   string
	}{
		{"resources.read", args{"server": "fake"}, "needs uri"},
		{"prompts.get", args{"server": "fake"}, "needs name"},
		{"prompts.get", args{"server": "fake", "name": "p", "arguments": args{"n": 1}}, "cannot be read"},
		{"complete", args{"server": "fake", "ref": 1, "argument": args{}}, "needs ref"},
		{"complete", args{"server": "fake", "ref": args{}, "argument": args{}, "context": 1}, "context is an object"},
		{"server.info", args{}, "needs server"},
	}
	for _, row := range rows {
		_, err := ask(t, s, row.method, row.params)
		wantCode(t, err, CodeBadRequest, row.want)
	}
}
