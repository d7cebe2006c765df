package memory

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestKeysHaveFilesThatAnySystemTakes(t *testing.T) {
	for key, want := range map[string]string{
		"plan":          "plan.json",
		"user_prefs-2":  "user_prefs-2.json",
		"v1.2":          "v1.2.json",
		"UserPrefs":     "UserPrefs~88.json",
		"userprefs":     "userprefs.json",
		"meeting notes": "meeting%20notes.json",
		"../../etc":     "%2E.%2F..%2Fetc.json",
		"a/b\\c":        "a%2Fb%5Cc.json",
		".hidden":       "%2Ehidden.json",
		"-rf":           "%2Drf.json",
		"con":           "%63on.json",
		"CON":           "%43ON~c.json",
		"lpt1.txt":      "%6Cpt1.txt.json",
		"console":       "console.json",
		"é":             "%C3%A9.json",
		"e\u0301":       "e%CC%81.json",
		"日本":            "%E6%97%A5%E6%9C%AC.json",
		"a~b":           "a%7Eb.json",
		"100%":          "100%25.json",
		"\x00\n":        "%00%0A.json",
		"K":             "K~8.json",
		"\u212a":        "%E2%84%AA.json", // the sign of Kelvin, which folds to k
		"x.json":        "x.json.json",
		"trailing. ":    "trailing.%20.json",
		"aBcdEfghI":     "aBcdEfghI~488.json",
		"UserPrefs~88":  "UserPrefs%7E88~88.json",
		"%41":           "%2541.json",
	} {
		got := fileName(key)
		if got != want {
			t.Errorf("the file of %q is %q, want %q", key, got, want)
		}
		if back := keyOf(got); back != key {
			t.Errorf("the key of %q is %q, want %q", got, back, key)
		}
		if back := keyOf(strings.ToLower(got)); back != key {
			t.Errorf("the key of %q in small letters is %q, want %q", got, back, key)
		}
		if !claims(strings.ToUpper(got), key) {
			t.Errorf("%q in capitals is not taken for the file of %q", got, key)
		}
	}
}

func TestLongKeysHaveShortFiles(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{
		strings.Repeat("a", 151), strings.Repeat("a", 152), strings.Repeat("A", 140), strings.Repeat("é", 300),
		strings.Repeat("a", 115) + "é", strings.Repeat("a", 114) + "é" + strings.Repeat("b", 99), strings.Repeat("x", maxKey),
	} {
		name := fileName(key)
		if len(name) > maxStem+len(suffix) {
			t.Errorf("the file of a key of %d bytes has a name of %d", len(key), len(name))
		}
		if other, ok := seen[strings.ToLower(name)]; ok {
			t.Errorf("%q and %q have one file, %s", key, other, name)
		}
		seen[strings.ToLower(name)] = key
		if !claims(name, key) {
			t.Errorf("%s is not taken for the file of %q", name, key)
		}
	}
}

func TestNamesThatPeopleGiveAreTheKeys(t *testing.T) {
	for name, want := range map[string]string{
		"My Notes.json":  "My Notes",
		"UserPrefs.json": "UserPrefs", // as the seed project has it
		"50%.json":       "50%",
		"a%2.json":       "a%2",
		"a%zz.json":      "a%zz",
		"a~b.json":       "a~b",
		"x~0.json":       "x~0",
		"%FF.json":       "%FF",
		"\xff.json":      "\ufffd",
		".json":          "",
	} {
		if got := keyOf(name); got != want {
			t.Errorf("the key of %q is %q, want %q", name, got, want)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, key := range []string{"plan", "UserPrefs", "../x", "con.x", "é", "a~h0", "%", strings.Repeat("Zz", 200)} {
		f.Add(key, key+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if checkKey(a) != nil || checkKey(b) != nil {
			return
		}
		name := fileName(a)
		switch {
		case strings.ContainsAny(name, "/\\:*?\"<>| \x00"), name[0] == '.', name[0] == '-', len(name) > maxStem+len(suffix):
			t.Errorf("the file of %q is %q", a, name)
		case !claims(name, a):
			t.Errorf("%q is not taken for the file of %q", name, a)
		case a != b && strings.EqualFold(name, fileName(b)):
			t.Errorf("%q and %q have one file, %q", a, b, name)
		}
		for i := range len(name) {
			if name[i] >= utf8.RuneSelf || name[i] < ' ' {
				t.Errorf("the file of %q is %q", a, name)
			}
		}
		if !strings.Contains(name, "~h") && keyOf(name) != a {
			t.Errorf("the key of %q is %q, want %q", name, keyOf(name), a)
		}
	})
}
