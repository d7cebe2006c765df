package sandbox

import (
	"context"
	"testing"
	"time"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// hang is how long nothing in these tests takes.
const hang = time.Minute

// localOptions launch the real harness as a process of this machine, which
// can't be attested.
func localOptions(t testing.TB) Options {
	t.Helper()
	spec := runtime.DefaultSpec("python")
	spec.Env = map[string]string{"HOME": t.TempDir(), "MPLCONFIGDIR": t.TempDir()}
	return Options{
		Spec: spec, Boot: images.Boot(), Payload: images.Payload(),
		attest: func(*Posture, runtime.Spec) ([]string, error) { return nil, nil },
	}
}

func launchLocal(t testing.TB) *Sandbox {
	t.Helper()
	e := enginetest.NewMemory(t, enginetest.Options{})
	e.AddImage("python", nil)
	s, err := Launch(t.Context(), e, localOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestRunKeepsVariables(t *testing.T) {
	s := launchLocal(t)
	s.Run(context.Background(), Request{Code: "x = 20", Timeout: 10 * time.Second}, nil)
	res := s.Run(context.Background(), Request{Code: "print('hi')\nx + 1", Timeout: 10 * time.Second}, nil)
	if res.Status != StatusOK || res.Value != "21" {
		t.Errorf("got %+v, want value 21", res)
	}
	if len(res.Output) != 1 || res.Output[0].Text != "hi\n" {
		t.Errorf("got output %+v, want hi", res.Output)
	}
}
