//go:build integration

package chaos

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// A state is what a session's variables hold: how many steps have run, and a
// number that depends on each of them and on their order.
type state struct{ steps, chain int }

// modulus keeps the chain short; it is a prime, so that no step undoes another.
const modulus = 1_000_003

// after returns the state after a step; step 0 only looks.
func (s state) after(step int) state {
	if step == 0 {
		return s
	}
	return state{s.steps + 1, (s.chain*31 + step) % modulus}
}

// stepCode is Python that takes a step and tells the state. Middle is code that
// comes before the step and may set said.
func stepCode(step int, middle string) string {
	code := "said = ''\n" + middle + "\nsteps, chain = globals().get('steps', 0), globals().get('chain', 0)\n"
	if step != 0 {
		code += fmt.Sprintf("steps, chain = steps + 1, (chain * 31 + %d) %% %d\n", step, modulus)
	}
	return code + "print(f'<<{steps} {chain} {said}>>')"
}

var told = regexp.MustCompile(`<<(\d+) (\d+) (.*)>>`)

// parse reads what a step printed.
func parse(text string) (s state, said string, ok bool) {
	m := told.FindStringSubmatch(text)
	if m == nil {
		return state{}, "", false
	}
	s.steps, _ = strconv.Atoi(m[1]) // they are digits
	s.chain, _ = strconv.Atoi(m[2])
	return s, m[3], true
}

// A model knows in what states a session may be, by what its agent was told.
type model struct{ may map[state]bool }

// fresh says that the variables are gone, or were never there.
func (m *model) fresh() { m.may = map[state]bool{{}: true} }

// certain reports whether there is but one state.
func (m *model) certain() bool { return len(m.may) == 1 }

// unknown notes a step that may have run or not.
func (m *model) unknown(step int) {
	for s := range maps.Clone(m.may) {
		m.may[s.after(step)] = true
	}
}

// answer checks what a step told.
func (m *model) answer(step int, got state) error {
	var want []string
	for s := range m.may {
		if s.after(step) == got {
			m.may = map[state]bool{got: true}
			return nil
		}
		want = append(want, fmt.Sprint(s.after(step)))
	}
	slices.Sort(want)
	return fmt.Errorf("after step %d the session is at %v, want one of %v", step, got, want)
}
