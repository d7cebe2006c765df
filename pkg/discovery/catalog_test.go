package discovery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shop is a catalogue of a few servers such as people have.
func shop(t *testing.T) (*Catalog, []Ref) {
	t.Helper()
	tool := func(name, description string, params ...string) string {
		props := map[string]any{}
		for _, p := range params {
			key, text, _ := strings.Cut(p, ": ")
			props[key] = map[string]string{"type": "string", "description": text}
		}
		raw, err := json.Marshal(map[string]any{"name": name, "description": description,
			"inputSchema": map[string]any{"type": "object", "properties": props}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	servers := map[string][]string{
		"files": {
			tool("read_text_file", "Read the complete contents of a file as text", "path", "head: first lines only"),
			tool("list_directory", "Get a listing of all files in a path", "path"),
			tool("moveFile", "Move or rename a file", "source", "destination"),
			tool("delete_file", "Remove a file for good", "path"),
		},
		"google-calendar": {
			tool("list-events", "List the events of a calendar between two times", "calendarId", "timeMin", "timeMax"),
			tool("create-event", "Create a new event", "summary", "start", "attendees: addresses of the people to invite"),
		},
		"gmail": {
			tool("send_message", "Sends an email to one or more recipients", "to", "subject", "body"),
			tool("search_threads", "Search the mailbox", "q"),
		},
		"aws": {tool("S3PutObject", "Upload an object to a bucket", "bucket", "key")},
		"misc": {
			tool("日本語検索", "日本の文書を探す"),
			tool("echo", "Echoes back the input"),
		},
	}
	c := NewCatalog()
	var refs []Ref
	for _, name := range []string{"misc", "aws", "gmail", "google-calendar", "files"} {
		tools, skipped := parse(t, servers[name]...)
		if len(skipped) > 0 {
			t.Fatalf("%s: skipped %q", name, skipped)
		}
		c.Put("digest of "+name, tools)
		refs = append(refs, Ref{Digest: "digest of " + name, Server: name})
	}
	return c, refs
}

func found(matches []Match) []string {
	var list []string
	for _, m := range matches {
		list = append(list, m.Tool.Server+" "+m.Tool.Name)
	}
	return list
}

func TestSearchFindsTheRightToolFirst(t *testing.T) {
	c, refs := shop(t)
	tests := []struct{ name, query, want, why string }{
		{"the exact name", "read_text_file", "files read_text_file", "read in name, description"},
		{"the name in words", "move file", "files moveFile", "mov in name"},
		{"another form of the word", "reading files", "files read_text_file", "read in name"},
		{"a plural of the description", "mailboxes", "gmail search_threads", "mailbox in description"},
		{"a synonym", "erase a document", "files delete_file", "eras as delet (synonym) in name"},
		{"a synonym in the name of the server", "email somebody", "gmail send_message", "email in description"},
		{"the server's name", "calendar events", "google-calendar list-events", "calendar in parameter, description, server"},
		{"a misspelt word", "calender evnets", "google-calendar list-events", "calender as calendar (spelling)"},
		{"two letters in the wrong order", "dierctory", "files list_directory", "dierctory as directory (spelling)"},
		{"a swap in a short word", "htread", "gmail search_threads", "htread as thread (spelling)"},
		{"the start of a word", "recip", "gmail send_message", "recip as recipient (spelling)"},
		{"a parameter", "attendees", "google-calendar create-event", "attende in parameter"},
		{"a parameter's text", "invite people", "google-calendar create-event", "invit in parameter text"},
		{"letters with digits", "s3 upload", "aws S3PutObject", "s3 in name"},
		{"a script without spaces", "検索", "misc 日本語検索", "検 in name"},
		{"a whole sentence", "please could you show me what is in my folder", "files list_directory", ""},
		{"shouting", "SEND MESSAGE", "gmail send_message", "send in name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := c.Search(tt.query, refs, 3)
			if len(got) == 0 || found(got)[0] != tt.want {
				t.Fatalf("Search(%q): got %q, want %q first", tt.query, found(got), tt.want)
			}
			if why := strings.Join(got[0].Why, "; "); !strings.Contains(why, tt.why) {
				t.Errorf("why: got %q, want %q in it", why, tt.why)
			}
			for i := 1; i < len(got); i++ {
				if got[i].Score > got[i-1].Score {
					t.Errorf("scores are not sorted: %v before %v", got[i-1].Score, got[i].Score)
				}
			}
		})
	}
}

func TestSearchByMeaningAlone(t *testing.T) {
	c, refs := shop(t)
	for query, want := range map[string]string{
		"remove a document":         "files delete_file",
		"contents of a folder":      "files list_directory",
		"mail somebody":             "gmail send_message",
		"relocate a file elsewhere": "files moveFile",
	} {
		got := c.SearchBy(Ranking{NoWords: true}, query, refs, 1)
		if len(got) == 0 || found(got)[0] != want {
			t.Errorf("SearchBy(%q): got %q, want %q", query, found(got), want)
			continue
		}
		if why := strings.Join(got[0].Why, "; "); !strings.HasPrefix(why, "meaning 0.") && !strings.HasPrefix(why, "meaning 1.") {
			t.Errorf("SearchBy(%q): why is %q", query, why)
		}
	}
}

func TestSearchEdges(t *testing.T) {
	c, refs := shop(t)
	firstThree := []string{"aws S3PutObject", "files read_text_file", "files list_directory"}
	for _, query := range []string{"", "  ", "?!", "\xff\xfe"} {
		if diff := cmp.Diff(firstThree, found(c.Search(query, refs, 3))); diff != "" {
			t.Errorf("Search(%q) (-want +got):\n%s", query, diff)
		}
	}
	if got := c.Search("zzzzqqqq", refs, 5); len(got) != 0 {
		t.Errorf("nonsense found %q", found(got))
	}
	if got := c.Search("file", refs, 0); len(got) != defaultLimit {
		t.Errorf("the default limit gave %d tools", len(got))
	}
	if got := c.Search("file", nil, 5); len(got) != 0 {
		t.Errorf("no servers gave %q", found(got))
	}
	if got := c.Search("file", []Ref{{Digest: "unknown", Server: "x"}}, 5); len(got) != 0 {
		t.Errorf("an unknown server gave %q", found(got))
	}
	if got := c.Search(strings.Repeat("zzzz ", maxQuery/5)+"file", refs, 5); len(got) != 0 {
		t.Errorf("words past the limit of a query found %q", found(got))
	}
	if got := c.SearchBy(Ranking{NoMeaning: true}, "file", append(refs, refs...), 50); len(got) != 4 {
		t.Errorf("servers named twice gave %q", found(got))
	}
}

func TestSearchSeesOnlyWhatTheSessionMay(t *testing.T) {
	c, _ := shop(t)
	s := Server{Name: "my files", Tools: Filter{Deny: []string{"delete_file"}}}
	ref := RefOf(s)
	if ref.Digest != s.Digest() {
		t.Errorf("RefOf: got digest %s, want %s", ref.Digest, s.Digest())
	}
	ref.Digest = "digest of files"
	if got := found(c.Search("delete file calendar", []Ref{ref}, 10)); strings.Contains(strings.Join(got, ","), "delete_file") || strings.Contains(strings.Join(got, ","), "calendar") {
		t.Errorf("got %q", got)
	}
	tools, ok := c.Tools(ref)
	if !ok || len(tools) != 3 || tools[0].Server != "my files" {
		t.Errorf("Tools: got %d tools, %v", len(tools), ok)
	}
	if _, ok := c.Tool(ref, "delete_file"); ok {
		t.Error("a denied tool is found by its name")
	}
	if got, ok := c.Tool(ref, "moveFile"); !ok || got.Server != "my files" {
		t.Errorf("Tool: got %+v, %v", got, ok)
	}
}

func TestTiesAreStable(t *testing.T) {
	c := NewCatalog()
	var refs []Ref
	for _, name := range []string{"c", "a", "b"} {
		tools, _ := parse(t, `{"name": "y", "description": "same", "inputSchema": {"type": "object"}}`, `{"name": "x", "description": "same", "inputSchema": {"type": "object"}}`)
		c.Put(name, tools)
		refs = append(refs, Ref{Digest: name, Server: name})
	}
	want := []string{"a x", "a y", "b x", "b y", "c x", "c y"}
	for range 5 {
		if diff := cmp.Diff(want, found(c.Search("same", refs, 10))); diff != "" {
			t.Fatalf("ties (-want +got):\n%s", diff)
		}
	}
}

func TestCatalogChanges(t *testing.T) {
	c, refs := shop(t)
	before := c.Generation()
	c.Drop("not there")
	if c.Generation() != before {
		t.Error("dropping nothing counts as a change")
	}
	tools, _ := parse(t, `{"name": "unheard_of", "inputSchema": {"type": "object"}}`)
	c.Put("digest of misc", tools)
	if got := found(c.Search("unheard", refs, 1)); len(got) != 1 || got[0] != "misc unheard_of" {
		t.Errorf("after Put: got %q", got)
	}
	if got := c.Search("echoes", refs, 1); len(got) != 0 {
		t.Errorf("a replaced tool is still found: %q", found(got))
	}
	c.Drop("digest of misc")
	if _, ok := c.Tools(refs[0]); ok || slices.Contains(found(c.Search("unheard", refs, 10)), "misc unheard_of") {
		t.Error("a dropped server is still there")
	}
	if got := c.Generation(); got != before+2 {
		t.Errorf("generation: got %d, want %d", got, before+2)
	}
}

func TestCatalogIsSafeForConcurrentUse(t *testing.T) {
	c, refs := shop(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				tools, _ := parse(t, fmt.Sprintf(`{"name": "tool_%d_%d", "inputSchema": {"type": "object"}}`, i, j))
				c.Put("digest of misc", tools)
				if got := c.Search("tool file", refs, 3); len(got) == 0 {
					t.Error("a search during changes found nothing")
				}
				c.Drop("digest of misc")
			}
		})
	}
	wg.Wait()
}

