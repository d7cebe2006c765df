package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// defaultPingTimeout is how long a server that has nothing else to do may take
// to answer a ping. Many do one thing at a time, and some go on with a call
// that was cancelled.
const defaultPingTimeout = 30 * time.Second

// keepAlive pings a server that is not used, until it ends. One that does not
// answer is ended: a call would only wait for it. One with a call under way is
// left alone, for the call has its own time limit.
func (b *backend) keepAlive(u *upstream) {
	every := cmp.Or(b.setting.KeepAlive, DefaultKeepAlive)
	if every < 0 {
		return
	}
	wake := time.NewTimer(every)
	defer wake.Stop()
	for {
		select {
		case <-u.dead:
			return
		case <-wake.C:
		}
		rest := every - time.Since(u.heard())
		if u.pending.Load() > 0 {
			rest = every
		}
		if rest <= 0 {
			b.ping(u)
			rest = every
		}
		wake.Reset(rest)
	}
}

// ping asks a server whether it is alive. Any answer says that it is, a refusal
// too; an error of the connection will be told to the next call.
func (b *backend) ping(u *upstream) {
	limit := b.proxy.opts.pingTimeout
	ctx, cancel := context.WithTimeoutCause(b.ctx, limit, errNoPong)
	defer cancel()
	began := time.Now()
	_, err := u.request(ctx, string(mcp.MethodPing), json.RawMessage("{}"))
	if err != nil && errors.Is(context.Cause(ctx), errNoPong) && u.heard().Before(began) {
		u.condemn(fmt.Sprintf("it did not answer a ping within %s", limit))
	}
}

// errNoPong is the cause of a ping's own time limit.
var errNoPong = errors.New("the ping's time limit")

// heard returns when the server last answered, or was started.
func (u *upstream) heard() time.Time {
	if at := u.answered.Load(); at > 0 {
		return u.since.Add(time.Duration(at))
	}
	return u.since
}

// condemn ends a server that can't be used any more, by the ladder.
func (u *upstream) condemn(verdict string) {
	u.stopOnce.Do(func() {
		u.verdict = verdict
		close(u.stopping)
	})
}
