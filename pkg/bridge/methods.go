package bridge

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/bridged/bridged/pkg/sandbox"
)

// Methods says who answers the requests of a session's code, by what comes
// before the first dot of their method: "memory" answers memory.save. The one
// named "" answers all that no other is named for.
type Methods map[string]sandbox.RPC

var (
	_ sandbox.RPC        = Methods{}
	_ sandbox.Repeatable = Methods{}
)

// News is what a session's sandbox is told before each run, by what it is of: see
// [sandbox.SessionOptions]. Each returns JSON, nil if there is nothing to tell.
type News map[string]func(anew bool) json.RawMessage

// Tell collects the news.
func (n News) Tell(anew bool) map[string]json.RawMessage {
	told := map[string]json.RawMessage{}
	for what, news := range n {
		if text := news(anew); text != nil {
			told[what] = text
		}
	}
	return told
}

// Call has the one answer whose method it is, see [sandbox.RPC].
func (m Methods) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return m.of(method).Call(ctx, method, params)
}

// Repeatable asks the one that would answer, see [sandbox.Repeatable].
func (m Methods) Repeatable(method string, params json.RawMessage) bool {
	to, ok := m.of(method).(sandbox.Repeatable)
	return ok && to.Repeatable(method, params)
}

func (m Methods) of(method string) sandbox.RPC {
	kind, _, _ := strings.Cut(method, ".")
	if to, ok := m[kind]; ok {
		return to
	}
	return m[""]
}
