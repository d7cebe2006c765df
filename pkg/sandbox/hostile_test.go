package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

func TestHostileHarnessBeforeReady(t *testing.T) {
	tests := []struct {
		name string
		play func(h *fakeHarness)
		want string // part of the launch's error, "" for none
	}{
		{"foreign bytes before the hello", func(h *fakeHarness) {
			h.line("\x00\xffsomething else")
			_, _ = io.WriteString(h.out, "and more ")
			h.hello()
			h.line(`{"t":"ready"}`)
		}, ""},
		{"a multiplexed stream", func(h *fakeHarness) {
			for _, frame := range []string{`{"t":"hello","nonce":"` + h.nonce + `","protocol":1,"posture":{}}`, `{"t":"ready"}`} {
				_, _ = io.WriteString(h.out, "\x01\x00\x00\x00\x00\x00\x00"+string(rune(len(frame)+1))+frame+"\n")
			}
		}, "EOF"},
		{"another nonce", func(h *fakeHarness) {
			h.nonce = "0123"
			h.hello()
			h.line(`{"t":"ready"}`)
		}, "EOF"},
		{"a hello without posture", func(h *fakeHarness) {
			h.line(`{"t":"hello","nonce":%q,"protocol":1}`, h.nonce)
		}, "EOF"},
		{"another protocol", func(h *fakeHarness) {
			h.line(`{"t":"hello","nonce":%q,"protocol":2,"posture":{}}`, h.nonce)
		}, "harness speaks protocol 2, want 1"},
		{"lines without end", func(h *fakeHarness) {
			for range 20_000 {
				h.line("no frame")
			}
		}, "bytes came that are not its own"},
		{"one line without end", func(h *fakeHarness) {
			_, _ = h.out.Write(bytes.Repeat([]byte("x"), 2*maxHello))
			h.hello()
			h.line("")
		}, "bytes came that are not its own"},
		{"an end instead of ready", func(h *fakeHarness) {
			h.hello()
			h.line(`{"t":"output","parts":[[2,"no space left\n"]]}`)
			h.line(`{"t":"end","code":70}`)
		}, "it ended: no space left"},
		{"a lot of output before ready", func(h *fakeHarness) {
			h.hello()
			for range 1000 {
				h.line(`{"t":"output","parts":[[2,"building the font cache\n"]]}`)
			}
			h.line(`{"t":"ready"}`)
		}, ""},
		{"anything but ready", func(h *fakeHarness) {
			h.hello()
			for range 2 * maxStartFrames {
				h.line(`{"t":"pong"}`)
			}
		}, "it sends other messages"},
		{"words on stderr and death", func(h *fakeHarness) {
			_, _ = io.WriteString(h.stderr, "ModuleNotFoundError: zlib\n")
		}, "the container ended with exit code 3; it said: ModuleNotFoundError: zlib"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := fakeEngine(t, func(h *fakeHarness) int {
					h.boot()
					tt.play(h)
					if tt.want == "" {
						return interpreter(h)
					}
					return 3
				})
				s, err := Launch(t.Context(), e, fakeOptions())
				if tt.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					if res := s.Run(t.Context(), request("5"), nil); res.Value != "5" {
						t.Errorf("got %+v, want value 5", res)
					}
					s.Close()
				} else if err == nil {
					t.Error("the launch worked")
					s.Close()
				} else {
					expectContains(t, "error", err.Error(), tt.want)
				}
				expectNothing(t, e)
			})
		})
	}
}

func TestHostileHarnessSilentAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fakeEngine(t, func(h *fakeHarness) int {
			<-h.ctx.Done()
			return 0
		})
		began := time.Now()
		_, err := Launch(t.Context(), e, fakeOptions())
		if err == nil || time.Since(began) != startTimeout {
			t.Errorf("got error %v after %s, want one after %s", err, time.Since(began), startTimeout)
		}
		expectNothing(t, e)
	})
}

