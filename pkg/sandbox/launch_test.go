package sandbox

import (
	"bytes"
	"context"
	"io"
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
			framed := func(frame string) {
				_, _ = io.WriteString(h.out, "\x01\x00\x00\x00\x00\x00\x00"+string(rune(len(frame)+1))+frame+"\n")
			}
			framed(`{"t":"hello","nonce":"` + h.nonce + `","protocol":1,"posture":{}}`)
			h.frame() // config: the end of a harness that has not read it is another story
			framed(`{"t":"ready"}`)
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
			h.frame() // config: the end of a harness that has not read it is another story
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
			h.frame() // config: the end of a harness that has not read it is another story
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
		o.Others = 31
		o.attest = func(*Posture, runtime.Spec) ([]string, error) { return []string{degradedMemory, degradedPids}, nil }
		s, err := Launch(t.Context(), e, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		expectContains(t, "config", <-configs, `"limit_memory":536870912,"limit_pids":872`)
	})
}
