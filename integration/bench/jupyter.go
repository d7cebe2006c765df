//go:build integration

package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bridged/bridged/integration/engines"
)

// driver drives a Jupyter kernel; it says how.
//
//go:embed jupyter/driver.py
var driver string

// enterJupyter runs the driver $1 in the system that jupyter/install.sh made in
// $0, in namespaces of its own, so that nothing is left of it.
const enterJupyter = `
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/tmp"
exec chroot "$0" env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 PYTHONPATH=/opt/jupyter python3 -c "$1"
`

// A cell is a piece of code that both sides run.
type cell struct {
	name  string
	code  string
	n     int                      // times a round
	right func(text, png int) bool // whether it put out so many characters and pictures
}

var cells = []cell{
	{"call", "x+1", 40, func(text, png int) bool { return text == len("2") && png == 0 }},
	{"print", "print('hello')", 40, func(text, png int) bool { return text >= len("hello") && png == 0 }},
	// Our agent gets some thousand characters of it, the kernel's client all.
	{"1mb", `print("\n".join(["x" * 63] * 16384))`, 4, func(text, png int) bool { return text > 10_000 && png == 0 }},
	{"figure", "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 3))\nplt.plot([1, 2, 3])\nplt.show()", 2,
		func(_, png int) bool { return png == 1 }},
}

// jupyter measures cells in a session under way beside the same cells in a
// Jupyter kernel, which no container holds.
func (b *bench) jupyter(ctx context.Context, d *daemon) error {
	a, err := d.agent()
	if err != nil {
		return err
	}
	k, err := startKernel(ctx)
	if err != nil {
		return err
	}
	defer k.stop()
	ours, theirs := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range b.count(rounds) + 1 {
		for _, c := range cells {
			us, them, err := c.measure(a, k)
			if err != nil {
				return fmt.Errorf("the cell %s: %w", c.name, err)
			}
			if round > 0 { // the first one is for imports and caches
				ours[c.name] = append(ours[c.name], us...)
				theirs[c.name] = append(theirs[c.name], them...)
			}
		}
	}
	for _, c := range cells {
		b.addTimes("cell_"+c.name, ours[c.name])
		b.addTimes("ipykernel_"+c.name, theirs[c.name])
	}
	for _, c := range cells {
		b.add("warm_"+c.name+"_over_ipykernel_p50", ratio(ours[c.name], theirs[c.name]), "x", len(ours[c.name]))
	}
	return a.close()
}

// measure runs the cell on both sides, and checks what they put out.
func (c cell) measure(a *agent, k *kernel) (ours, theirs []time.Duration, err error) {
	if _, err := a.run("x = 1"); err != nil {
		return nil, nil, err
	}
	var out output
	ours, err = times(nil, c.n, func() (err error) { out, err = a.show(c.code); return err })
	if err != nil {
		return nil, nil, err
	}
	if !c.right(len(out.text), out.images) {
		return nil, nil, fmt.Errorf("bridged showed %d characters and %d pictures: %.80q", len(out.text), out.images, out.text)
	}
	if _, _, err := k.run("x = 1", 1); err != nil {
		return nil, nil, err
	}
	theirs, out, err = k.run(c.code, c.n)
	if err == nil && !c.right(len(out.text), out.images) {
		err = fmt.Errorf("the kernel showed %d characters and %d pictures: %.80q", len(out.text), out.images, out.text)
	}
	return ours, theirs, err
}

// A kernel is a Jupyter kernel with its driver.
type kernel struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startKernel starts a kernel. The caller must stop it.
func startKernel(ctx context.Context) (*kernel, error) {
	root := filepath.Join(engines.Cache(), "jupyter", "root")
	if _, err := os.Stat(filepath.Join(root, "opt", "jupyter")); err != nil {
		return nil, fmt.Errorf("%w: run integration/bench/jupyter/install.sh first, as make bench does", err)
	}
	argv := []string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", enterJupyter, root, driver}
	if os.Geteuid() != 0 {
		argv = append([]string{"sudo", "-n"}, argv...)
	}
	k := &kernel{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	var err error
	if k.in, k.out, err = piped(k.cmd); err != nil {
		return nil, fmt.Errorf("starting a Jupyter kernel: %w", err)
	}
	return k, nil
}

// run runs code n times and returns how long each took and what the last one
// put out.
func (k *kernel) run(code string, n int) ([]time.Duration, output, error) {
	order, err := json.Marshal(map[string]any{"code": code, "n": n})
	if err != nil {
		return nil, output{}, err
	}
	if _, err := k.in.Write(append(order, '\n')); err != nil {
		return nil, output{}, err
	}
	line, err := k.out.ReadBytes('\n')
	if err != nil {
		return nil, output{}, fmt.Errorf("asking the Jupyter kernel: %w", err)
	}
	var answer struct {
		US    []float64   `json:"us"`
		Shown [][2]string `json:"shown"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return nil, output{}, err
	}
	var took []time.Duration
	for _, us := range answer.US {
		took = append(took, time.Duration(us*1e3))
	}
	out, err := shown(answer.Shown)
	return took, out, err
}

// shown counts what pairs of a MIME type and data show.
func shown(pairs [][2]string) (output, error) {
	var out output
	images := false
	for _, p := range pairs {
		switch {
		case p[0] == "error":
			return output{}, errors.New(p[1])
		case strings.HasPrefix(p[0], "image/"):
			images = true
			out.images++
		case p[0] == "text/plain":
			out.text += p[1]
		}
	}
	if images {
		out.text = "" // it stands for the picture where none can be shown
	}
	return out, nil
}

// stop ends the kernel.
func (k *kernel) stop() {
	_ = k.in.Close() // the driver ends then, and with it its namespace
	if err := k.cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: ending the Jupyter kernel:", err)
	}
}
