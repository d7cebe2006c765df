//go:build integration

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// answerTime is how long a call may take in all, whatever goes wrong: one
	// that takes longer counts as one that is never answered.
	answerTime = 150 * time.Second
	// runTime is the time limit of code, in seconds.
	runTime = 60
	// pause is between a call that failed and the next.
	pause = 200 * time.Millisecond
)

// An agent calls run_python again and again, and checks every answer.
type agent struct {
	w      *world
	number int
	rng    *rand.Rand
	model  model
	after  bool // the last call failed: the next one only looks

	answers atomic.Int64 // that were right

	mu     sync.Mutex // guards the fields below
	shim   *exec.Cmd
	doomed bool // the shim was killed by us
}

// run calls until ctx ends.
func (a *agent) run(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := a.connect(ctx)
		if err != nil {
			if ctx.Err() == nil && !a.isDoomed() {
				a.w.violation("agent %d: starting a shim: %v", a.number, err)
			}
			sleep(ctx, pause)
			continue
		}
		a.model.fresh()
		a.after = false
		for ctx.Err() == nil && a.step(ctx, c) {
		}
		_ = c.Close() // the shim may be dead
	}
}

// connect starts a shim and initializes.
func (a *agent) connect(ctx context.Context) (*client.Client, error) {
	tr := transport.NewStdioWithOptions(a.w.shim, nil, nil,
		transport.WithCommandFunc(func(_ context.Context, command string, _, args []string) (*exec.Cmd, error) {
			cmd := exec.Command(command, args...)
			cmd.Env, cmd.Dir = a.w.env, a.w.dir
			a.mu.Lock()
			defer a.mu.Unlock()
			a.shim, a.doomed = cmd, false
			return cmd, nil
		}))
	c := client.NewClient(tr)
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	_, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: mcp.LATEST_PROTOCOL_VERSION, ClientInfo: mcp.Implementation{Name: "chaos", Version: "1"},
	}})
	if err != nil {
		_ = c.Close() // the first error says more
		return nil, err
	}
	return c, nil
}

// pid is that of the shim.
func (a *agent) pid() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shim == nil || a.shim.Process == nil {
		return 0
	}
	return a.shim.Process.Pid
}

// doom notes that the shim is about to be killed, and returns its pid.
func (a *agent) doom() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doomed = true
	return a.shim.Process.Pid
}

func (a *agent) isDoomed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.doomed
}

// lossWords are how an agent is told that its variables are gone.
var lossWords = regexp.MustCompile(`state lost[^\n]*|The interpreter was replaced[^\n]*|bridged was restarted: variables[^\n]*`)

// step makes one call, and reports whether the connection still stands.
func (a *agent) step(ctx context.Context, c *client.Client) bool {
	step, code, server := a.think()
	callCtx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req := mcp.CallToolRequest{}
	args := map[string]any{"code": code, "timeout": runTime}
	if server {
		args["servers"] = []string{serverName}
	}
	req.Params.Name, req.Params.Arguments = "run_python", args
	res, err := c.CallTool(callCtx, req)
	switch {
	case ctx.Err() != nil:
		return false // it is over
	case errors.Is(err, context.DeadlineExceeded):
		a.w.violation("agent %d: no answer within %s to:\n%s", a.number, answerTime, code)
		a.model.unknown(step)
		return false
	case err != nil && a.isDoomed():
		return false
	case err != nil && shimEnded(err):
		a.w.violation("agent %d: its shim ended by itself: %v", a.number, err)
		return false
	case err != nil:
		a.failed(ctx, step, err.Error())
		return true
	}
	a.judge(ctx, step, server, text(res))
	return true
}

// think chooses what to do next.
func (a *agent) think() (step int, code string, server bool) {
	if a.after || !a.model.certain() {
		return 0, stepCode(0, ""), false
	}
	step = 1 + a.rng.IntN(1000)
	switch n := a.rng.IntN(100); {
	case n < 20:
		return step, stepCode(step, fmt.Sprintf("import time\ntime.sleep(%.2f)", a.rng.Float64()*1.5)), false
	case n < 40:
		return step, stepCode(step, fmt.Sprintf(askServer, step, step)), true
	}
	return step, stepCode(step, ""), false
}

// askServer has the server double a number, which may fail when it is killed.
const askServer = `
try:
    said = (await mcp_calc.double(n=%d))
    said = 'right' if '[%d]' in str(said) else 'wrong: ' + repr(said)
except Exception as e:
    said = 'failed: ' + type(e).__name__`

// judge checks an answer.
func (a *agent) judge(ctx context.Context, step int, server bool, answer string) {
	if loss := lossWords.FindString(answer); loss != "" {
		a.model.fresh()
		a.w.lost(a.number, loss)
	}
	got, said, ok := parse(answer)
	if !ok {
		a.failed(ctx, step, answer)
		return
	}
	if err := a.model.answer(step, got); err != nil {
		a.w.violation("agent %d: %v; the answer was:\n%s", a.number, err, answer)
		a.model.may = map[state]bool{got: true}
	}
	if strings.HasPrefix(said, "wrong") {
		a.w.violation("agent %d: the server's answer is %s", a.number, said)
	}
	if server && strings.HasPrefix(said, "failed") {
		a.w.failedCall()
	}
	a.after = false
	a.answers.Add(1)
	a.w.answered()
}

// failed notes a call whose code may have run or not.
func (a *agent) failed(ctx context.Context, step int, why string) {
	if !strings.Contains(why, "state lost") { // then it is known
		a.model.unknown(step)
	}
	a.after = true
	a.w.refused(a.number, why)
	sleep(ctx, pause)
}

func shimEnded(err error) bool {
	s := err.Error()
	return strings.Contains(s, "transport") || strings.Contains(s, "pipe") || strings.Contains(s, "EOF") || strings.Contains(s, "closed")
}

// text joins the text blocks of an answer.
func text(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if block, ok := c.(mcp.TextContent); ok {
			b.WriteString(block.Text + "\n")
		}
	}
	return b.String()
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
