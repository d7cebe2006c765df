package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/ops"
)

// portRetry is how long the daemon waits before it tries again to listen on a
// port that it can't have, as when the daemon that it replaces still has it.
const portRetry = 2 * time.Second

// tokenFile is where the token of the port for operations is.
func (c *config) tokenFile(p paths) string {
	return or(p.token, filepath.Join(p.state, "ops-token-"+p.mark()))
}

func (c *config) checkOps() error {
	if c.Ops.Listen == "" {
		return nil
	}
	if err := ops.CheckLoopback(string(c.Ops.Listen)); err != nil {
		return fmt.Errorf("ops.listen %q: %w", c.Ops.Listen, err)
	}
	return nil
}

// A port is the TCP port for operations.
type port struct {
	mu      sync.Mutex // guards the fields below
	address string     // "" while it does not listen
	err     error      // why it does not
}

func (p *port) set(address string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address, p.err = address, err
}

// describePort is the access for operations, for ops.
func (d *daemon) describePort() ops.Access {
	a := ops.Access{Socket: d.paths.ops, Profiles: bool(d.conf.Ops.PProf)}
	if d.conf.Ops.Listen == "" {
		return a
	}
	a.TokenFile = d.conf.tokenFile(d.paths)
	d.port.mu.Lock()
	defer d.port.mu.Unlock()
	a.Address = d.port.address
	if a.Address != "" {
		a.URL = ops.PageURL(a.Address)
	}
	if d.port.err != nil {
		a.Error = d.port.err.Error()
	}
	return a
}

// servePort answers on the configured port until ctx ends. A port that can't be
// had keeps nobody from working: it is tried again, and status shows it.
func (d *daemon) servePort(ctx context.Context) {
	if d.conf.Ops.Listen == "" {
		return
	}
	for told := ""; ctx.Err() == nil; {
		err := d.servePortOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		d.port.set("", err)
		if err.Error() != told {
			told = err.Error()
			d.log.Error().Err(err).Msg("serve operations on a port")
		}
		select {
		case <-ctx.Done():
		case <-time.After(portRetry):
		}
	}
}

func (d *daemon) servePortOnce(ctx context.Context) error {
	token, err := ops.ReadToken(d.conf.tokenFile(d.paths))
	if err != nil {
		return err
	}
	ln, err := ops.ListenLoopback(ctx, string(d.conf.Ops.Listen))
	if err != nil {
		return err
	}
	d.port.set(ln.Addr().String(), nil)
	d.log.Info().Str("address", ln.Addr().String()).Str("token_file", d.conf.tokenFile(d.paths)).Msg("serve operations on a port")
	if err := ops.Serve(ctx, ln, ops.Guard(d.watched(), token)); err != nil {
		return err
	}
	return errors.New("the port was closed")
}

// operations answers people and machines on the socket.
func (d *daemon) operations() http.Handler {
	mux := d.watched()
	ops.HandleCatalog(mux, catalogue{d})
	ops.HandleStop(mux, d.stop)
	mux.HandleFunc("POST /replace", d.handOver)
	return ops.Headers(mux)
}

// watched is what is answered on the socket and on the port. The lists of tools
// are not: who asks for them sends an environment.
func (d *daemon) watched() *http.ServeMux {
	mux := ops.Handler(d.fullStatus, d.readiness)
	ops.HandleEvents(mux, d.watch.events)
	ops.HandleMetrics(mux, d.watch.metrics)
	ops.HandleApprovals(mux, d.pending, d.answer)
	ops.HandlePins(mux, d.changes, d.accept)
	ops.HandlePage(mux)
	if d.conf.Ops.PProf {
		ops.HandleProfiles(mux)
	}
	return mux
}