func TestWords(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"snake case", "read_text_file", []string{"read", "text", "fil"}},
		{"camel case", "readTextFile", []string{"read", "text", "fil"}},
		{"initials", "HTTPServerURL", []string{"http", "server", "url"}},
		{"kebab and dots", "get-item.v", []string{"get", "item", "v"}},
		{"letters and digits", "S3PutObject oauth2", []string{"s3", "3", "put", "object", "oauth2", "oauth", "2"}},
		{"plurals", "files boxes queries classes status", []string{"fil", "box", "query", "class", "status"}},
		{"participles", "listing created stopped calling", []string{"list", "creat", "stop", "call"}},
		{"nouns of action", "creation deletion create delete", []string{"creat", "delet", "creat", "delet"}},
		{"short words stay", "use bed sing", []string{"use", "bed", "sing"}},
		{"accents stay", "Événements", []string{"événements"}},
		{"ideographs", "検索a", []string{"検", "索", "a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, words(tt.text, 100)); diff != "" {
				t.Errorf("words(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
	if got := len(words(strings.Repeat("a ", 1000), 7)); got != 7 {
		t.Errorf("the limit of 7 words gave %d", got)
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"time", "time", 0}, {"abdc", "abcd", 1}, {"tmie", "time", 1}, {"time", "times", 1}, {"tame", "time", 1},
		{"emit", "time", 4}, {"ab", "ba", 1}, {"", "ab", 2}, {"axb", "bxa", 2},
	}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q): got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"filesystem", "github", "gitlab", "git", "google-calendar", "calculator", "日本語"}
	tests := []struct {
		name, in string
		want     []string
	}{
		{"a typo", "gihtub", []string{"github"}},
		{"case and separators", "Google Calendar", []string{"google-calendar"}},
		{"a part of the name", "calendar", []string{"google-calendar"}},
		{"letters of the name in order", "gcal", []string{"google-calendar"}},
		{"a longer name", "filesystems", []string{"filesystem"}},
		{"nothing alike", "postgres", nil},
		{"nothing", "", nil},
		{"a single letter", "x", nil},
		{"a very long name", strings.Repeat("git", 100), nil},
		{"another script", "日本", []string{"日本語"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Nearest(tt.in, names, 2)); diff != "" {
				t.Errorf("Nearest(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
	if got := Nearest("git", names, 0); got != nil {
		t.Errorf("none asked for, got %q", got)
	}
}
