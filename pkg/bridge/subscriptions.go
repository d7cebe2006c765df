package bridge

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// A subscription is a subscriptions/listen request, which lasts until the client
// cancels it.
type subscription struct {
	id    json.RawMessage // the agent's own
	files bool            // it wants to know of changes in resources/list
	acked bool            // the client knows that it listens; nothing may come before
}

// newSubscription reads what a request wants to hear.
func newSubscription(m message) *subscription {
	var p mcp.SubscriptionsListenParams
	_ = json.Unmarshal(m.params, &p) // mcp-go refuses what can't be read
	return &subscription{id: m.id, files: p.Notifications.ResourcesListChanged}
}

// listen notes the subscription that mcp-go knows as n; nil forgets it.
func (c *clientSession) listen(n int64, l *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l == nil {
		delete(c.subscriptions, n)
		return
	}
	c.subscriptions[n] = l
}

// foundLocked returns the subscription v, a number of ours that went through
// mcp-go; nil if there is none.
func (c *clientSession) foundLocked(v any) *subscription {
	n, ok := v.(float64)
	if !ok {
		return nil
	}
	return c.subscriptions[int64(n)]
}

// restore puts the real subscription id into a result.
func (c *clientSession) restore(result any) any {
	r, ok := result.(mcp.SubscriptionsListenResult)
	if !ok || r.Meta == nil {
		return result
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.foundLocked(r.Meta.AdditionalFields[mcp.MetaKeySubscriptionID]); l != nil {
		r.Meta.SetSubscriptionID(l.id)
	}
	return r
}

// restoreNote puts the real subscription id into a notification.
func (c *clientSession) restoreNote(n mcp.JSONRPCNotification) mcp.JSONRPCNotification {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.foundLocked(n.Params.Meta[mcp.MetaKeySubscriptionID])
	if l == nil {
		return n
	}
	n.Params.Meta[mcp.MetaKeySubscriptionID] = l.id
	if n.Method == mcp.MethodNotificationSubscriptionsAcknowledged {
		l.acked = true
	}
	return n
}

// filesChanged are the notifications that tell this client that resources/list
// has another answer now: one for a client that has initialized, and one for
// each subscription that asked for it.
func (c *clientSession) filesChanged() []mcp.JSONRPCNotification {
	c.mu.Lock()
	defer c.mu.Unlock()
	note := func(meta map[string]any) mcp.JSONRPCNotification {
		return mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
			Method: mcp.MethodNotificationResourcesListChanged, Params: mcp.NotificationParams{Meta: meta},
		}}
	}
	var list []mcp.JSONRPCNotification
	if c.initialized && c.version != "" && !mcp.IsModernProtocol(c.version) { // not just by mcp-go, for a later era
		list = append(list, note(nil))
	}
	for _, n := range slices.Sorted(maps.Keys(c.subscriptions)) {
		if l := c.subscriptions[n]; l.files && l.acked {
			list = append(list, note(map[string]any{mcp.MetaKeySubscriptionID: l.id}))
		}
	}
	return list
}

// pokeFiles says that there may be other files now. It never blocks.
func (s *session) pokeFiles() {
	select {
	case s.filesPoke <- struct{}{}:
	default: // one is waiting, and will tell of this change too
	}
}

// announceFiles tells the client of changes, until the connection ends.
func (s *session) announceFiles() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.filesPoke:
		}
		s.notes.Lock()
		for _, n := range s.client.filesChanged() {
			s.send(n)
		}
		s.notes.Unlock()
		pause(s.ctx, filesPause)
	}
}

// relay sends mcp-go's notifications while it handles a request that lasts. The
// caller must call end when that is over, which waits for the last one.
func (s *session) relay() (end func()) {
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { // ends with stop
		for {
			select {
			case <-stop:
				return
			case n := <-s.client.notes:
				s.notes.Lock()
				s.send(s.client.restoreNote(n))
				s.notes.Unlock()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(stop)
		done.Wait()
	})
}
