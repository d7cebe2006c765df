package sandbox

import (
	"context"
	"encoding/json"
	"io"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHostileHarnessInRun is about what a harness sends in a run, and what
// becomes of it.
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
		{"half a frame and death", func(h *fakeHarness, _ int64) {
			_, _ = io.WriteString(h.out, `{"t":"done","run":1,"sta`)
		}, StatusLost, "its container was stopped from outside (exit code 3)"},
		{"an end that names nonsense", func(h *fakeHarness, _ int64) {
			h.line(`{"t":"end","signal":"SIG<b>\u001b[2J%s"}`, strings.Repeat("x", 1000))
		}, StatusLost, "Python was ended by SIGb2Jxxxxxxxxxxxxxx"},
		{"an end for memory", func(h *fakeHarness, _ int64) {
			h.line(`{"t":"end","signal":"SIGKILL","oom":1}`)
		}, StatusLost, "it used more than its 512 MiB of memory and was killed"},
		{"an exit after a child was killed for memory", func(h *fakeHarness, _ int64) {
			h.line(`{"t":"end","code":7,"oom":1}`)
		}, StatusLost, "Python ended with exit code 7"},
		{"an end of the harness itself", func(h *fakeHarness, _ int64) {
			h.line(`{"t":"end","code":70,"why":"OSError: [Errno 9] Bad <file> descriptor"}`)
		}, StatusLost, "the code broke the program that runs it (OSError Errno 9 Bad file descriptor)"},
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

// TestTimeLimitHoldsWhenNobodyReads lets a sandbox make calls that are refused,
// and read none of the answers.
func TestTimeLimitHoldsWhenNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := launchFake(t, func(h *fakeHarness) int {
			h.until("run")
			for h.ctx.Err() == nil {
				h.line(`{"t":"rpc","id":1,"method":"m","params":{}}`)
			}
			return 0
		})
		res := s.Run(t.Context(), Request{Code: "flood", Timeout: time.Second}, nil)
		if most := time.Second + interruptGrace + time.Second; res.Status != StatusTimeout || res.Duration > most {
			t.Errorf("got %s after %s, want %s after at most %s", res.Status, res.Duration, StatusTimeout, most)
		}
	})
}

func TestFramesAreTakenAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const frames = 100_000
		s, _ := launchFake(t, func(h *fakeHarness) int {
			f, _ := h.until("run")
			for range frames {
				h.line(`{"t":"x"}`)
			}
			h.done(f.Run)
			return interpreter(h)
		})
		res := s.Run(t.Context(), request("flood"), nil)
		if least := (frames - frameBurst) / frameRate * time.Second; res.Status != StatusOK || res.Duration < least {
			t.Errorf("got %s after %s, want %s after at least %s", res.Status, res.Duration, StatusOK, least)
		}
	})
}

func TestPicturesPastTheBoundAreLeftOut(t *testing.T) {
	r := &run{id: 1, done: make(chan struct{})}
	for range 10 {
		r.take(inFrame{T: "rich", Run: 1, MIME: "image/png", Data: make([]byte, 6<<20)})
	}
	if got, want := len(r.res.Rich), maxRunRich/(6<<20); got != want {
		t.Errorf("got %d pictures of 6 MiB, want %d", got, want)
	}
	r = &run{id: 1, done: make(chan struct{})}
	for range 1000 {
		r.take(inFrame{T: "rich", Run: 1, MIME: "image/png"})
	}
	if got := len(r.res.Rich); got != maxPictures {
		t.Errorf("got %d empty pictures, want %d", got, maxPictures)
	}
}

func TestOutputBetweenRunsIsBoundedAndCounted(t *testing.T) {
	s := Sandbox{orphans: NewRecord(maxOrphanOutput)}
	const pieces, size = 1000, 1000
	for i := range pieces {
		s.keepOrphan(Output{Stream: 1 + i%2, Text: strings.Repeat("x", size)})
	}
	var kept, cut int64
	for _, o := range s.orphans.Take() {
		kept += int64(len(o.Text))
		cut += o.Cut
	}
	if kept > maxOrphanOutput || kept+cut != pieces*size {
		t.Errorf("got %d bytes kept and %d cut, want at most %d and %d in all", kept, cut, maxOrphanOutput, pieces*size)
	}
}

func TestOutputOfOtherRunsIsBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := launchFake(t, func(h *fakeHarness) int {
			f, _ := h.until("run")
			h.line("%s", outputFrame(f.Run, "mine"))
			h.line("%s", outputFrame(f.Run-1, "not mine"))
			h.done(f.Run)
			return interpreter(h)
		})
		for _, o := range s.Run(t.Context(), request("code"), nil).Output {
			if strings.Contains(o.Text, "not") != o.Background && o.Stream == Stdout {
				t.Errorf("got %+v, want background output from the other run alone", o)
			}
		}
	})
}

func TestInterruptLeavesARunThatHasJustEnded(t *testing.T) {
	r := &run{id: 1, done: make(chan struct{})}
	close(r.done)
	s := Sandbox{out: make(chan []byte, 1)}
	if got := s.interrupt(r, StatusTimeout, "why"); got != "" || len(s.out) != 0 {
		t.Errorf("got status %q and %d frames, want neither", got, len(s.out))
	}
}

func TestCloseWaitsForAnotherClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := launchFake(t, interpreter)
		e.Delay("remove", time.Second)
		go s.Close()
		synctest.Wait()
		s.Close()
		expectNothing(t, e)
		e.Delay("remove", 0)
	})
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

// What a sandbox says of a value as JSON is taken only if it is JSON, of a
// bounded size, and may be of any value but is never looked at.
func TestHostileHarnessForgesData(t *testing.T) {
	for _, tt := range []struct{ name, json, want string }{
		{"JSON", `{"a":[1]}`, `{"a":[1]}`},
		{"no JSON", `{"a":`, ""},
		{"nothing", "", ""},
		{"two values", "1 2", ""},
		{"much", `"` + strings.Repeat("x", maxData) + `"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := launchFake(t, func(h *fakeHarness) int {
					if f, ok := h.until("run"); ok {
						h.line(`{"t":"done","run":%d,"status":"ok","value":"v","json":%q}`, f.Run, tt.json)
					}
					h.until("nothing")
					return 3
				})
				res := s.Run(t.Context(), Request{Code: "v", Timeout: time.Second, Data: true}, nil)
				if string(res.Data) != tt.want || res.Value != "v" {
					t.Errorf("got %.40s for %s, want %.40s", res.Data, res.Value, tt.want)
				}
			})
		})
	}
}
