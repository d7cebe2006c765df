package sandbox

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan toHarness, 10)
		s, _ := launchFake(t, func(h *fakeHarness) int {
			f, _ := h.until("run")
			h.line(`{"t":"rpc","id":1,"method":"slow","params":{}}`)
			h.line(`{"t":"rpc","id":1,"method":"slow","params":{}}`) // the id is taken
			answers <- first(h.until("reply"))
			h.line(`{"t":"cancel","id":1}`)
			h.line(`{"t":"cancel","id":99}`)
			answers <- first(h.until("reply")) // it has ended
			h.line(`{"t":"rpc","id":2,"method":"big","params":{}}`)
			answers <- first(h.until("reply"))
			h.line(`{"t":"rpc","id":3,"method":"fail","params":{}}`)
			answers <- first(h.until("reply"))
			h.done(f.Run)
			return interpreter(h)
		})
		canceled := make(chan struct{})
		s.calls.bind(rpcFunc(func(ctx context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
			switch method {
			case "big":
				return json.Marshal(strings.Repeat("x", maxFrame))
			case "fail":
				return nil, &codedError{&replyError{Code: "upstream", Message: "no", Data: json.RawMessage(`{"n":18446744073709551615}`)}}
			}
			<-ctx.Done()
			close(canceled)
			return json.RawMessage(`"late"`), nil
		}))
		if res := s.Run(t.Context(), request("calls"), nil); res.Status != StatusOK {
			t.Errorf("got %+v, want it ok", res)
		}
		<-canceled
		for _, want := range []string{"bad_request", "canceled", "too_large", "upstream"} {
			got := <-answers
			if got.Error == nil || got.Error.Code != want {
				t.Errorf("got answer %+v, want error %s", got, want)
			}
			if want == "upstream" && string(got.Error.Data) != `{"n":18446744073709551615}` {
				t.Errorf("got data %s, want it byte for byte", got.Error.Data)
			}
		}
	})
}

// TestCallThatWasGivenUpAnswersNobody lets the sandbox use an id again while
// its first call still runs.
func TestCallThatWasGivenUpAnswersNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		returned, over := make(chan struct{}), make(chan struct{})
		answer := make(chan toHarness, 1)
		s, _ := launchFake(t, func(h *fakeHarness) int {
			f, _ := h.until("run")
			h.line(`{"t":"rpc","id":1,"method":"first","params":{}}`)
			h.line(`{"t":"cancel","id":1}`)
			h.line(`{"t":"rpc","id":1,"method":"second","params":{}}`)
			answer <- first(h.until("reply"))
			h.done(f.Run)
			return interpreter(h)
		})
		s.calls.bind(rpcFunc(func(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
			if method == "first" {
				<-returned
				defer close(over)
			} else {
				close(returned)
				<-over
				time.Sleep(time.Second) // the first is through
			}
			return json.Marshal(method)
		}))
		s.Run(t.Context(), request("calls"), nil)
		if got := <-answer; string(got.Result) != `"second"` {
			t.Errorf("got answer %s, want the second call's", got.Result)
		}
	})
}

func first[T any](v T, _ bool) T { return v }

// TestCallsAreBounded makes calls and gives them up at once, against a server
// that takes no notice.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asked = 5000
		var running, most atomic.Int64
		busy := make(chan int, 1)
		s, _ := launchFake(t, func(h *fakeHarness) int {
			f, _ := h.until("run")
			go func() {
				for i := range asked {
					h.line(`{"t":"rpc","id":%d,"method":"m","params":{}}`, i+1)
					h.line(`{"t":"cancel","id":%d}`, i+1)
				}
			}()
			refused := 0
			for refused < asked-maxCalls {
				if r, ok := h.until("reply"); !ok || r.Error == nil || r.Error.Code != "busy" {
					break
				}
				refused++
			}
			busy <- refused
			h.done(f.Run)
			h.until("nothing")
			return 0
		})
		release := make(chan struct{})
		s.calls.bind(rpcFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-release
			running.Add(-1)
			return nil, nil
		}))
		s.Run(t.Context(), request("calls"), nil)
		synctest.Wait() // all that were let in have begun
		if got := <-busy; got != asked-maxCalls || most.Load() != maxCalls {
			t.Errorf("%d calls were refused and %d ran at once, want %d and %d", got, most.Load(), asked-maxCalls, maxCalls)
		}
		close(release)
	})
}
