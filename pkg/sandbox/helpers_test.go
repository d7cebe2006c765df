package sandbox

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listHelpers prints what a session has by name, then what mcp.runtime has,
// each as the docs write it: names and defaults of parameters, without types.
const listHelpers = `
def _write(name, value):
    import inspect
    if isinstance(value, type) or not callable(value):
        return name
    whole = inspect.signature(value)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in whole.parameters.values()]
    return name + str(whole.replace(parameters=bare, return_annotation=inspect.Signature.empty))

for _name, _value in list(globals().items()):
    if not _name.startswith("_"):
        print(_write(_name, _value))
from mcp import runtime as _runtime
for _name in dir(_runtime):
    print(_write(_name, getattr(_runtime, _name)))
`

// TestHelpersAreDocumented holds docs/helpers.md to what sessions have, both ways.
func TestHelpersAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/helpers.md")
	if err != nil {
		t.Fatal(err)
	}
	res := launchLocal(t).Run(t.Context(), request(listHelpers), nil)
	if res.Status != StatusOK {
		t.Fatalf("listing helpers: %+v", res)
	}
	helpers := strings.Split(strings.TrimSpace(output(res)), "\n")
	if len(helpers) < 50 {
		t.Fatalf("a session has but %d helpers: %q", len(helpers), helpers)
	}
	names := map[string]bool{}
	for _, h := range helpers {
		name, _, _ := strings.Cut(h, "(")
		names[name] = true
	}
	for _, h := range helpers {
		name, parameters, _ := strings.Cut(h, "(")
		for _, twin := range []string{"_sync", "_async"} {
			if of, is := strings.CutSuffix(name, twin); is && names[of] {
				h = strings.TrimSuffix(of+"("+parameters, "(") // it takes the same
			}
		}
		if !strings.Contains(string(page), "`"+h+"`") && !strings.Contains(string(page), "`runtime."+h+"`") {
			t.Errorf("docs/helpers.md does not have `%s`", h)
		}
	}
	documented := regexp.MustCompile("(?m)^\\| `([a-z_]+)\\(").FindAllStringSubmatch(string(page), -1)
	for _, d := range documented {
		if !names[d[1]] {
			t.Errorf("docs/helpers.md has %s, and a session has not", d[1])
		}
	}
	if !slices.ContainsFunc(documented, func(d []string) bool { return d[1] == "save_memory" }) {
		t.Error("the page's tables were not understood")
	}
}
