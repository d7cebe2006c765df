package discovery

import (
	"slices"
	"strings"
	"testing"

	"github.com/bridged/bridged/pkg/meaning"
)

func TestEveryDeedHasWordsAndWaysToSayIt(t *testing.T) {
	seen := map[string]bool{}
	for line := range knowledge(deedsFile) {
		called, said, ok := strings.Cut(line, " | ")
		if !ok || called == "" || said == "" {
			t.Errorf("%q: want a tool's words, a bar and sentences", line)
		}
		for way := range strings.SplitSeq(said, "; ") {
			if way != strings.TrimSpace(way) || way == "" || seen[way] {
				t.Errorf("%q: %q is empty, ragged or there twice", line, way)
			}
			seen[way] = true
		}
	}
	for _, d := range deeds().deeds {
		if len(d.words) == 0 || slices.Contains(d.said, meaning.Packed{}) {
			t.Errorf("%v: a way to say it has no meaning", d.words)
		}
	}
}

func TestDeedsAreTheOnesThatPeopleMean(t *testing.T) {
	for query, want := range map[string]string{
		"who is on holiday next week":        "leav",
		"what does this text on my disk say": "read",
		"drop my landlord a line":            "email",
	} {
		asked := meanWords(query, maxQueryWords)
		got := deedsLike(&asked)
		sum := 0.0
		for _, d := range got {
			sum += d.share
		}
		if !slices.ContainsFunc(got, func(d likelyDeed) bool { return slices.Contains(d.words, want) }) || sum > 1+1e-9 {
			t.Errorf("deedsLike(%q): none has %q, or their shares add up to %v", query, want, sum)
		}
	}
	asked := meanWords("zzzzqqqq", maxQueryWords)
	if got := deedsLike(&asked); len(got) != 0 {
		t.Errorf("a query without meaning asks for %d deeds", len(got))
	}
}

// A glance picks the deeds that are looked at closely: the nearest must be among
// them, or a search would depend on how many there are.
func TestAGlanceMissesNoDeedThatIsNear(t *testing.T) {
	all := deeds()
	missed, asked := 0, 0
	for line := range knowledge(deedsFile) {
		_, said, _ := strings.Cut(line, " | ")
		query := meaning.Of("please, could you "+said, 8)
		best, share := 0, float32(-1)
		for i := range all.deeds {
			for j := range all.deeds[i].said {
				if s := all.deeds[i].said[j].Cosine(&query); s > share {
					best, share = i, s
				}
			}
		}
		asked++
		if !slices.ContainsFunc(all.likely(&query), func(d likelyDeed) bool { return d.deed == &all.deeds[best] }) {
			missed++
		}
		if asked == 300 {
			break
		}
	}
	if missed > 0 {
		t.Errorf("of %d queries, %d lost the deed that is nearest", asked, missed)
	}
}

func TestProductsAreKnownByTheirNames(t *testing.T) {
	for name, want := range map[string]string{
		"hubspot":            "crm",
		"my-google-calendar": "appointments",
		"google":             "",
		"mcp.atlassian":      "tickets",
		"acme":               "",
	} {
		if got := aboutProducts(name); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("aboutProducts(%q): got %q, want %q in it", name, got, want)
		}
	}
	for line := range knowledge(productsFile) {
		if names, about, ok := strings.Cut(line, ": "); !ok || names == "" || about == "" {
			t.Errorf("%q: want names, a colon and words", line)
		}
	}
}

func TestServersAreFoundByWhatTheirNamesMean(t *testing.T) {
	c := NewCatalog()
	var refs []Ref
	for _, server := range []string{"acme", "hubspot", "other"} {
		tools, _ := parse(t, `{"name": "list", "description": "Retrieves a page of objects", "inputSchema": {"type": "object"}}`)
		c.Put(server, tools)
		refs = append(refs, Ref{Digest: server, Server: server})
	}
	got := c.Search("what is in our crm", refs, 1)
	if len(got) != 1 || got[0].Tool.Server != "hubspot" || !strings.Contains(strings.Join(got[0].Why, "; "), "crm in server") {
		t.Errorf("got %q, why %q", found(got), got[0].Why)
	}
}

func TestVocabularyFollowsTheCatalogue(t *testing.T) {
	c, refs := shop(t)
	for _, ref := range refs {
		tools, _ := c.Tools(ref)
		c.Put(ref.Digest, slices.Clone(tools)) // the same again, in place of the old
	}
	if got := len(c.vocabulary["email"].holders); got != 1 {
		t.Errorf("%d servers have a word of one", got)
	}
	for _, ref := range refs {
		c.Drop(ref.Digest)
	}
	if len(c.vocabulary) != 0 {
		t.Errorf("an empty catalogue has %d words", len(c.vocabulary))
	}
}

func TestMisspeltWordsAreOnlyThoseOfServersInView(t *testing.T) {
	c, refs := shop(t)
	hidden, _ := parse(t, `{"name": "calender", "inputSchema": {"type": "object"}}`)
	c.Put("hidden", hidden)
	got := c.Search("calender", refs, 1)
	if len(got) == 0 || got[0].Tool.Server != "google-calendar" {
		t.Errorf("got %q, want a tool of google-calendar", found(got))
	}
}