// The rest of the table: what a harness sends in a run, and what becomes of it.
func TestHostileHarnessInRun(t *testing.T) {
	tests := []struct {
		name   string
		play   func(h *fakeHarness, run int64)
		status Status
		lost   string // part of StateLost
	}{
		{"garbage, and then an end", func(h *fakeHarness, run int64) {
			for range maxJunk - 1 {
				h.line("\x00garbage\xff")
			}
			h.done(run)
		}, StatusOK, ""},
		{"garbage without end", func(h *fakeHarness, _ int64) {
			for h.ctx.Err() == nil {
				h.line("garbage")
			}
		}, StatusLost, "protocol error"},
		{"lines that are too long", func(h *fakeHarness, run int64) {
			h.line("%s", `{"t":"output","parts":[[1,"`+strings.Repeat("x", maxFrame)+`"]]}`)
			h.done(run)
		}, StatusOK, ""},
		{"the end of other runs", func(h *fakeHarness, run int64) {
			h.line(`{"t":"done","run":%d,"status":"ok","value":"forged"}`, run+1)
			h.line(`{"t":"done","run":%d,"status":"ok","value":"forged"}`, run-1)
			h.line(`{"t":"rich","run":%d,"mime":"image/png","data":"eA=="}`, run-1)
			h.done(run)
		}, StatusOK, ""},
		{"a run's end twice", func(h *fakeHarness, run int64) {
			h.done(run)
			h.line(`{"t":"done","run":%d,"status":"error","value":"forged"}`, run)
		}, StatusOK, ""},
		{"a status that is none", func(h *fakeHarness, run int64) {
			h.line(`{"t":"done","run":%d,"status":"timeout"}`, run)
		}, StatusError, ""},
		{"many tiny frames", func(h *fakeHarness, run int64) {
			for range 100_000 {
				h.line(`{"t":"x"}`)
			}
			h.done(run)
		}, StatusOK, ""},
		{"half a frame and death", func(h *fakeHarness, _ int64) {
			_, _ = io.WriteString(h.out, `{"t":"done","run":1,"sta`)
		}, StatusLost, "its container was stopped from outside (exit code 3)"},
		{"an end that names nonsense", func(h *fakeHarness, _ int64) {
			h.line(`{"t":"end","signal":"SIG<b>\u001b[2J%s"}`, strings.Repeat("x", 1000))
		}, StatusLost, "Python was ended by SIGb2Jxxxxxxxxxxxxxx"},
		{"an end for memory", func(h *fakeHarness, _ int64) {
			h.line(`{"t":"end","signal":"SIGKILL","oom":1}`)
		}, StatusLost, "it used more than its 512 MiB of memory and was killed"},
		{"a picture of a kind without end", func(h *fakeHarness, run int64) {
			h.line(`{"t":"rich","run":%d,"mime":%q,"data":"eA=="}`, run, strings.Repeat("m", 1000))
			h.done(run)
		}, StatusOK, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := launchFake(t, func(h *fakeHarness) int {
					if f, ok := h.until("run"); ok {
						tt.play(h, f.Run)
					}
					if tt.lost == "" {
						h.until("nothing")
					}
					return 3
				})
				res := s.Run(t.Context(), request("code"), nil)
				if res.Status != tt.status || (res.StateLost == "") != (tt.lost == "") || res.Value != "" {
					t.Errorf("got status %s, value %q, state lost %q; want %s, %q", res.Status, res.Value, res.StateLost, tt.status, tt.lost)
				}
				expectContains(t, "state lost", res.StateLost, tt.lost)
				if len(res.Rich) > 0 {
					t.Errorf("got %d pictures, want none", len(res.Rich))
				}
			})
		})
	}
}

func TestHostileHarnessForgesTheEndBeforeARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := launchFake(t, func(h *fakeHarness) int {
			h.line(`{"t":"done","run":1,"status":"ok","value":"forged"}`)
			return interpreter(h)
		})
		synctest.Wait()
		if res := s.Run(t.Context(), request("5"), nil); res.Value != "5" {
			t.Errorf("got %+v, want value 5", res)
		}
	})
}

// TestHostileHarnessMemory floods the daemon in every way in which a sandbox
// can make it keep something.
func TestHostileHarnessMemory(t *testing.T) {
	text := strings.Repeat("x", 60<<10)
	tests := []struct {
		name  string
		count int64 // frames
		bound int64 // bytes
		frame func(i, run int64) string
	}{
		{"output of the run", 400, 16 << 20, func(_, run int64) string { return outputFrame(run, text) }},
		{"output of other runs", 400, 16 << 20, func(i, _ int64) string { return outputFrame(i, text) }},
		{"small pieces of output", 30_000, 16 << 20, func(_, run int64) string { return outputFrame(run, "x") }},
		{"pictures", 600, maxRunRich + 8<<20, func(_, run int64) string {
			return `{"t":"rich","run":` + itoa(run) + `,"mime":"image/png","data":"` + strings.Repeat("eHh4", 20_000) + `"}`
		}},
		{"calls", 2000, maxCalls*20_000 + 16<<20, func(i, _ int64) string {
			return `{"t":"rpc","id":` + itoa(i) + `,"method":"m","params":"` + text[:20_000] + `"}`
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := make(chan struct{})
				s, _ := launchFake(t, func(h *fakeHarness) int {
					f, _ := h.until("run")
					go func() { _, _ = io.Copy(io.Discard, h.in) }()
					for i := range tt.count {
						h.line("%s", tt.frame(i+1, f.Run))
					}
					close(over)
					<-h.ctx.Done()
					return 0
				})
				s.calls.bind(rpcFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}))
				before := heap()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result := make(chan Result)
				go func() { result <- s.Run(ctx, request("flood"), nil) }()
				<-over
				if grown := heap() - before; grown > tt.bound {
					t.Errorf("the daemon keeps %d MiB of a flood, want at most %d", grown>>20, tt.bound>>20)
				}
				cancel()
				<-result
			})
		})
	}
}

