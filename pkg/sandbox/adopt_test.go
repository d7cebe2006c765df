package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// An heirloom is a real harness that passes from one daemon to the next.
type heirloom struct {
	t testing.TB
	e *enginetest.Memory
	o Options
	s *Sandbox
}

// newHeirloom launches one. StdinOnce is as Podman has it, and otherwise a
// daemon's end is not seen inside.
func newHeirloom(t testing.TB, stdinOnce bool) *heirloom {
	t.Helper()
	h := &heirloom{t: t, o: localOptions(t), e: enginetest.NewMemory(t, enginetest.Options{StdinOnce: stdinOnce})}
	h.e.AddImage("python", nil)
	s, err := Launch(t.Context(), h.e, h.o)
	if err != nil {
		t.Fatal(err)
	}
	h.s = s
	t.Cleanup(func() { h.s.Close() })
	return h
}

// crash lets go of the sandbox as a daemon does that is killed.
func (h *heirloom) crash() Ticket {
	t := h.s.Ticket()
	h.s.drop()
	return t
}

func (h *heirloom) adopt(t Ticket) *Sandbox {
	h.t.Helper()
	s, err := Adopt(h.t.Context(), h.e, h.o, t)
	if err != nil {
		h.t.Fatal(err)
	}
	h.s = s
	return s
}

// reborn is a crash and an adoption.
func (h *heirloom) reborn() *Sandbox {
	h.t.Helper()
	return h.adopt(h.crash())
}

func bothStdins(t *testing.T, test func(t *testing.T, once bool)) {
	t.Run("stdin ends with the daemon", func(t *testing.T) { test(t, true) })
	t.Run("stdin stays open", func(t *testing.T) { test(t, false) })
}

func writeFile(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func awaitFile(t testing.TB, path string) {
	t.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not come to be", path)
		}
	}
}

func TestAdoptKeepsVariables(t *testing.T) {
	bothStdins(t, func(t *testing.T, once bool) {
		h := newHeirloom(t, once)
		if res := h.s.Run(t.Context(), request("x = 41"), nil); res.Status != StatusOK {
			t.Fatalf("got %+v", res)
		}
		for round := range 3 {
			s := h.reborn()
			if left := s.Unfinished(); len(left) != 0 {
				t.Errorf("round %d: unfinished runs %+v, want none", round, left)
			}
			if res := s.Run(t.Context(), request("x += 1; x"), nil); res.Value != []string{"42", "43", "44"}[round] {
				t.Errorf("round %d: got %+v", round, res)
			}
		}
	})
}

// keyed is code with a key.
func keyed(key, code string) Request {
	r := request(code)
	r.Key = key
	return r
}

// begin runs code in the background until it has printed "go".
func (h *heirloom) begin(req Request) {
	h.t.Helper()
	s, going := h.s, make(chan struct{}, 1)
	go s.Run(context.Background(), req, func(o Output) {
		if strings.Contains(o.Text, "go") {
			poke(going)
		}
	})
	select {
	case <-going:
	case <-time.After(hang):
		h.t.Fatal("the code prints nothing")
	}
}

func TestAdoptFinishesARun(t *testing.T) {
	bothStdins(t, func(t *testing.T, once bool) {
		h := newHeirloom(t, once)
		flag := t.TempDir() + "/flag"
		h.begin(keyed("a", "import os, time\nprint('go', flush=True)\nwhile not os.path.exists("+literal(flag)+"): time.sleep(0.01)\nprint('over')\nx = 7\nx"))
		ticket := h.crash()
		pool := NewPool(nil, PoolOptions{})
		defer pool.Leave(t.Context())
		for round := range 2 { // the second has the result again, as nobody has acknowledged it
			sb := h.adopt(ticket)
			session := NewSession(pool, SessionOptions{Adopted: sb})
			left := session.Unfinished()
			if len(left) != 1 || left[0].Key != "a" || left[0].Lost {
				t.Fatalf("unfinished %+v, want a", left)
			}
			if round == 0 {
				writeFile(t, flag)
			}
			res, err := session.Run(t.Context(), keyed("a", "1/0"), nil)
			if err != nil || res.Status != StatusOK || res.Value != "7" || output(res) != "go\nover\n" {
				t.Fatalf("round %d: got %+v, %v", round, res, err)
			}
			pool.Leave(t.Context())
			session.Close()
			pool = NewPool(nil, PoolOptions{})
			defer pool.Close()
		}
		session := NewSession(pool, SessionOptions{Adopted: h.adopt(ticket)})
		if _, err := session.Resume(t.Context(), keyed("a", ""), nil); err != nil {
			t.Fatal(err)
		}
		session.Ack("a")
		if res, err := session.Run(t.Context(), keyed("b", "x + 1"), nil); err != nil || res.Value != "8" {
			t.Fatalf("got %+v, %v", res, err)
		}
		session.Ack("b")
		if res, err := session.Run(t.Context(), request("x + 2"), nil); err != nil || res.Value != "9" {
			t.Fatalf("got %+v, %v", res, err)
		}
		h.s.drop()
		s := h.adopt(ticket)
		if left := s.Unfinished(); len(left) > 1 { // the last one's acknowledgement goes with what follows
			t.Errorf("unfinished %+v, want at most the last run", left)
		}
		if _, err := s.claim("a"); !errors.Is(err, ErrRanBefore) {
			t.Errorf("the first key: %v, want that it has run before", err)
		}
	})
}

