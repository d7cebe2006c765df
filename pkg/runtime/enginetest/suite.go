package enginetest

import (
	goruntime "runtime"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// Test is the behaviour suite of an engine that holds image, which has
// python3 and the label [runtime.LabelImage]. It leaves no container and no
// goroutine behind, and says so if the engine does.
func Test(t *testing.T, e runtime.Engine, image string) {
	before := goroutines()
	t.Run("an engine says what it is", func(t *testing.T) { testInfo(newLab(t, e, image)) })
	for _, group := range [][]behaviour{streamBehaviours, lifeBehaviours, pauseBehaviours, serverBehaviours, imageBehaviours} {
		for _, b := range group {
			t.Run(b.name, func(t *testing.T) {
				lab := newLab(t, e, image)
				b.test(lab)
				lab.checkEmpty()
			})
		}
	}
	checkGoroutines(t, e, before)
}

// A behaviour is something that every engine does.
type behaviour struct {
	name string // a sentence
	test func(*lab)
}

func testInfo(l *lab) {
	info, err := l.e.Info(l.ctx)
	if err != nil {
		l.Fatalf("Info: %v", err)
	}
	if info.Name == "" || info.Version == "" || info.APIVersion == "" || info.Endpoint == "" {
		l.Errorf("Info = %+v: a field is empty", info)
	}
	if v := info.CgroupVersion; v != "1" && v != "2" {
		l.Errorf("CgroupVersion = %q, want 1 or 2", v)
	}
}

// settleTime bounds the wait for goroutines that are about to end.
const settleTime = 20 * time.Second

func goroutines() int { return goruntime.NumGoroutine() }

func checkGoroutines(t *testing.T, e runtime.Engine, before int) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for end := time.Now().Add(settleTime); goroutines() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			n := goruntime.Stack(stacks, true)
			t.Fatalf("%d goroutines, %d before:\n%s", goroutines(), before, stacks[:n])
		}
	}
}
