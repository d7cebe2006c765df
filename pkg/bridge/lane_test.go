package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/sandbox"
)

// A track is a lane whose code is a span of time: it prints its seconds as they
// pass, and its value is the span.
type track struct {
	t    *testing.T
	lane *lane
	runs []string // what was run, interrupts marked
}

// onTrack runs f in a bubble, and waits for every goroutine of the lane.
func onTrack(t *testing.T, f func(t *testing.T, k *track)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var jobs sync.WaitGroup
		k := &track{t: t, lane: newLane(ctx, "", &jobs, zerolog.Nop())}
		f(t, k)
		cancel()
		jobs.Wait()
	})
}

func (k *track) task(code string) task {
	return func(ctx context.Context, output func(sandbox.Output)) (sandbox.Result, error) {
		res := sandbox.Result{Status: sandbox.StatusOK, Value: code}
		span, _ := time.ParseDuration(code)
		if code == "fail" {
			return sandbox.Result{}, errors.New("launching sandbox: no engine")
		}
		for i := range int(span.Seconds()) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				k.runs = append(k.runs, code+" interrupted: "+context.Cause(ctx).Error())
				res.Status, res.StateLost = sandbox.StatusInterrupted, "it had to be killed"
				return res, nil
			}
			o := sandbox.Output{Stream: sandbox.Stdout, Text: fmt.Sprintf("%d ", i+1)}
			res.Output = append(res.Output, o)
			output(o)
		}
		k.runs = append(k.runs, code)
		return res, nil
	}
}

// call makes a call with 5 s of patience.
func (k *track) call(ctx context.Context, code string, reset bool) (sandbox.Result, error) {
	return k.do(ctx, order{code: code, reset: reset, patience: time.After(5*time.Second + time.Millisecond)})
}

func (k *track) do(ctx context.Context, o order) (sandbox.Result, error) {
	var err error
	if o.place, err = k.lane.enter(); err != nil {
		return sandbox.Result{}, err
	}
	o.task = k.task(o.code)
	return k.lane.do(ctx, o)
}

// expect makes a call and compares what came of it, in brief.
func (k *track) expect(code, want string) {
	k.t.Helper()
	res, err := k.call(k.t.Context(), code, false)
	if got := brieflyTold(res, err); got != want {
		k.t.Errorf("call of %q:\n got %s\nwant %s", code, got, want)
	}
}

func brieflyTold(res sandbox.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, o := range res.Output {
		text.WriteString(o.Text)
	}
	return fmt.Sprintf("%s|%s|%s|%s", res.Status, text.String(), res.Value, strings.Join(res.Notices, ";"))
}

const still = "still running (run 1): call run_python with empty code to go on waiting"

func TestARunOutlivesItsCallAndIsCollected(t *testing.T) {
	onTrack(t, func(_ *testing.T, k *track) {
		k.expect("12s", "running|1 2 3 4 5 ||"+still)
		k.expect("", "running|6 7 8 9 10 ||"+still)
		k.expect(" \n", "ok|11 12 |12s|")
		k.expect("", "ok|||")
		k.expect("2s", "ok|1 2 |2s|")
	})
}

func TestOutputIsKeptBetweenCalls(t *testing.T) {
	onTrack(t, func(_ *testing.T, k *track) {
		k.expect("8s", "running|1 2 3 4 5 ||"+still)
		time.Sleep(time.Minute)
		k.expect("", "ok|6 7 8 |8s|")
	})
}

func TestOtherCodeIsRefusedWhileALateRunGoesOn(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		k.expect("9s", "running|1 2 3 4 5 ||"+still)
		began := time.Now()
		k.expect("1s", "busy, nothing ran: run 1 still goes on; call run_python with empty code to wait for it, or with reset=true to stop it and start over")
		if took := time.Since(began); took != 0 {
			t.Errorf("the refusal took %s, want it at once", took)
		}
		k.expect("", "ok|6 7 8 9 |9s|")
		if diff := cmp.Diff([]string{"9s"}, k.runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
}

func TestALateResultComesWithTheNextCodeToo(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		k.expect("7s", "running|1 2 3 4 5 ||"+still)
		time.Sleep(time.Minute)
		k.expect("fail", "launching sandbox: no engine") // and keeps it
		res, err := k.call(t.Context(), "1s", false)
		if got, want := brieflyTold(res, err), "ok|6 7 7s1 |1s|run 1 has ended meanwhile (ok, after 0.0 s)"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for i, o := range res.Output {
			if want := i < 2; o.Background != want {
				t.Errorf("%q: background is %v, want %v", o.Text, o.Background, want)
			}
		}
		k.expect("", "ok|||")
	})
}