// What code prints and publishes while nobody is there arrives.
func TestAdoptHearsWhatWasMissed(t *testing.T) {
	bothStdins(t, func(t *testing.T, once bool) {
		h := newHeirloom(t, once)
		flag, seen := t.TempDir()+"/flag", t.TempDir()+"/seen"
		code := `
import os, threading, time
def work():
    while not os.path.exists(` + literal(flag) + `): time.sleep(0.01)
    print("in the gap", flush=True)
    publish(b"data", "gap.txt")
    time.sleep(0.2)
    open(` + literal(seen) + `, "w").close()
threading.Thread(target=work).start()
publish(b"data", "early.txt")
`
		if res := h.s.Run(t.Context(), request(code), nil); res.Status != StatusOK {
			t.Fatalf("got %+v", res)
		}
		ticket := h.crash()
		writeFile(t, flag)
		awaitFile(t, seen)
		s := h.adopt(ticket)
		if files := s.Files(); len(files) != 2 {
			t.Errorf("files %+v, want both", files)
		}
		res := s.Run(t.Context(), request("1"), nil)
		if output(res) != "in the gap\n" || !res.Output[0].Background {
			t.Errorf("output %+v, want what was printed in the gap", res.Output)
		}
		var names []string
		for _, f := range res.Files {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); !strings.Contains(got, "gap.txt") {
			t.Errorf("files of the next result: %s, want gap.txt", got)
		}
		var text strings.Builder
		if f, err := s.CopyFile(t.Context(), &text, s.Files()[0].URI, 100); err != nil || text.String() != "data" {
			t.Errorf("reading %+v: %q, %v", f, &text, err)
		}
	})
}

