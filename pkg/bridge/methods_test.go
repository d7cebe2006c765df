package bridge

import (
	"context"
	"encoding/json"
	"testing"
)

// A named answers with its own name and the method.
type named string

func (n named) Call(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return json.Marshal(string(n) + " " + method + string(params))
}

func TestMethodsAreAnsweredByWhomTheyAreNamedFor(t *testing.T) {
	m := Methods{"": named("servers"), "memory": named("memories")}
	for method, want := range map[string]string{
		"memory.save":  `"memories memory.save1"`,
		"memory":       `"memories memory1"`,
		"memories.all": `"servers memories.all1"`,
		"tools.call":   `"servers tools.call1"`,
		"complete":     `"servers complete1"`,
		"":             `"servers 1"`,
		".memory.save": `"servers .memory.save1"`,
	} {
		got, err := m.Call(t.Context(), method, json.RawMessage("1"))
		if err != nil || string(got) != want {
			t.Errorf("%q is answered with %s, %v; want %s", method, got, err, want)
		}
	}
}

// A reader is one of which every method reads.
type reader struct{ named }

func (reader) Repeatable(string, json.RawMessage) bool { return true }

func TestMethodsAreMadeAgainIfWhoAnswersSaysSo(t *testing.T) {
	m := Methods{"": named("servers"), "memory": reader{"memories"}}
	if !m.Repeatable("memory.load", nil) || m.Repeatable("tools.call", nil) {
		t.Error("what reads is asked of the wrong one")
	}
}
