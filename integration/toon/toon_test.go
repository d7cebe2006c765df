//go:build integration

package toon

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/toon"
)

// hang bounds the wait for the reference. It takes a second.
const hang = 2 * time.Minute

// examples is how many the specification has.
const examples = 400

// folder returns where install.sh has installed.
func folder(t *testing.T) string {
	t.Helper()
	dir := cmp.Or(os.Getenv("BRIDGED_TEST_TOON"), "/var/cache/bridged-test/toon")
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("%v: run make setup, or integration/npm.sh integration/toon %s", err, dir)
	}
	return dir
}

// An example is one of the specification's.
type example struct {
	Name        string
	Input       json.RawMessage
	Expected    json.RawMessage
	ShouldError bool
	Options     struct {
		Delimiter    string
		Indent       int
		KeyFolding   string
		FlattenDepth *int
		Strict       *bool
		ExpandPaths  string
	}
}

func TestExamplesOfTheSpecification(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder(t), "node_modules/@toon-format/spec/tests/fixtures/*/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, file := range files {
		var group struct {
			Category string
			Tests    []example
		}
		data, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(data, &group) != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		for _, e := range group.Tests {
			total++
			t.Run(group.Category+" "+e.Name, func(t *testing.T) {
				if group.Category == "encode" {
					e.encode(t)
					return
				}
				e.decode(t)
			})
		}
	}
	if total < examples {
		t.Errorf("%d examples, and version 3.3 has %d", total, examples)
	}
}

func (e example) encode(t *testing.T) {
	o := toon.EncodeOptions{Indent: e.Options.Indent}
	if d := e.Options.Delimiter; d != "" {
		o.Delimiter = d[0]
	}
	if e.Options.KeyFolding == "safe" {
		o.Fold = toon.FoldAll
		if n := e.Options.FlattenDepth; n != nil {
			o.Fold = *n
		}
	}
	var want string
	if err := json.Unmarshal(e.Expected, &want); err != nil {
		t.Fatal(err)
	}
	if got, err := toon.Encode(e.Input, o); err != nil || got != want {
		t.Errorf("%s: got %q, %v, want %q", e.Input, got, err, want)
	}
}

func (e example) decode(t *testing.T) {
	o := toon.DecodeOptions{Indent: e.Options.Indent, Expand: e.Options.ExpandPaths == "safe"}
	if s := e.Options.Strict; s != nil {
		o.Lenient = !*s
	}
	var text string
	if err := json.Unmarshal(e.Input, &text); err != nil {
		t.Fatal(err)
	}
	got, err := toon.Decode(text, o)
	switch {
	case e.ShouldError && err == nil:
		t.Errorf("%q: got %s, want an error", text, got)
	case !e.ShouldError && (err != nil || !same(t, got, e.Expected)):
		t.Errorf("%q: got %s, %v, want %s", text, got, err, e.Expected)
	}
}

// same reports whether two JSON texts hold the same, as far as JavaScript sees
// it: numbers are floats, and the order of keys does not count.
func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}

// A request is one to reference.mjs, and has its answer.
type request struct {
	JSON      string `json:"json"`
	TOON      string `json:"toon"`
	Indent    int    `json:"indent"`
	Delimiter string `json:"delimiter"`

	answer struct{ JSON, TOON, Error string }
}

// reference has the reference implementation answer all requests.
func reference(t *testing.T, requests []request) {
	t.Helper()
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	for _, r := range requests {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "reference.mjs", folder(t))
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("running the reference: %v", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	n := 0
	for ; lines.Scan(); n++ {
		if err := json.Unmarshal(lines.Bytes(), &requests[n].answer); err != nil {
			t.Fatalf("answer %d: %v", n, err)
		}
	}
	if n != len(requests) {
		t.Fatalf("%d answers for %d requests, %v", n, len(requests), lines.Err())
	}
}

// We and the reference write the same text, and read each other's as the JSON
// that it was made of.
func TestRoundTripsWithTheReference(t *testing.T) {
	s := source{rand.New(rand.NewPCG(5, 6))}
	requests := make([]request, 6000)
	for i := range requests {
		r := request{JSON: s.json(), Indent: 1 + s.r.IntN(4), Delimiter: []string{",", "\t", "|"}[s.r.IntN(3)]}
		var err error
		r.TOON, err = toon.Encode([]byte(r.JSON), toon.EncodeOptions{Indent: r.Indent, Delimiter: r.Delimiter[0]})
		if err != nil {
			t.Fatalf("encoding %s: %v", r.JSON, err)
		}
		requests[i] = r
	}
	reference(t, requests)
	for _, r := range requests {
		if r.answer.Error != "" || !same(t, []byte(r.answer.JSON), []byte(r.JSON)) {
			t.Fatalf("of %s we write\n%s\nand the reference reads %s %s", r.JSON, r.TOON, r.answer.JSON, r.answer.Error)
		}
		if r.answer.TOON != r.TOON {
			t.Errorf("of %s we write\n%s\nand the reference\n%s", r.JSON, r.TOON, r.answer.TOON)
		}
		got, err := toon.Decode(r.answer.TOON, toon.DecodeOptions{Indent: r.Indent})
		if err != nil || !same(t, got, []byte(r.JSON)) {
			t.Fatalf("of %s the reference writes\n%s\nand we read %s, %v", r.JSON, r.answer.TOON, got, err)
		}
	}
}