func TestAdoptInterrupts(t *testing.T) {
	flag := t.TempDir() + "/flag"
	for name, code := range map[string]string{
		"a sleep":  "import time\nprint('go', flush=True)\ntime.sleep(600)",
		"a loop":   "print('go', flush=True)\nwhile True: pass",
		"C code":   "import os, re, time\nprint('go', flush=True)\nwhile not os.path.exists(" + literal(flag) + "): time.sleep(0.01)\nre.match('(a+)+$', 'a' * 40 + 'b')",
		"an await": "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(600)",
	} {
		t.Run(name, func(t *testing.T) {
			bothStdins(t, func(t *testing.T, once bool) {
				h := newHeirloom(t, once)
				h.begin(keyed("k", "x = 5\n"+code))
				writeFile(t, flag) // C code lets nothing be printed
				t.Cleanup(func() { _ = os.Remove(flag) })
				s := h.reborn()
				r, err := s.claim("k")
				if r == nil {
					t.Fatalf("no run to take up: %v", err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				res := s.takeUp(ctx, r, request(""), nil)
				if res.Status != StatusInterrupted || res.StateLost != "" {
					t.Errorf("got %+v", res)
				}
				if res := s.Run(t.Context(), request("x"), nil); res.Value != "5" {
					t.Errorf("afterwards: %+v", res)
				}
			})
		})
	}
}

// A daemon that hung while another came in can't run anything any more.
func TestAdoptShutsOut(t *testing.T) {
	bothStdins(t, func(t *testing.T, once bool) {
		h := newHeirloom(t, once)
		h.s.Run(t.Context(), request("x = 1"), nil)
		stale := h.s
		s := h.adopt(stale.Ticket())
		stale.out <- []byte(`{"t":"run","run":2,"code":"x = 'stale'"}` + "\n")
		if res := s.Run(t.Context(), request("x"), nil); res.Value != "1" {
			t.Errorf("got %+v, want what the new daemon ran", res)
		}
		stale.drop()
		if res := s.Run(t.Context(), request("x"), nil); res.Value != "1" {
			t.Errorf("got %+v after the stale daemon's end", res)
		}
	})
}

// A daemon that reads nothing more does not keep another from coming in.
func TestAdoptFromADaemonThatHangs(t *testing.T) {
	h := newHeirloom(t, false)
	hung, hangs := make(chan struct{}), make(chan struct{}, 1)
	stale := h.s
	go stale.Run(context.Background(), keyed("k", "for i in range(400): display({'text/plain': str(i) * 10_000}, raw=True)\nprint('x' * 60_000)\nx = 3\nx"), func(Output) {
		poke(hangs)
		<-hung
	})
	<-hangs
	s := h.adopt(stale.Ticket())
	r, err := s.claim("k")
	if r == nil {
		t.Fatalf("no run to take up: %v", err)
	}
	if res := s.takeUp(t.Context(), r, request(""), nil); res.Value != "3" || !strings.HasSuffix(output(res), "x\n") {
		t.Errorf("got %s %q and %d bytes of output", res.Status, res.Value, len(output(res)))
	}
	close(hung)
	stale.drop()
}

func TestAdoptRefuses(t *testing.T) {
	h := newHeirloom(t, true)
	good := h.crash()
	for name, row := range map[string]struct {
		change func(*Ticket)
		want   string
		gone   bool
	}{
		"a wrong secret":     {change: func(t *Ticket) { t.Secret = strings.Repeat("0", 64) }, want: "does not know the secret"},
		"another container":  {change: func(t *Ticket) { t.Container = "nothing" }, want: "no container", gone: true},
		"another sandbox":    {change: func(t *Ticket) { t.ID = "1234" }, want: "no container", gone: true},
		"a wrong door":       {change: func(t *Ticket) { t.Door = "00" }, want: "no harness listens"},
		"a damaged secret":   {change: func(t *Ticket) { t.Secret = "a b" }, want: "damaged"},
		"an empty ticket":    {change: func(t *Ticket) { *t = Ticket{} }, want: "not complete"},
		"a ticket of no use": {change: func(t *Ticket) { t.Door = "" }, want: "launched to end"},
	} {
		bad := good
		row.change(&bad)
		s, err := Adopt(t.Context(), h.e, h.o, bad)
		if err == nil {
			s.Close()
			t.Fatalf("%s: it was adopted", name)
		}
		if errors.Is(err, ErrGone) != row.gone {
			t.Errorf("%s: %v, want that it is gone: %v", name, err, row.gone)
		}
		expectContains(t, name, err.Error(), row.want)
	}
	if res := h.adopt(good).Run(t.Context(), request("1 + 1"), nil); res.Value != "2" {
		t.Errorf("afterwards: %+v", res)
	}
	h.s.Close()
	if _, err := Adopt(t.Context(), h.e, h.o, good); !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want that it is gone", err)
	}
}

func TestAdoptAPausedSandbox(t *testing.T) {
	h := newHeirloom(t, true)
	h.s.Run(t.Context(), request("x = 1"), nil)
	if asked, err := h.s.pause(func() bool { return false }); !asked || err != nil {
		t.Fatal(asked, err)
	}
	if res := h.reborn().Run(t.Context(), request("x"), nil); res.Value != "1" {
		t.Errorf("got %+v", res)
	}
}

// callCode finds what makes the harness's calls.
const callCode = "import threading\nclient = next(t for t in threading.enumerate() if t.name == 'bridged-control')._target.__self__._handle.__self__._client\n"

// recorded tells of the calls that it answers.
type recorded struct {
	calls chan string
	again bool // all are reads
}

func (r *recorded) Call(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	r.calls <- method
	return json.RawMessage(`"answer"`), nil
}

func (r *recorded) Repeatable(string, json.RawMessage) bool { return r.again }

// Calls that were under way are made again only if they just read.
func TestAdoptAnswersCalls(t *testing.T) {
	for _, row := range []struct {
		again bool
		want  string
	}{{true, "answer"}, {false, "outcome_unknown"}} {
		bothStdins(t, func(t *testing.T, once bool) {
			h := newHeirloom(t, once)
			asked := make(chan struct{}, 1)
			h.s.calls.bind(rpcFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
				poke(asked)
				<-ctx.Done()
				return nil, ctx.Err()
			}))
			code := callCode + "try:\n  v = await client.call('m', {})\nexcept Exception as e:\n  v = e.code\nv"
			go h.s.Run(context.Background(), keyed("k", code), nil)
			select {
			case <-asked:
			case <-time.After(hang):
				t.Fatal("the code calls nothing")
			}
			rpc := &recorded{make(chan string, 1), row.again}
			pool := NewPool(nil, PoolOptions{})
			defer pool.Close()
			session := NewSession(pool, SessionOptions{Adopted: h.reborn(), RPC: rpc})
			res, err := session.Run(t.Context(), keyed("k", code), nil)
			if err != nil {
				t.Fatal(err)
			}
			expectContains(t, "value", res.Value+output(res), row.want)
			if made := len(rpc.calls); (made == 1) != row.again {
				t.Errorf("%d calls were made again, want it only of reads (%v)", made, row.again)
			}
		})
	}
}

