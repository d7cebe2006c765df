package register

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A writer makes random documents, valid and badly formatted.
type writer struct {
	*rand.Rand
	b strings.Builder
}

func (w *writer) one(list ...string) string { return list[w.IntN(len(list))] }

func (w *writer) space() {
	w.b.WriteString(w.one("", "", " ", "\n", "\n\t", "\n  ", "\r\n    ", "// c\n", "/* , } */", " // x\n  "))
}

func (w *writer) object(depth int, keys ...string) {
	w.b.WriteString("{")
	w.space()
	n := len(keys) + w.IntN(3)
	for i := range n {
		key := fmt.Sprintf("k%d", i)
		if i < len(keys) {
			key = keys[i]
		}
		w.b.WriteString(`"` + key + `"`)
		w.space()
		w.b.WriteString(":")
		w.space()
		switch {
		case key == "mcpServers":
			w.servers()
		case depth > 0 && w.IntN(2) == 0:
			w.object(depth - 1)
		default:
			w.b.WriteString(w.one("1", `"a"`, "null", "true", `"}, // {"`, "[]", "[1, {}]"))
		}
		w.space()
		if i < n-1 || w.IntN(4) == 0 {
			w.b.WriteString(",")
			w.space()
		}
	}
	w.b.WriteString("}")
}

func (w *writer) servers() {
	if w.IntN(6) == 0 {
		w.b.WriteString("null")
		return
	}
	w.object(2, []string{"a", "b", "c"}[:w.IntN(4)]...)
}

func (w *writer) json() string {
	w.b.Reset()
	w.space()
	w.object(1, []string{"mcpServers", "other"}[w.IntN(2):]...)
	w.space()
	return w.b.String()
}

func (w *writer) toml() string {
	w.b.Reset()
	for range w.IntN(6) {
		w.b.WriteString(w.one("# note\n", "\n", "\r\n"))
	}
	w.b.WriteString("a = 1" + w.one("", " # x") + "\n")
	for i := range w.IntN(4) {
		fmt.Fprintf(&w.b, "%s[mcp_servers.s%d]%scommand = %s\n", w.one("", "\n", "# c\n\n"), i,
			w.one("\n", " # d\n", "\n\n"), w.one(`"x"`, "'x'", `"""`+"\n[x]\n"+`"""`))
		w.b.WriteString(w.one("", fmt.Sprintf("[mcp_servers.s%d.env]\nA = \"1\"\n", i), "args = [\n  \"a\", # ]\n]\n"))
	}
	return strings.TrimSuffix(w.b.String(), w.one("", "\n"))
}

func (w *writer) yaml(list bool) string {
	w.b.Reset()
	w.b.WriteString(w.one("", "# head\n", "---\n") + "model: m\n")
	key, indent := "extensions", w.one("  ", "    ")
	if list {
		key, indent = "mcpServers", w.one("", "  ", "    ")
	}
	if n := w.IntN(4); n > 0 {
		w.b.WriteString(key + ":" + w.one("", " # x", " ") + "\n")
		for i := range n {
			head := fmt.Sprintf("%ss%d:\n%s  ", indent, i, indent)
			if list {
				head = fmt.Sprintf("%s- name: s%d\n%s  ", indent, i, indent)
			}
			w.b.WriteString(w.one("", "# c\n", "\n") + head + "cmd: x\n")
			w.b.WriteString(w.one("", indent+"  text: |\n"+indent+"    a: 1\n\n"+indent+"    - b\n", indent+"  # end\n"))
		}
	} else {
		w.b.WriteString(w.one("", key+":\n", key+": null # x\n"))
	}
	w.b.WriteString(w.one("", "\n# tail\n", "last: 1\n", "\nlast:\n  a: 1\n"))
	if strings.HasSuffix(w.b.String(), "- b\n") {
		return w.b.String() // an end of line more would be one of the text's
	}
	return strings.TrimSuffix(w.b.String(), w.one("", "\n"))
}

// Whatever a valid document looks like: the entry goes in, everything else stays,
// and both ways out lead back.
func TestRandomDocuments(t *testing.T) {
	w := &writer{Rand: rand.New(rand.NewPCG(1, 2))}
	kinds := map[string]func() string{
		"cursor": w.json, "codex": w.toml,
		"goose":    func() string { return w.yaml(false) },
		"continue": func() string { return w.yaml(true) },
	}
	for _, name := range []string{"cursor", "codex", "goose", "continue"} {
		r := newRegistrar(t)
		for i := range 300 {
			text := kinds[name]()
			inAndOut(t, name, text)
			if i%30 == 0 { // the disk takes its time
				thereAndBack(t, r, name, text)
			}
		}
	}
}

// thereAndBack registers in a file and unregisters with the backup.
func thereAndBack(t *testing.T, r *Registrar, name, text string) {
	t.Helper()
	at := clientPath(r, name)
	put(t, at, text)
	c, err := r.Register(name)
	apply(t, c, err)
	isRegistered(t, r, name)
	c, err = r.Unregister(name)
	apply(t, c, err)
	if got := get(t, at); got != text {
		t.Fatalf("%s: Unregister makes %q of %q", name, got, text)
	}
}

// inAndOut puts the entry in and takes it out again without a backup.
func inAndOut(t *testing.T, name, text string) {
	t.Helper()
	c := clients[slices.Index(Clients(), name)]
	s := c.syntax
	written, made, err := s.add(text, c.key, Name, c.entry(shim))
	if err == nil {
		err = differOnly(s, c.key, text, written, Name, valueOf(s, Name, c.entry(shim)))
	}
	if err != nil {
		t.Fatalf("%s: registering in %q: %v", name, text, err)
	}
	out, err := s.remove(written, c.key, Name, made)
	if err == nil {
		err = differOnly(s, c.key, text, out, Name, nil)
	}
	if err != nil {
		t.Fatalf("%s: taking the entry out of %q, which makes %q: %v", name, written, out, err)
	}
	for _, comment := range []string{"// c", "// x", "/* , } */", "# c", "# head", "# tail", "# end", "# x", "# note"} {
		if a, b := strings.Count(text, comment), strings.Count(out, comment); a != b {
			t.Fatalf("%s: %d comments %q in %q became %d in %q", name, a, comment, text, b, out)
		}
	}
}
