package proxy

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/bridged/bridged/pkg/discovery"
)

func TestSearchFindsSavedFunctionsBesideTools(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	issue := json.RawMessage(`{"name":"create_issue","description":"Open a new issue","inputSchema":{"type":"object"}}`)
	servers := []discovery.Server{b.server("tracker", fakeConfig{Tools: []json.RawMessage{issue}})}
	list := []Saved{
		{Name: "weekly_issues", Signature: "weekly_issues(repo: str) -> dict", Description: "Counts the issues of a week. With labels."},
		{Name: "other", Signature: "other()", Description: "Something else", Problem: "odd"},
	}
	s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return servers }, Saved: func() []Saved { return list }, Home: "/", Cwd: "/"})
	defer s.Close()
	found := func(query string) []doc {
		t.Helper()
		raw, err := ask(t, s, "docs.search", args{"query": query})
		if err != nil {
			t.Fatal(err)
		}
		var r struct{ Results []doc }
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		return r.Results
	}
	names := func(docs []doc) (names []string) {
		for _, d := range docs {
			names = append(names, d.Server+"."+d.Tool)
		}
		return names
	}
	docs := found("count the issues of a week")
	if !slices.Contains(names(docs), "tracker.create_issue") || names(docs)[0] != ".weekly_issues" {
		t.Fatalf("found %q", names(docs))
	}
	if d := docs[0]; !d.Saved || d.Signature != list[0].Signature || d.Description != "Counts the issues of a week." || d.Score == nil {
		t.Errorf("the saved function is %+v", d)
	}
	if docs[1].Saved {
		t.Errorf("a server's tool is %+v", docs[1])
	}
	list = []Saved{{Name: "issues_of_month", Description: "Counts the issues of a month."}}
	if got := names(found("count the issues of a week")); !slices.Contains(got, ".issues_of_month") || slices.Contains(got, ".weekly_issues") {
		t.Errorf("after a change it found %q", got)
	}
	list = nil
	if got := names(found("count issues")); !slices.Equal(got, []string{"tracker.create_issue"}) {
		t.Errorf("with none saved it found %q", got)
	}
}
