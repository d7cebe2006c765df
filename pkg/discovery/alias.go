package discovery

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// pythonKeywords are the words that Python does not take as a name. Soft
// keywords such as match are ordinary names.
var pythonKeywords = map[string]bool{}

func init() {
	for word := range strings.FieldsSeq(`False None True and as assert async await break class continue
		def del elif else except finally for from global if import in is lambda nonlocal not or pass
		raise return try while with yield`) {
		pythonKeywords[word] = true
	}
}

// Alias returns the Python identifier that stands for a server, tool or
// parameter. An identifier is its own alias. In any other name each run of
// characters that no identifier has becomes one underscore, or nothing at
// either end; a leading digit gets an underscore before it and a keyword one
// after it. The dunder names are Python's own, so __init__ becomes init_. A
// name that leaves nothing is server.
//
// Different names can have one alias: [Aliases] tells them apart.
func Alias(name string) string {
	if isPlainName(name) {
		return name
	}
	alias := replaceForeign(name)
	if inner, ok := dunder(alias); ok && inner != "" {
		alias = inner + "_"
	} else if ok {
		alias = ""
	}
	if alias == "" {
		return "server"
	}
	if first := []rune(alias)[0]; !unicode.IsLetter(first) && first != '_' {
		alias = "_" + alias
	}
	if pythonKeywords[alias] {
		alias += "_"
	}
	return alias
}

// isPlainName reports whether a name is its own alias, for most of those that
// are. The others need a closer look.
func isPlainName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_' && i > 0, '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return name != "" && !pythonKeywords[name]
}

// replaceForeign makes each run of runes that no identifier has one
// underscore, and drops the runs at both ends.
func replaceForeign(name string) string {
	var b strings.Builder
	pending := false
	for _, r := range name {
		if !isIdentifierRune(r) {
			pending = true
			continue
		}
		if pending && b.Len() > 0 {
			b.WriteByte('_')
		}
		pending = false
		b.WriteRune(r)
	}
	return b.String()
}

func isIdentifierRune(r rune) bool {
	if r < 0x80 {
		return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	return !unicode.Is(unstable, r) && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.In(r, unicode.Mn, unicode.Mc))
}

// unstable are letters that Python either refuses or reads as others (it
// normalises names to NFKC), so that a name with them could not be reached:
// ligatures, wide and mathematical forms and the like.
var unstable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00AA, 0x00BA, 0x10}, {0x037A, 0x037A, 1}, {0x0E33, 0x0EB3, 0x80}, {0x2E2F, 0x2E2F, 1},
		{0xF900, 0xFAFF, 1}, {0xFB00, 0xFDFF, 1}, {0xFE70, 0xFEFE, 1}, {0xFF00, 0xFFEF, 1},
	},
	R32:         []unicode.Range32{{0x1D400, 0x1D7FF, 1}, {0x1EE00, 0x1EEFF, 1}, {0x2F800, 0x2FA1F, 1}},
	LatinOffset: 1,
}

// dunder returns what is between the double underscores of a name that Python
// objects may have for themselves.
func dunder(name string) (inner string, ok bool) {
	if len(name) < 4 || !strings.HasPrefix(name, "__") || !strings.HasSuffix(name, "__") {
		return "", false
	}
	return strings.Trim(name, "_"), true
}

// Aliases returns the alias of each name such that no two are equal. It does
// not depend on the order of names: those that are their own alias keep it, the
// rest take theirs in the order of the names, with _2, _3 and so on when it is
// taken.
func Aliases(names []string) map[string]string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	out := make(map[string]string, len(sorted))
	taken := make(map[string]bool, len(sorted))
	for _, name := range sorted {
		if Alias(name) == name {
			out[name] = name
			taken[name] = true
		}
	}
	next := map[string]int{}
	for _, name := range sorted {
		if _, ok := out[name]; ok {
			continue
		}
		base := Alias(name)
		alias := base
		for n := max(next[base], 2); taken[alias]; n++ {
			alias = base + "_" + strconv.Itoa(n)
			next[base] = n + 1
		}
		out[name] = alias
		taken[alias] = true
	}
	return out
}
