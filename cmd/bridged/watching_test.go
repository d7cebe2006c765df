package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/policy"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// told returns a text of what was told, all of it if there are n events.
func told(t *testing.T, w *watching, n int) string {
	t.Helper()
	mux := http.NewServeMux()
	ops.HandleEvents(mux, w.events)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?recent=1000", nil)
	out := &untilEvents{ResponseRecorder: httptest.NewRecorder(), left: n, enough: cancel}
	mux.ServeHTTP(out, r)
	return out.Body.String()
}

// untilEvents ends a stream after some events.
type untilEvents struct {
	*httptest.ResponseRecorder
	left   int
	enough func()
}

func (u *untilEvents) Write(p []byte) (int, error) {
	if u.left -= strings.Count(string(p), "event: "); u.left <= 0 {
		u.enough()
	}
	return u.ResponseRecorder.Write(p)
}

func TestEventsOfTheDaemonsParts(t *testing.T) {
	w := newWatching(nil, nil)
	since := time.Now().Add(-time.Minute)
	w.connected(bridge.SessionInfo{ID: "0123456789", PID: 7, CWD: "/p", Since: since})
	w.gone(bridge.SessionInfo{ID: "0123456789", ClientName: "x", ClientVersion: "2", Calls: 3, Since: since})
	w.engineFound(runtime.Info{Name: "podman", Version: "4.3.1", Endpoint: "unix:///p"})
	w.engineLost(errors.New("it is gone"))
	for _, e := range []sandbox.Event{
		{Kind: sandbox.EventMade, Sandbox: "s", Took: time.Second},
		{Kind: sandbox.EventLeased, Sandbox: "s", Took: 2 * time.Millisecond},
		{Kind: sandbox.EventPaused, Sandbox: "s"},
		{Kind: sandbox.EventResumed, Sandbox: "s"},
		{Kind: sandbox.EventEnded, Sandbox: "s", Took: time.Minute, Reason: sandbox.ReasonStuck, Detail: "it was stuck"},
		{Kind: sandbox.EventFailed, Took: time.Second, Failures: 2, Err: errors.New("no image")},
	} {
		w.sandbox(e)
	}
	w.server(proxy.ServerEvent{Kind: proxy.ServerStarted, Server: "fs", Took: time.Second})
	w.server(proxy.ServerEvent{Kind: proxy.ServerStarted, Server: "fs", Took: time.Second, Restart: true})
	w.server(proxy.ServerEvent{Kind: proxy.ServerStopped, Server: "fs", Took: time.Second})
	w.server(proxy.ServerEvent{Kind: proxy.ServerFailed, Server: "fs", Took: time.Second, Err: errors.New("it ended")})
	text := told(t, w, 14)
	for _, want := range []string{
		`"type":"session_opened","session":"01234567","pid":7,"cwd":"/p"}`,
		`"type":"session_closed","session":"01234567","client":"x 2","duration_ms":60`,
		`"type":"engine_found","detail":"podman 4.3.1 at unix:///p"}`,
		`"type":"engine_lost","detail":"it is gone"}`,
		`"type":"sandbox_made","sandbox":"s","duration_ms":1000}`,
		`"type":"sandbox_leased","sandbox":"s","waited_ms":2}`,
		`"type":"sandbox_paused","sandbox":"s"}`,
		`"type":"sandbox_resumed","sandbox":"s"}`,
		`"type":"sandbox_ended","sandbox":"s","reason":"stuck","detail":"it was stuck","duration_ms":60000}`,
		`"type":"pool_failed","detail":"no image","duration_ms":1000,"count":2}`,
		`"type":"server_started","server":"fs","reason":"first","duration_ms":1000}`,
		`"type":"server_started","server":"fs","reason":"restart","duration_ms":1000}`,
		`"type":"server_stopped","server":"fs","duration_ms":1000}`,
		`"type":"server_failed","server":"fs","detail":"it ended","duration_ms":1000}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
}

func TestEventsOfCallsThatWaitForAPerson(t *testing.T) {
	w, a := newWatching(nil, nil), &policy.Approvals{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.approvals(ctx, a) }()
	answered := make(chan error, 1)
	go func() {
		_, err := a.Ask(ctx, policy.Question{Session: "s", Client: "c", Server: "github", Tool: "create", Arguments: `{"a":"secret"}`}, time.Hour, nil)
		answered <- err
	}()
	told(t, w, 1)
	if err := a.Answer(a.List()[0].ID, policy.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	text := told(t, w, 2)
	cancel()
	<-done
	for _, kind := range []string{"waiting", "settled"} {
		if want := `"type":"approval_` + kind + `","session":"s","client":"c","server":"github","tool":"create","approval":"`; !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("arguments in:\n%s", text)
	}
}

func TestEveryEventOfAPartHasAType(t *testing.T) {
	types := ops.EventTypes()
	for _, e := range sandboxEvents {
		types = remove(t, types, e)
	}
	for _, e := range serverEvents {
		types = remove(t, types, e)
	}
	want := []ops.EventType{
		ops.SessionOpened, ops.SessionClosed, ops.RunBegun, ops.RunEnded, ops.CallBegun, ops.CallEnded,
		ops.EngineFound, ops.EngineLost, ops.ApprovalWaiting, ops.ApprovalSettled, ops.EventsLost,
	}
	less := func(a, b ops.EventType) bool { return a < b }
	if diff := cmp.Diff(want, types, cmpopts.SortSlices(less)); diff != "" {
		t.Errorf("events of other parts (-want +got):\n%s", diff)
	}
}

func remove(t *testing.T, list []ops.EventType, e ops.EventType) []ops.EventType {
	t.Helper()
	var rest []ops.EventType
	for _, v := range list {
		if v != e {
			rest = append(rest, v)
		}
	}
	if len(rest) != len(list)-1 {
		t.Errorf("%q is not in the list of events, or twice", e)
	}
	return rest
}
