//go:build integration

package escape

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/sandbox"
)

//go:embed attempts/*.py
var attempts embed.FS

// modules are the files of attempts; the first is the table.
var modules = []string{"escape", "network", "kernel", "powers", "files", "canaries"}

// attackTime bounds one run of the whole table, which takes ten seconds.
const attackTime = 100 * time.Second

// An attempt is what one attempt came to. One of the texts is set.
type attempt struct {
	Name    string `json:"name"`
	Got     string `json:"got"`     // what it has and should not: it succeeded
	Slow    string `json:"slow"`    // it was neither stopped nor got anything in time
	Stopped string `json:"stopped"` // by what
}

// attack runs the table of attempts in a session with a limit of at least
// attackTime. None of them may find one of the canaries.
func attack(ctx context.Context, s *sandbox.Session, canaries map[string]string) ([]attempt, error) {
	code, err := program(canaries)
	if err != nil {
		return nil, err
	}
	res, err := s.Run(ctx, sandbox.Request{Code: code, Timeout: attackTime}, nil)
	if err != nil {
		return nil, fmt.Errorf("attacking: %w", err)
	}
	if res.Status != sandbox.StatusOK {
		return nil, fmt.Errorf("attacking: the run ended with status %s: %+v", res.Status, res.Error)
	}
	return parse(printed(res))
}

// program is the Python that makes the modules and runs their table.
func program(canaries map[string]string) (string, error) {
	halves := map[string][2]string{}
	for name, text := range canaries {
		halves[name] = [2]string{text[:len(text)/2], text[len(text)/2:]}
	}
	var pairs [][2]string
	for _, name := range modules {
		source, err := attempts.ReadFile("attempts/" + name + ".py")
		if err != nil {
			return "", err
		}
		pairs = append(pairs, [2]string{name, string(source)})
	}
	return `import json, sys, types
sys.modules["given"] = types.ModuleType("given")
sys.modules["given"].CANARIES = json.loads(` + literal(halves) + `)
for _name, _source in json.loads(` + literal(pairs) + `):
    _module = sys.modules[_name] = types.ModuleType(_name)
    exec(compile(_source, _name + ".py", "exec"), _module.__dict__)
sys.modules["escape"].run()
`, nil
}

// literal is a literal of Python's that holds v as JSON: a JSON text within a
// JSON text is one.
func literal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // these are strings
	}
	text, err = json.Marshal(string(text))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// parse reads a line of JSON for each attempt. What else was printed is noise
// of programs that were started.
func parse(output string) ([]attempt, error) {
	var list []attempt
	for line := range strings.Lines(output) {
		var a attempt
		if json.Unmarshal([]byte(line), &a) == nil && a.Name != "" {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("attacking: no attempt was made: %q", output)
	}
	return list, nil
}

// printed joins what a run printed.
func printed(res sandbox.Result) string {
	var b strings.Builder
	for _, o := range res.Output {
		b.WriteString(o.Text)
	}
	return b.String()
}
