//go:build integration

package web

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// hang bounds one thing that the browser is told to do. It gives up after a
// minute itself.
const hang = 3 * time.Minute

// A browser is a running browser.mjs. It does one thing at a time.
type browser struct {
	in      io.WriteCloser
	answers chan answer
	done    chan error
}

type answer struct {
	Error string          `json:"error"`
	Value json.RawMessage `json:"value"`
}

// with is what a request says besides what to do.
type with map[string]any

// startBrowser starts Chromium. It ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	dir := cmp.Or(os.Getenv("BRIDGED_TEST_WEB"), "/var/cache/bridged-test/web")
	for _, need := range []string{dir + "/node_modules/playwright-core", dir + "/node_modules/axe-core", "/usr/bin/chromium"} {
		if _, err := os.Stat(need); err != nil {
			t.Fatalf("%v: run make setup, or integration/web/install.sh %s", err, dir)
		}
	}
	cmd := exec.Command("node", "integration/web/browser.mjs", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	b := &browser{in: in, answers: make(chan answer), done: make(chan error, 1)}
	go b.read(out, cmd)
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		select {
		case err := <-b.done:
			if err != nil {
				t.Errorf("the browser ended with %v", err)
			}
		case <-time.After(hang):
			t.Error("the browser does not end")
			_ = cmd.Process.Kill()
		}
	})
	return b
}

// read reads answers until the browser ends.
func (b *browser) read(out io.Reader, cmd *exec.Cmd) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			a.Error = "no answer: " + lines.Text()
		}
		b.answers <- a
	}
	close(b.answers)
	b.done <- cmd.Wait()
}

// do has the browser do something, which must work, and reads what it returns
// into value unless that is nil.
func (b *browser) do(t *testing.T, what string, args with, value any) {
	t.Helper()
	request := with{"do": what}
	for name, arg := range args {
		request[name] = arg
	}
	if err := json.NewEncoder(b.in).Encode(request); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	select {
	case a, ok := <-b.answers:
		if !ok {
			t.Fatalf("%s: the browser is gone", what)
		}
		if a.Error != "" {
			t.Fatalf("%s %v: %s", what, args, a.Error)
		}
		if value == nil {
			return
		}
		if err := json.Unmarshal(a.Value, value); err != nil {
			t.Fatalf("%s: answer %s: %v", what, a.Value, err)
		}
	case <-time.After(hang):
		t.Fatalf("%s %v: no answer", what, args)
	}
}

// until waits for a text in one of the elements of a selector.
func (b *browser) until(t *testing.T, selector, text string) {
	t.Helper()
	b.do(t, "until", with{"selector": selector, "text": text}, nil)
}

// get returns what the browser is asked for.
func get[T any](t *testing.T, b *browser, what string, args with) T {
	t.Helper()
	var value T
	b.do(t, what, args, &value)
	return value
}
