package meaning

import (
	"math"
	"strings"
	"testing"
)

func TestTextsThatMeanAlikeAreNearer(t *testing.T) {
	tests := []struct{ name, text, near, far string }{
		{"other words for the same", "delete a document", "remove file", "play music"},
		{"a thing and its place", "what is the weather tomorrow", "forecast temperature rain", "merge pull request"},
		{"a deed and its tool", "buy shares of a company", "stock market trade order", "resize image"},
		{"upper case is no other meaning", "SEND AN EMAIL", "mail message to a recipient", "draw a bar chart"},
		{"words in pieces", "containerization", "docker containers", "cooking recipes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked, near, far := Of(tt.text, 50), Of(tt.near, 50), Of(tt.far, 50)
			if n, f := asked.Cosine(&near), asked.Cosine(&far); n <= f+0.1 {
				t.Errorf("%q is %.2f to %q and %.2f to %q", tt.text, n, tt.near, f, tt.far)
			}
		})
	}
}

func TestTextsWithoutMeaningAreZero(t *testing.T) {
	for _, text := range []string{"", "  ?! ", "日本語", "\xff\xfe", "zzzzqqqq", strings.Repeat("word", 20)} {
		if v := Of(text, 50); v != (Vector{}) {
			t.Errorf("Of(%q) is not zero", text)
		}
	}
	if v := Of("file", 0); v != (Vector{}) {
		t.Error("a limit of no words gave a meaning")
	}
}

func TestVectorsAreOfUnitLength(t *testing.T) {
	for _, text := range []string{"file", "list all the open issues of my repository", "S3 bucket"} {
		v := Of(text, 50)
		if got := v.Cosine(&v); math.Abs(float64(got)-1) > 1e-4 {
			t.Errorf("Of(%q): its square is %v, want 1", text, got)
		}
	}
}

func TestWordsPastTheLimitDoNotCount(t *testing.T) {
	if Of("file folder banana", 2) != Of("file folder", 2) {
		t.Error("the third word counted")
	}
}

func TestKnowsWordsAndNoMisspeltOnes(t *testing.T) {
	for word, want := range map[string]bool{"calendar": true, "repository": true, "calxendar": false, "evnets": false, "": false} {
		if got := Knows(word); got != want {
			t.Errorf("Knows(%q): got %v, want %v", word, got, want)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		Of("please show me all of the open issues in my repository that were created last week", 50)
	}
}

func BenchmarkCosine(b *testing.B) {
	v, w := Of("file", 5), Of("folder", 5)
	for b.Loop() {
		v.Cosine(&w)
	}
}

func TestPackedVectorsAreAsNear(t *testing.T) {
	a := Of("list all the open issues of my repository", 50)
	for _, text := range []string{"issue tracker", "cook a meal", "list all the open issues of my repository", ""} {
		b := Of(text, 50)
		p := b.Pack()
		if want, got := a.Cosine(&b), p.Cosine(&a); math.Abs(float64(want-got)) > 0.01 {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestWhatIsNearIsNearAtAGlance(t *testing.T) {
	asked, near, far := Of("delete a document", 50), Of("remove file", 50), Of("play music", 50)
	a, n, f := asked.Glance(), near.Glance(), far.Glance()
	if a.Cosine(&n) <= a.Cosine(&f) {
		t.Errorf("near: %v, far: %v", a.Cosine(&n), a.Cosine(&f))
	}
}
