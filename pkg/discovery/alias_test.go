package discovery

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAlias(t *testing.T) {
	long := strings.Repeat("x", 128)
	tests := []struct{ name, in, want string }{
		{"an identifier is itself", "get_item", "get_item"},
		{"upper case stays", "GetItem", "GetItem"},
		{"a hyphen", "get-item", "get_item"},
		{"a dot", "get.item", "get_item"},
		{"a slash", "a/b", "a_b"},
		{"a run of foreign characters is one", "a -/ b", "a_b"},
		{"foreign characters at the ends go", "(a b)!", "a_b"},
		{"underscores of one's own stay", "_private_", "_private_"},
		{"one's own and a made underscore both stay", "a-_b", "a__b"},
		{"a keyword", "class", "class_"},
		{"a constant", "None", "None_"},
		{"True and False", "True", "True_"},
		{"a keyword after cleaning", "-from-", "from_"},
		{"a soft keyword is a name", "match", "match"},
		{"an argument called self is a name", "self", "self"},
		{"a leading digit", "1st", "_1st"},
		{"letters of any script", "日本語", "日本語"},
		{"a letter with a mark", "cafe\u0301", "cafe\u0301"},
		{"a letter that Python reads as another", "\ufb01le", "le"},
		{"wide letters and digits", "ａ1", "_1"},
		{"a dunder is Python's", "__init__", "init_"},
		{"a dunder in the making", "__1__", "_1_"},
		{"only underscores", "____", "server"},
		{"two underscores are a name", "__", "__"},
		{"nothing", "", "server"},
		{"nothing usable", "✓✓", "server"},
		{"a prototype", "__proto__", "proto_"},
		{"128 characters", long, long},
		{"bytes that are no text", "a\xffb", "a_b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Alias(tt.in); got != tt.want {
				t.Errorf("Alias(%q): got %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestAliasesAreUniqueWhateverTheOrder(t *testing.T) {
	names := []string{
		"get-item", "get_item", "get.item", "a/b", "class", "class_", "None", "1st", "日本語", "__init__",
		"get_item_2", "get/item", "get_item", "server", "", "✓",
	}
	want := map[string]string{
		"get_item": "get_item", "get_item_2": "get_item_2", "get-item": "get_item_3", "get.item": "get_item_4",
		"get/item": "get_item_5", "a/b": "a_b", "class": "class__2", "class_": "class_", "None": "None_",
		"1st": "_1st", "日本語": "日本語", "__init__": "init_", "server": "server", "": "server_2", "✓": "server_3",
	}
	for range 3 {
		if diff := cmp.Diff(want, Aliases(names)); diff != "" {
			t.Errorf("aliases (-want +got):\n%s", diff)
		}
		slices.Reverse(names[2:])
		slices.Reverse(names)
	}
}
