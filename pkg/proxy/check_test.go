package proxy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/discovery"
)

// issueTool is a tool as real servers have them.
var issueTool = json.RawMessage(`{"name":"create_issue","inputSchema":{"type":"object","required":["title"],"additionalProperties":false,
	"properties":{"title":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}},"state":{"enum":["open","closed"]}}}}`)

func TestArgumentsThatBreakTheSchemaAreRefusedBeforeTheCall(t *testing.T) {
	b := newBench(t)
	s := open(t, newProxy(t, quick()), b.server("fake", fakeConfig{Log: b.path("log"), Tools: []json.RawMessage{issueTool}}))
	_, err := call(t, s, "fake", "create_issue", args{"titel": "x", "labels": args{"0": 1}, "state": "opne"})
	wantCode(t, err, CodeInvalidArguments, "create_issue on server fake was not made", `arguments["titel"] is unknown; did you mean title?`,
		`arguments["state"] must be one of "open" or "closed"; did you mean "open"?`,
		`It is create_issue(title: str, labels: list[str] = None, state: Literal["open", "closed"] = None) -> Any`)
	e, _ := errors.AsType[*Error](err)
	var data struct {
		Server, Tool string
		Problems     []struct{ Path, Message string }
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, p := range data.Problems {
		paths = append(paths, p.Path)
	}
	if diff := cmp.Diff([]string{`arguments["titel"]`, `arguments["title"]`, `arguments["labels"]`, `arguments["state"]`}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if data.Server != "fake" || data.Tool != "create_issue" || data.Problems[2].Message != "must be list, not dict" {
		t.Errorf("data: %+v", data)
	}
	if _, err := call(t, s, "fake", "create_issue", args{"title": "x", "labels": []string{"a"}}); err != nil {
		t.Errorf("a call that is right: %v", err)
	}
	if log := strings.Join(b.lines("log"), "\n"); strings.Count(log, "tools/call") != 1 {
		t.Errorf("the server got:\n%s", log)
	}
}

func TestASettingSwitchesTheCheckOff(t *testing.T) {
	o := quick()
	no := false
	o.Settings = []Setting{{Name: "fa*", Validate: &no}}
	_, s := one(t, o, fakeConfig{Tools: []json.RawMessage{issueTool}})
	if _, err := call(t, s, "fake", "create_issue", args{"titel": 1}); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestASchemaThatCannotBeCheckedKeepsNoCallFromBeingMade(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{Tools: []json.RawMessage{
		json.RawMessage(`{"name":"broken","inputSchema":{"type":"object","properties":{"a":{"type":"strng"}},"required":["b"]}}`),
		json.RawMessage(`{"name":"far","inputSchema":{"$ref":"http://127.0.0.1:1/x"}}`),
	}})
	for tool, problem := range map[string]string{"broken": "no valid schema at #/properties/a/type", "far": "another document, which is not fetched"} {
		if _, err := call(t, s, "fake", tool, args{"a": 1}); err != nil {
			t.Errorf("calling %s: %v", tool, err)
		}
		docs := docsOf(t, s, args{"server": "fake", "tool": tool})
		if len(docs) != 1 || !strings.Contains(docs[0].Problem, "arguments are not checked") || !strings.Contains(docs[0].Problem, problem) {
			t.Errorf("docs of %s: %+v", tool, docs)
		}
	}
}

func TestCodeLoadsServers(t *testing.T) {
	b := newBench(t)
	first, second := b.server("one", fakeConfig{}), b.server("two-b", fakeConfig{})
	s := open(t, newProxy(t, quick()), first)
	s.opts.Servers = func() []discovery.Server { return []discovery.Server{first, second} }
	raw, err := ask(t, s, "servers.load", args{"names": []string{"two_b", "one"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"loaded":[{"name":"two-b","alias":"two_b"},{"name":"one","alias":"one"}]}`, string(raw)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if _, err := call(t, s, "two-b", "echo", args{}); err != nil {
		t.Errorf("calling a tool: %v", err)
	}
	for _, names := range [][]string{nil, {}, {"none"}, make([]string, maxLoaded+1)} {
		if _, err := ask(t, s, "servers.load", args{"names": names}); err == nil {
			t.Errorf("loading %d names: no error", len(names))
		}
	}
	_, err = ask(t, s, "servers.load", args{"names": []string{"tow"}})
	wantCode(t, err, CodeNotAvailable, "tow", "two-b")
}
