package discovery

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// numbered repeats a line with a number in it.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// The decoders' time grows with the square of what these texts have a lot of.
func TestTextsThatWouldKeepADecoderBusyAreRefused(t *testing.T) {
	yaml, toml := parseYAML, parseTOML
	tests := []struct {
		name, text string
		decode     func([]byte) (node, error)
		want       string
	}{
		{"keys in TOML", numbered("k%d = 1\n", 100_000), toml, "more than 3000 keys or tables"},
		{"dotted keys in TOML", numbered("a.b.k%d = 1\n", 100_000), toml, "more than 3000 keys or tables"},
		{"keys on one line in TOML", "a = {" + numbered("k%d=1,", 100_000) + "z=1}", toml, "more than 3000 keys or tables"},
		{"tables in TOML", numbered("[t%d]\n", 100_000), toml, "more than 3000 keys or tables"},
		{"values in TOML", "a = [" + strings.Repeat("1,", 1_000_000) + "]", toml, "more than 200000 values"},
		{"depth in TOML", "a = " + strings.Repeat("[", 1_000_000), toml, "nested more than 200 deep"},
		{"keys in YAML", numbered("k%d: 1\n", 100_000), yaml, "more than 3000 keys, items or lines in one block"},
		{"blocks in YAML", numbered("k%d:\n"+strings.Repeat(" - 1\n", 400), 2000), yaml, "more than 200000 lines, values and quotes in all"},
		{"quotes in YAML", strings.Repeat(`"`, 1_000_000), yaml, "more than 200000 lines, values and quotes in all"},
		{"depth in YAML", "a: " + strings.Repeat("[", 1_000_000), yaml, "nested more than 200 deep"},
	}
	for _, tt := range tests {
		done := make(chan error, 1)
		go func() {
			_, err := tt.decode([]byte(tt.text))
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), tt.want) || lineOf(nil, err) < 1 {
				t.Errorf("%s: got %v on line %d, want %q", tt.name, err, lineOf(nil, err), tt.want)
			}
		case <-time.After(mutationLimit):
			t.Fatalf("%s: it is still being decoded after %s", tt.name, mutationLimit)
		}
	}
}

func TestTextsWithinTheBoundsAreRead(t *testing.T) {
	for name, err := range map[string]error{
		"TOML": second(parseTOML([]byte(numbered("[projects.\"/home/me/%[1]d\"]\ntrust_level = \"trusted\"\n", 2500) + "a = '''\n" + strings.Repeat("x\n", 100_000) + "'''"))),
		"YAML": second(parseYAML([]byte(numbered("k%d:\n  a: 1\n  b: [1, 2]\n", 2500)))),
	} {
		if err != nil {
			t.Errorf("%s: %v on line %d", name, err, lineOf(nil, err))
		}
	}
}

func second(_ node, err error) error { return err }

func TestAPanicOfADecoderIsAnErrorOfTheFile(t *testing.T) {
	broken := func() (n node, err error) {
		defer recoverFrom("YAML", &n, &err)
		panic("a bug of a library")

	}
	n, err := broken()
	if err == nil || err.Error() != "it is not valid YAML, and the decoder cannot say where" || lineOf(nil, err) != 0 || n.kind != 0 {
		t.Errorf("got %v of line %d, and a value of kind %q", err, lineOf(nil, err), n.kind)
	}
}