// A sandbox that was left knows it, and calls under way are answered before.
func TestLeaveAnswersCalls(t *testing.T) {
	h := newHeirloom(t, false)
	answer := make(chan struct{})
	asked := make(chan struct{}, 1)
	h.s.calls.bind(rpcFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		poke(asked)
		<-answer
		return json.RawMessage(`"answer"`), nil
	}))
	code := callCode + "print(await client.call('m', {}))\nprint(await client.call('m', {}))"
	go h.s.Run(context.Background(), keyed("k", code), nil)
	<-asked
	left := make(chan struct{})
	go func() {
		h.s.Leave(t.Context())
		close(left)
	}()
	time.AfterFunc(50*time.Millisecond, func() { close(answer) })
	<-left
	rpc := &recorded{make(chan string, 2), false}
	pool := NewPool(nil, PoolOptions{})
	defer pool.Close()
	session := NewSession(pool, SessionOptions{Adopted: h.adopt(h.s.Ticket()), RPC: rpc})
	res, err := session.Run(t.Context(), keyed("k", code), nil)
	if err != nil || output(res) != "answer\nanswer\n" {
		t.Errorf("got %+v, %v, want both answers: the second was asked for after the leaving", res, err)
	}
}

// Of a call that has no answer when its daemon leaves, the code hears nothing: the
// next daemon makes it again, or says that its outcome is unknown.
func TestLeaveSaysNothingOfCallsWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan string, 10)
		e := fakeEngine(t, func(h *fakeHarness) int {
			h.start()
			h.until("run")
			h.line(`{"t":"rpc","id":1,"method":"m","params":{}}`)
			h.until("leave")
			h.line(`{"t":"left"}`)
			for {
				f, ok := h.frame()
				if !ok {
					return 0
				}
				heard <- f.T
			}
		})
		o := fakeOptions()
		o.Grace = DefaultGrace
		s, err := Launch(t.Context(), e, o)
		if err != nil {
			t.Fatal(err)
		}
		s.calls.bind(rpcFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		go s.Run(context.Background(), request("call"), nil)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Leave(ctx)
		synctest.Wait()
		if len(heard) != 0 {
			t.Errorf("the harness was sent %s", <-heard)
		}
	})
}

