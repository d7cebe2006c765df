//go:build integration

package chaos

import (
	"reflect"
	"testing"
)

func TestTheModelKnowsWhatMayBe(t *testing.T) {
	var m model
	m.fresh()
	one := state{}.after(5)
	if err := m.answer(5, one); err != nil {
		t.Error(err)
	}
	m.unknown(7)
	if m.certain() {
		t.Error("a step that may have run leaves it certain")
	}
	for _, wrong := range []state{{}, one.after(7).after(7), {2, one.after(7).chain + 1}} {
		if err := m.answer(0, wrong); err == nil {
			t.Errorf("%v was taken for right", wrong)
		}
	}
	if err := m.answer(0, one.after(7)); err != nil || !m.certain() {
		t.Errorf("a step that had run: %v", err)
	}
	m.fresh()
	if err := m.answer(0, one); err == nil {
		t.Error("a lost session still has its state")
	}
}

func TestTheSameSeedGivesTheSamePlan(t *testing.T) {
	if a, b := newPlan(7).deck(), newPlan(7).deck(); !reflect.DeepEqual(a, b) {
		t.Errorf("got %v and %v", a, b)
	}
	if a, b := newPlan(7).deck(), newPlan(8).deck(); reflect.DeepEqual(a, b) {
		t.Errorf("two seeds give %v", a)
	}
}