func TestQueuedCodeIsRefusedWhenTheRunBeforeItIsLate(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		var wg sync.WaitGroup
		wg.Go(func() { k.expect("8s", "running|1 2 3 4 5 ||"+still) })
		synctest.Wait()
		time.Sleep(4 * time.Second)
		wg.Go(func() {
			res, err := k.call(t.Context(), "1s", false)
			if err == nil || !strings.HasPrefix(err.Error(), "busy, nothing ran: run 1") {
				t.Errorf("got %+v and %v, want busy", res, err)
			}
		})
		wg.Go(func() { k.expect("", "ok|6 7 8 |8s|") }) // waits on, though it was queued
		wg.Wait()
	})
}

func TestACallWithProgressNeverYields(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		res, err := k.do(t.Context(), order{code: "30s"})
		if err != nil || res.Value != "30s" || len(res.Output) != 30 {
			t.Errorf("got %+v and %v", res, err)
		}
	})
}

func TestACancelledWaitInterruptsTheRunAndTheLossIsTold(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		k.expect("9s", "running|1 2 3 4 5 ||"+still)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(errCancelled) })
		if res, err := k.call(ctx, "", false); err != nil || res.Status != sandbox.StatusInterrupted {
			t.Errorf("got %+v and %v, want it interrupted", res, err)
		}
		if diff := cmp.Diff([]string{"9s interrupted: " + errCancelled.Error()}, k.runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		k.expect("1s", "ok|1 |1s|variables, imports and files from before this call are gone: it had to be killed")
		k.expect("1s", "ok|1 |1s|")
	})
}

func TestAResetStopsALateRun(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		k.expect("1h", "running|1 2 3 4 5 ||"+still)
		res, err := k.call(t.Context(), "1s", true)
		if got, want := brieflyTold(res, err), "ok|1 |1s|"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if diff := cmp.Diff([]string{"1h interrupted: " + errReset.Error(), "1s"}, k.runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
}

func TestCallsRunInTheOrderOfTheirPlaces(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		var places []*place
		for range 6 {
			p, err := k.lane.enter()
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, p)
		}
		k.lane.leave(places[0]) // it had the turn
		k.lane.leave(places[3]) // it waited for it
		var wg sync.WaitGroup
		for _, i := range []int{5, 2, 1, 4} { // the order in which they get ready says nothing
			wg.Go(func() {
				code := fmt.Sprint(i)
				if _, err := k.lane.do(t.Context(), order{code: code, place: places[i], task: k.task(code)}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if diff := cmp.Diff([]string{"1", "2", "4", "5"}, k.runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		if !k.lane.quiet() {
			t.Error("the lane is not quiet when all is over")
		}
	})
}

func TestALaneHasRoomForSoManyCalls(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		k.lane.name = "s1"
		var places []*place
		for range 1 + maxWaiting { // one has the turn
			p, err := k.lane.enter()
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, p)
		}
		want := `busy, nothing ran: 32 calls wait for their turn in session "s1" already, which is the limit; wait for their answers, or use another session`
		if _, err := k.lane.enter(); err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
		for _, p := range places {
			k.lane.leave(p)
		}
		k.lane.name = ""
		k.expect("1s", "ok|1 |1s|")
	})
}

func TestANamedSessionSaysHowToGoOn(t *testing.T) {
	onTrack(t, func(_ *testing.T, k *track) {
		k.lane.name = "s1"
		k.expect("12s", `running|1 2 3 4 5 ||still running (run 1): call run_python with empty code and session="s1" to go on waiting`)
		k.expect("1s", `busy, nothing ran: run 1 still goes on; call run_python with empty code and session="s1" to wait for it, or with reset=true to stop it and start over`)
	})
}