// A daemon that comes in acknowledges nothing before it has heard what there is.
func TestAdoptHearsAllBeforeItAcknowledges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fakeEngine(t, func(h *fakeHarness) int {
			line, _ := h.in.ReadString('\n')
			if !strings.HasPrefix(line, "bridged-relay ") { // the container itself
				<-h.ctx.Done()
				return 0
			}
			h.line(`{"t":"adopted","nonce":%q,"run":3}`, strings.Fields(line)[3])
			time.Sleep(30 * time.Second) // some heartbeats long
			h.line(`{"t":"again","run":3,"key":"k"}`)
			h.done(3)
			h.line(`{"t":"current"}`)
			if f, _ := h.frame(); f.T != "ping" || f.Acked != 2 {
				t.Errorf("got %+v, want a heartbeat that acknowledges what comes before the run", f)
			}
			<-h.ctx.Done()
			return 0
		})
		o := fakeOptions()
		spec := launchSpec(o, "id")
		id, err := e.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		s, err := Adopt(t.Context(), e, o, Ticket{ID: "id", Container: string(id), Handle: "h", Door: "00", Secret: "00", Grace: 10})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.Close()
		expectNothing(t, e)
	})
}

// Whoever takes up a run that prints is told each piece once.
func TestWhoTakesUpARunIsToldAllOnce(t *testing.T) {
	const pieces = 2000
	r := &run{id: 1, done: make(chan struct{}), output: NewRecord(1 << 20)}
	var printing sync.WaitGroup
	printing.Go(func() {
		for i := range pieces {
			r.print(Output{Stream: 1 + i%2, Text: "x"})
		}
	})
	var told atomic.Int64
	r.follow(func(o Output) { told.Add(int64(len(o.Text))) })
	printing.Wait()
	if n := told.Load(); n != pieces {
		t.Errorf("%d pieces were told of %d", n, pieces)
	}
}

func TestGraceEndsTheAbandoned(t *testing.T) {
	bothStdins(t, func(t *testing.T, once bool) {
		t.Parallel()
		h := &heirloom{t: t, o: localOptions(t), e: enginetest.NewMemory(t, enginetest.Options{StdinOnce: once})}
		h.o.Grace = 5 * time.Second
		h.e.AddImage("python", nil)
		s, err := Launch(t.Context(), h.e, h.o)
		if err != nil {
			t.Fatal(err)
		}
		h.s = s
		defer func() { h.s.Close() }()
		time.Sleep(7 * time.Second) // it lives on while its daemon does
		if res := s.Run(t.Context(), request("x = 1; x"), nil); res.Value != "1" {
			t.Fatalf("got %+v", res)
		}
		ticket := h.crash()
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		defer cancel()
		if _, err := h.e.Wait(ctx, s.container); err != nil {
			t.Fatalf("it does not end: %v", err)
		}
		if _, err := Adopt(t.Context(), h.e, h.o, ticket); !errors.Is(err, ErrGone) {
			t.Errorf("got %v, want that it is gone", err)
		}
		if err := h.e.Remove(t.Context(), s.container); err != nil {
			t.Error(err)
		}
	})
}

// literal is a text in Python.
func literal(s string) string { return "'" + s + "'" }

// What the harness keeps is bounded, and what it leaves out is counted.
func TestAdoptCountsWhatWasNotKept(t *testing.T) {
	h := &heirloom{t: t, o: localOptions(t), e: enginetest.NewMemory(t, enginetest.Options{})}
	h.o.Output = 8 << 20
	h.e.AddImage("python", nil)
	s, err := Launch(t.Context(), h.e, h.o)
	if err != nil {
		t.Fatal(err)
	}
	h.s = s
	t.Cleanup(func() { h.s.Close() })
	const lines, width = 4000, 999
	code := "for i in range(4000): print(f'{i:0999}')"
	if res := s.Run(t.Context(), keyed("k", code), nil); res.Status != StatusOK {
		t.Fatalf("got %+v", res)
	}
	heir := h.reborn()
	r, err := heir.claim("k")
	if r == nil {
		t.Fatalf("no run to take up: %v", err)
	}
	res := heir.takeUp(t.Context(), r, request(""), nil)
	text := output(res)
	if got := int64(len(text)) + res.Cut; got != lines*(width+1) {
		t.Errorf("%d bytes are there and %d are told to be left out, want %d in all", len(text), res.Cut, lines*(width+1))
	}
	if !strings.HasPrefix(text, strings.Repeat("0", width)+"\n") || !strings.HasSuffix(text, "3999\n") {
		t.Errorf("it begins with %.20q and ends with %q", text, text[max(0, len(text)-20):])
	}
	if res.Cut == 0 || len(text) < 256<<10 {
		t.Errorf("%d bytes are there, want some and not all", len(text))
	}
}
