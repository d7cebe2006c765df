package bridge

import (
	"bufio"
	"io"
	"os/exec"
	"testing"
)

// BenchmarkCall measures what a call costs beside the sandbox: one line each
// way over the socket and everything in between.
func BenchmarkCall(b *testing.B) {
	_, path := start(b, (&bench{}).open, Options{})
	a := connect(b, path, Hello{})
	line := callLine("1", `{"code":"x+1"}`)
	for b.Loop() {
		a.send(line)
		a.recv()
	}
}

// BenchmarkCallThroughShim measures the same with the shim in between, as an
// agent sees it.
func BenchmarkCallThroughShim(b *testing.B) {
	_, path := start(b, (&bench{}).open, Options{})
	cmd := exec.Command(buildShim(b))
	cmd.Env = []string{"BRIDGED_SOCKET=" + path}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line := callLine("1", `{"code":"x+1"}`) + "\n"
	for b.Loop() {
		if _, err := io.WriteString(in, line); err != nil {
			b.Fatal(err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		b.Errorf("the shim's end: %v", err)
	}
}