func TestATimeLimitOfACallThatWaitsOnIsNotForgottenInSilence(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		k.expect("12s", "running|1 2 3 4 5 ||"+still)
		for _, want := range []string{
			"running|6 7 8 9 10 ||" + still + ";timeout was ignored: run 1 keeps the time limit that it was started with",
			"ok|11 12 |12s|timeout was ignored: run 1 keeps the time limit that it was started with",
			"ok|||",
		} {
			res, err := k.do(t.Context(), order{timed: true, patience: time.After(5*time.Second + time.Millisecond)})
			if got := brieflyTold(res, err); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

func TestTwoCallsThatWaitShareNoResult(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		k.expect("8s", "running|1 2 3 4 5 ||"+still)
		told := make(chan string, 2)
		for range 2 {
			go func() { told <- brieflyTold(k.call(t.Context(), "", false)) }()
		}
		got := map[string]int{<-told: 1}
		got[<-told]++
		if diff := cmp.Diff(map[string]int{"ok|6 7 8 |8s|": 1, "ok|||": 1}, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

// Code may ask something before the call that began it waits for it.
func TestARunAsksTheClientOfItsCall(t *testing.T) {
	onTrack(t, func(t *testing.T, k *track) {
		place, err := k.lane.enter()
		if err != nil {
			t.Fatal(err)
		}
		client, asked := &peer{name: "modern", modern: true}, (*peer)(nil)
		j, _ := k.lane.begin(t.Context(), order{place: place, peer: client, task: func(context.Context, func(sandbox.Output)) (sandbox.Result, error) {
			asked = k.lane.caller()
			return sandbox.Result{}, nil
		}})
		<-j.done
		if asked != client {
			t.Errorf("the code would ask %+v, want %+v", asked, client)
		}
	})
}

func TestALateRunEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan error, 1)
		b := &bench{run: func(ctx context.Context, _ sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return sandbox.Result{Status: sandbox.StatusInterrupted}, nil
		}}
		client, server := net.Pipe()
		srv := NewServer(b.open, Options{YieldAfter: 50 * time.Second})
		served := make(chan struct{})
		go func() { defer close(served); srv.serveConn(context.Background(), server) }()
		a := &agent{t: t, r: bufio.NewReader(client)}
		ask := func(line string) string {
			if _, err := client.Write([]byte(line + "\n")); err != nil {
				t.Fatal(err)
			}
			answer, err := a.r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		ask(`{"bridged":1,"cwd":"/"}`)
		began := time.Now()
		answer := ask(callLine("1", `{"code":"while True: pass"}`))
		if took := time.Since(began); took != 50*time.Second {
			t.Errorf("the answer took %s, want 50s", took)
		}
		for _, want := range []string{`"text":"[bridged] ` + still + `"`, `"status":"running"`, `"isError"`} {
			if got := strings.Contains(answer, want); got != (want != `"isError"`) {
				t.Errorf("%s in the answer: %v\n%s", want, got, answer)
			}
		}
		if n := srv.Sessions()[0].Running; n != 1 {
			t.Errorf("running: got %d, want 1", n)
		}
		_ = client.Close()
		if cause := <-stopped; !errors.Is(cause, errClientGone) {
			t.Errorf("got cause %v, want %v", cause, errClientGone)
		}
		<-served
		if n := b.closed.Load(); n != 1 {
			t.Errorf("the workspace was closed %d times, want once", n)
		}
	})
}

func TestAResetIsMadeBeforeItsCodeRuns(t *testing.T) {
	b := &bench{}
	b.run = func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		return sandbox.Result{Status: sandbox.StatusOK, Value: fmt.Sprint(req.Code, b.resets.Load())}, nil
	}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	for _, tt := range []struct{ arguments, value, notice string }{
		{`{"code":"a"}`, "a0", ""},
		{`{"code":"b","reset":true}`, "b1", startedOver},
		{`{"reset":true}`, "", ended},
		{`{"code":"c","reset":false}`, "c2", ""},
	} {
		a.send(callLine(`1`, tt.arguments))
		c := a.reply().call(t)
		value, _ := c.Structured.Result.(string)
		if got := strings.Join(c.Structured.Notices, ";"); value != tt.value || got != tt.notice {
			t.Errorf("%s: got %q with %q, want %q with %q", tt.arguments, value, got, tt.value, tt.notice)
		}
	}
}

func TestALateAnswerHasWhatWasNotTold(t *testing.T) {
	j := &job{cancel: func(error) {}, fresh: sandbox.NewRecord(maxFresh)}
	j.print(sandbox.Output{Stream: 1, Text: "one "})
	j.print(sandbox.Output{Stream: 2, Text: "10%"})
	j.soFar("")
	j.print(sandbox.Output{Stream: 2, Text: "50%", Back: 3})
	j.print(sandbox.Output{Stream: 1, Text: "two"})
	j.print(sandbox.Output{Stream: 2, Text: "100%", Back: 3})
	j.res = sandbox.Result{Status: sandbox.StatusOK, Output: []sandbox.Output{{Stream: 1, Text: "one two"}, {Stream: 2, Text: "100%"}}}
	res, err := j.result()
	want := []sandbox.Output{{Stream: 1, Text: "two"}, {Stream: 2, Text: "100%"}}
	if diff := cmp.Diff(want, res.Output); err != nil || diff != "" {
		t.Errorf("error %v, output (-want +got):\n%s", err, diff)
	}
}