func outputFrame(run int64, text string) string {
	return `{"t":"output","run":` + itoa(run) + `,"parts":[[1,"` + text + `"],[2,"e"]]}`
}

func itoa(n int64) string {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // a number
	}
	return string(b)
}

func heap() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

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
		for _, want := range []string{"bad_request", "too_large", "upstream"} {
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
		if got := <-busy; got != asked-maxCalls || most.Load() != maxCalls {
			t.Errorf("%d calls were refused and %d ran at once, want %d and %d", got, most.Load(), asked-maxCalls, maxCalls)
		}
		close(release)
	})
}

func TestHarnessThatReadsNothingIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := launchFake(t, func(h *fakeHarness) int {
			<-h.ctx.Done()
			return 0
		})
		code := strings.Repeat("x", 1<<20)
		for range 2 * writeQueue {
			if err := s.send(runFrame{T: "run", Code: code}); err != nil {
				expectContains(t, "error", err.Error(), "does not read its input")
				break
			}
		}
		<-s.Done()
		expectContains(t, "cause", s.Cause(), "it did not read its input")
	})
}

func TestLaunchErrors(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, e *enginetest.Memory, o Options) error
		want string
	}{
		{"an image that is not there", func(t *testing.T, e *enginetest.Memory, o Options) error {
			o.Spec.Image = "nowhere/image:1"
			return launchOnly(t, e, o)
		}, "launching sandbox: engine create: no such image: nowhere/image:1 (404)"},
		{"an engine that refuses to start", func(t *testing.T, e *enginetest.Memory, o Options) error {
			e.Fail("start", 1, nil)
			return launchOnly(t, e, o)
		}, "engine start: refused on request (500)"},
		{"an engine that refuses to attach", func(t *testing.T, e *enginetest.Memory, o Options) error {
			e.Fail("attach", 1, nil)
			return launchOnly(t, e, o)
		}, "engine attach: refused on request (500)"},
		{"an image without Python", func(t *testing.T, e *enginetest.Memory, o Options) error {
			e.Fail("start", 1, &runtime.EngineError{Op: "start", Status: 400, Msg: `exec: "python3": executable file not found in $PATH`})
			return launchOnly(t, e, o)
		}, "has no python3 on its PATH: use an image with Python 3.9 or later"},
		{"an engine that is gone", func(t *testing.T, e *enginetest.Memory, o Options) error {
			e.SetUnreachable(true)
			defer e.SetUnreachable(false)
			return launchOnly(t, e, o)
		}, "container engine is unreachable"},
		{"a caller who hangs up", func(t *testing.T, e *enginetest.Memory, o Options) error {
			e.Delay("attach", time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := Launch(ctx, e, o)
			return err
		}, "context deadline exceeded"},
		{"a posture that falls short", func(t *testing.T, e *enginetest.Memory, o Options) error {
			o.attest = nil
			return launchOnly(t, e, o)
		}, "sandbox is not hardened as asked: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := fakeEngine(t, func(h *fakeHarness) int {
					h.start()
					return interpreter(h)
				})
				err := tt.run(t, e, fakeOptions())
				if err == nil {
					t.Fatal("the launch worked")
				}
				expectContains(t, "error", err.Error(), tt.want)
				expectNothing(t, e)
			})
		})
	}
}

func launchOnly(t *testing.T, e *enginetest.Memory, o Options) error {
	t.Helper()
	s, err := Launch(t.Context(), e, o)
	if err == nil {
		s.Close()
	}
	return err
}

func TestContainerThatCannotBeRemovedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fakeEngine(t, func(h *fakeHarness) int {
			h.start()
			return interpreter(h)
		})
		o := fakeOptions()
		var left []runtime.ID
		o.Abandon = func(id runtime.ID) { left = append(left, id) }
		s, err := Launch(t.Context(), e, o)
		if err != nil {
			t.Fatal(err)
		}
		e.SetUnreachable(true)
		s.Close()
		e.SetUnreachable(false)
		if len(left) != 1 || left[0] != s.container {
			t.Errorf("got %v as left over, want the container", left)
		}
		if err := e.Remove(t.Context(), s.container); err != nil {
			t.Error(err)
		}
		expectNothing(t, e)
	})
}

func TestDegradedLimitsAreSetByTheHarness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		configs := make(chan string, 1)
		e := fakeEngine(t, func(h *fakeHarness) int {
			h.boot()
			h.hello()
			line, err := h.in.ReadString('\n')
			if err == nil {
				configs <- line
			}
			h.line(`{"t":"ready"}`)
			return interpreter(h)
		})
		o := fakeOptions()
		o.attest = func(*Posture, runtime.Spec) ([]string, error) { return []string{degradedMemory, degradedPids}, nil }
		s, err := Launch(t.Context(), e, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		expectContains(t, "config", <-configs, `"limit_memory":536870912,"limit_pids":128`)
	})
}
