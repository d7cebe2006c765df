//go:build integration

package escape

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

//go:embed assaults/tools.py
var tools string

const (
	// short is the time limit of an assault that has no end of its own.
	short = 2 * time.Second
	// long is that of one that has.
	long = 60 * time.Second

	// usual is that of a calculation, on a machine that has much to do.
	usual = 10 * time.Second

	// maxOutput is what may come back of what was printed, in bytes.
	maxOutput = 4 << 20
)

// An assault is code that attacks what is outside of its sandbox.
type assault struct {
	name    string
	code    string // may use what is in assaults/tools.py
	timeout time.Duration
	ask     string // code that a neighbour runs meanwhile; its value must be "[]"
}

// assaults makes one after the other, each beside a witness.
func (h *house) assaults(ctx context.Context, r *Report) error {
	w, err := h.witness(ctx)
	if err != nil {
		return err
	}
	defer w.leave()
	if wrong := w.ask(ctx); wrong != "" {
		return fmt.Errorf("before any assault: %s", wrong)
	}
	before, wrong := h.calm(ctx, nil)
	if wrong != "" {
		return fmt.Errorf("before any assault: %s", wrong)
	}
	for _, a := range list() {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.add(a.name, h.assault(ctx, w, before, a))
	}
	return nil
}

// assault makes one and returns what it got, "" for nothing.
func (h *house) assault(ctx context.Context, w *witness, before state, a assault) string {
	g := h.guest()
	defer g.leave()
	v := w.watch(ctx)
	got := h.commit(ctx, g, a)
	v.end()
	if got == "" && v.trouble != "" {
		got = v.trouble
	}
	if limit := int(runtime.DefaultSpec("").Pids); got == "" && v.crowd > limit {
		got = fmt.Sprintf("%d processes in one container, want at most %d", v.crowd, limit)
	}
	if got == "" && v.peak > before.heap+maxGrowth {
		got = fmt.Sprintf("the daemon's heap grew from %d to %d MiB", before.heap>>20, v.peak>>20)
	}
	g.leave()
	if got == "" {
		_, got = h.calm(ctx, &before)
	}
	if got == "" {
		got = w.ask(ctx)
	}
	return got
}

// mistakes are the exceptions of an assault that is not written well.
var mistakes = []string{"SyntaxError", "NameError", "AttributeError", "ImportError", "ModuleNotFoundError", "TypeError", "StopIteration"}

// commit runs an assault and looks at its effects.
func (h *house) commit(ctx context.Context, g *guest, a assault) string {
	code := fmt.Sprintf("%s\nexec(compile(json.loads(%s), 'tools.py', 'exec'), globals())\n%s", h.given(), literal(tools), a.code)
	res, err := g.Run(ctx, sandbox.Request{Code: code, Timeout: a.timeout}, nil)
	if err != nil {
		return fmt.Sprintf("it could not be run: %v", err)
	}
	if e := res.Error; e != nil && slices.Contains(mistakes, e.Type) {
		return fmt.Sprintf("it was not made: %+v", e)
	}
	if n := len(printed(res)) + len(res.Value); n > maxOutput {
		return fmt.Sprintf("%d bytes of output came through", n)
	}
	for _, f := range res.Files {
		if filepath.Base(f.Name) != f.Name || f.Size < 0 || len(res.Files) > sandbox.MaxFiles {
			return fmt.Sprintf("%d files came through, one as %q of %d bytes", len(res.Files), f.Name, f.Size)
		}
	}
	if a.ask != "" {
		if got := h.neighbour(ctx, a.ask); got != "" {
			return got
		}
	}
	if forged, _ := filepath.Glob(filepath.Join(h.dir, "forged*")); len(forged) > 0 { // the pattern is good
		for _, path := range forged {
			_ = os.Remove(path) // the next assault's are its own
		}
		return fmt.Sprintf("a server that was not loaded wrote %d files", len(forged))
	}
	return h.goesOn(ctx, g)
}

// rounds is how many calls a session may take to be itself again. Forged ends
// of its own next runs are believed one after the other.
const rounds = 8

// goesOn holds that a session can be used after whatever it did to itself: code
// may spoil its own stream, and then its next call ends the sandbox and says so.
func (h *house) goesOn(ctx context.Context, g *guest) string {
	var res sandbox.Result
	var err error
	for range rounds {
		res, err = g.Run(ctx, sandbox.Request{Code: "6 * 7", Timeout: usual}, nil)
		if err == nil && res.Value == "42" {
			return ""
		}
	}
	return fmt.Sprintf("its session is of no use any more: %+v, %v", res, err)
}

// neighbour asks a session that has just begun what it sees of the assault.
func (h *house) neighbour(ctx context.Context, code string) string {
	n := h.guest()
	defer n.leave()
	res, err := n.Run(ctx, sandbox.Request{Code: code, Timeout: long}, nil)
	if err != nil || res.Value != "[]" {
		return fmt.Sprintf("another sandbox sees %s: %+v, %v", res.Value, res.Error, err)
	}
	return ""
}

// given is the module of what an assault knows of the house.
func (h *house) given() string {
	return `import json, sys, types
sys.modules["given"] = types.ModuleType("given")
sys.modules["given"].FOLDER = json.loads(` + literal(h.dir) + `)`
}
