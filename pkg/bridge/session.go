package bridge

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/tracing"
)

const (
	// drainGrace is how long requests may finish after the agent closed its
	// side, so that a script which pipes requests in gets its answers.
	drainGrace = time.Second

	// flushGrace bounds the writing of last answers.
	flushGrace = time.Second

	// endGrace bounds the wait for requests that were cancelled and for a
	// client that does not take their answers; then its connection is closed.
	endGrace = 10 * time.Second
)

// A session is one connection of a shim.
type session struct {
	id     string
	hello  Hello
	since  time.Time
	conn   net.Conn
	srv    *Server
	log    zerolog.Logger
	mcp    *server.MCPServer
	client *clientSession
	pys    *pythons

	questions *questions // ours to the client

	ctx    context.Context
	cancel context.CancelCauseFunc

	w        *writer
	slots    chan struct{} // holds one token per request under way
	requests sync.WaitGroup
	helpers  sync.WaitGroup
	counter  int64 // ids towards mcp-go; used by the reading goroutine alone
	calls    atomic.Int64
	toldLost atomic.Bool // the agent knows that its earlier session is gone
	toldMode atomic.Bool // it knows that the mode it asked for is none

	inherited []Remains         // of the Python sessions that an earlier daemon had for it
	resumed   bool              // it is one of an earlier daemon's
	resent    map[string]string // keys of the requests to come that it had, by id; used by the reading goroutine alone
	line      int64             // counts the lines after the hello; used by the reading goroutine alone

	lastTicket <-chan struct{} // of the call before the next; used by the reading goroutine alone

	filesPoke chan struct{} // has a token when the list of files has changed

	notes sync.Mutex // held while mcp-go's notifications are sent

	mu       sync.Mutex // guards inflight and what it holds
	inflight map[string]*request
}

// A request is one that is not answered yet.
type request struct {
	cancel    context.CancelCauseFunc
	cancelled bool
}

func newSession(ctx context.Context, srv *Server, conn net.Conn, hello Hello) *session {
	s := &session{
		id:        newSessionID(),
		hello:     hello,
		since:     time.Now(),
		conn:      conn,
		srv:       srv,
		slots:     make(chan struct{}, srv.opts.MaxRequests),
		inflight:  map[string]*request{},
		filesPoke: make(chan struct{}, 1),
		resent:    resents(hello),
	}
	s.claim(srv.opts.Registry)
	s.log = srv.opts.Logger.With().Str("session", s.id[:8]).Logger()
	s.client = newClientSession(s.id)
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.questions = newQuestions("bridged-"+s.id[:8], s.send)
	s.pys = newPythons(srv.opts.MaxPythons, s.openPython)
	s.mcp = newMCP(s)
	return s
}

func (s *session) openPython(name string) *python {
	log := s.log
	if name != "" {
		log = log.With().Str("python", name).Logger()
	}
	lane := newLane(s.ctx, name, &s.helpers, log)
	if r := s.srv.opts.Registry; r != nil {
		lane.onLate, lane.onHeard = func(key string) { r.Outlive(s.id, name, key) }, func(key string) { r.Heard(s.id, name, key) }
	}
	open := func(ctx context.Context) (Workspace, error) { return s.srv.open(ctx, s.hello, &Agent{s, lane}) }
	return &python{name: name, since: time.Now(), desk: newDesk(s.ctx, open, s.pokeFiles), lane: lane}
}

// newSessionID returns 144 random bits.
func newSessionID() string {
	var b [18]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// serve reads messages until the agent hangs up or the daemon shuts down, then
// ends what still runs and frees everything but the connection.
func (s *session) serve(lines *lineReader) {
	s.w = newWriter(s.conn, writeTimeout, maxQueued)
	ctx := s.mcp.WithContext(s.ctx, s.client)
	s.rejoin()
	s.helpers.Go(func() { s.pys.desk().prepare(s.log) }) // ends with s.ctx at the latest
	s.helpers.Go(s.announceFiles)                        // likewise
	err := s.read(ctx, lines)
	s.log.Debug().Err(err).Msg("session's input ended")
	if s.ctx.Err() == nil {
		s.drain()
	}
	s.cancel(errClientGone)
	end := time.AfterFunc(endGrace, func() { _ = s.conn.Close() })
	defer end.Stop()
	s.requests.Wait()
	s.helpers.Wait()
	s.sayEnd()
	s.w.close(flushGrace)
	s.pys.close()
}

// sayEnd tells the shim that its session ends with the daemon.
func (s *session) sayEnd() {
	if s.hello.Link == 0 || !errors.Is(context.Cause(s.ctx), errShutdown) {
		return
	}
	if err := s.w.send(endNotice); err != nil {
		s.log.Debug().Err(err).Msg("send end notice")
	}
}

// drain gives requests that are under way a moment to finish.
func (s *session) drain() {
	done := make(chan struct{})
	go func() { s.requests.Wait(); close(done) }() // ends with the requests
	t := time.NewTimer(drainGrace)
	defer t.Stop()
	select {
	case <-done:
	case <-s.ctx.Done():
	case <-t.C:
	case <-s.w.done: // nobody would hear the answers
	}
}

// read handles lines until there are no more and says why.
func (s *session) read(ctx context.Context, lines *lineReader) error {
	for {
		s.w.catchUp() // a client that reads no answers gets to ask no more
		line, err := lines.next()
		s.line++
		if err != nil && s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		var long *longLine
		if errors.As(err, &long) {
			s.refuse(&fault{id: long.id, code: codeInvalidRequest, text: fmt.Sprintf(
				"the message has %d bytes and the limit is %d; send less, for example read big data from a file or server inside the code",
				long.size, s.srv.opts.MaxMessage)})
			continue
		}
		if line = trimSpace(line); len(line) > 0 {
			s.handleLine(ctx, line)
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) handleLine(ctx context.Context, line []byte) {
	ms, faults := parseLine(line)
	for _, f := range faults {
		s.refuse(f)
	}
	for i, m := range ms {
		s.handle(ctx, m, i)
	}
}

func (s *session) refuse(f *fault) {
	s.srv.traffic.refused.Add(1)
	s.send(newFaultAnswer(f))
}

// send queues a message; nil is none.
func (s *session) send(v any) { s.sendThen(v, nil) }

// sendThen is send and calls then, unless that is nil, when the message has been
// written.
func (s *session) sendThen(v any, then func()) {
	if v == nil {
		return
	}
	line, err := encodeLine(v)
	if err != nil {
		s.log.Error().Err(err).Msg("encode message")
		return
	}
	if err := s.w.sendThen(line, then); err != nil {
		s.log.Debug().Err(err).Msg("send message")
	}
}

// handle deals with one message of the line at hand, of which it is that part.
// Only the reading goroutine calls it.
func (s *session) handle(ctx context.Context, m message, part int) {
	s.counter++
	switch {
	case m.method == "":
		if !s.questions.settle(m) {
			s.log.Debug().Bytes("id", m.id[:min(len(m.id), maxID)]).Msg("ignore answer to no question")
		}
	case m.id == nil && m.method == string(mcp.MethodNotificationCancelled):
		s.cancelRequest(m.params)
	case m.id == nil:
		s.dispatch(ctx, m, s.counter)
	case m.method == string(mcp.MethodInitialize):
		m.params = withVersion(m.params)
		s.send(s.dispatch(ctx, m, s.counter))
	case m.method == string(mcp.MethodPing):
		s.send(s.dispatch(ctx, m, s.counter))
	default:
		s.start(ctx, m, s.deal(m, part))
	}
}

// start handles a request on a goroutine of its own, if there is room.
func (s *session) start(ctx context.Context, m message, d *dealing) {
	select {
	case s.slots <- struct{}{}:
	default:
		s.refuse(&fault{m.id, codeBusy, fmt.Sprintf(
			"busy: %d requests of this connection are not answered yet; wait for one, then try again", cap(s.slots))})
		return
	}
	key := idKey(m.id)
	ctx, cancel := context.WithCancelCause(ctx)
	if !s.track(key, &request{cancel: cancel}) {
		cancel(nil)
		<-s.slots
		s.refuse(&fault{m.id, codeInvalidRequest, "a request with this id is not answered yet; use every id once"})
		return
	}
	n := s.counter
	var t *ticket
	if m.method == string(mcp.MethodToolsCall) {
		t = s.nextTicket()
		ctx = context.WithValue(ctx, ticketKey{}, t)
	}
	var span tracing.Span
	if t != nil {
		ctx, span = s.traced(ctx, m)
	}
	read := &reading{release: func() {}}
	ctx = context.WithValue(ctx, readingKey{}, read)
	ctx = context.WithValue(ctx, dealingKey{}, d)
	s.requests.Go(func() { // ends when the request is answered or its ctx has ended
		defer func() { <-s.slots }()
		defer func() { read.release() }()
		defer cancel(nil)
		defer t.pass()
		reply := s.dispatch(ctx, m, n)
		cancelled := s.untrack(key)
		endSpan(span, reply, cancelled)
		switch {
		case d.isLeft(), errors.Is(context.Cause(s.ctx), ErrLeave):
		case cancelled:
			d.delivered() // nobody wants to hear more
		default:
			s.sendThen(reply, d.delivered)
		}
	})
}

func (s *session) track(key string, r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.inflight[key]; taken {
		return false
	}
	s.inflight[key] = r
	return true
}

// untrack forgets a request and reports whether it was cancelled.
func (s *session) untrack(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.inflight[key]
	delete(s.inflight, key)
	return r.cancelled
}

// cancelRequest ends the request that a notification names. One that names none
// came too late, and is ignored as the protocol wants.
func (s *session) cancelRequest(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if err := json.Unmarshal(params, &p); err != nil || !legalID(p.RequestID) {
		s.log.Debug().Err(err).Msg("cancellation without a request id")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.inflight[idKey(p.RequestID)]; ok {
		r.cancelled = true
		r.cancel(errCancelled)
	}
}

// dispatch handles a message, or has mcp-go do it, and returns the answer under
// the message's own id. A panic is an internal error of that request alone.
func (s *session) dispatch(ctx context.Context, m message, n int64) (reply any) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Str("method", m.method).Msg("handle message")
			reply = newFaultAnswer(&fault{m.id, codeInternal, "internal error of bridged; its log has the details"})
		}
	}()
	ctx = withProgressToken(ctx, m)
	if req, ok := directCall(m); ok {
		return answer{JSONRPC: "2.0", ID: m.id, Result: s.call(ctx, req)}
	}
	relayed := func() {}
	if m.method == string(mcp.MethodSubscriptionsListen) {
		s.client.listen(n, newSubscription(m))
		defer s.client.listen(n, nil)
		relayed = s.relay()
		defer relayed()
	}
	resp := s.mcp.HandleMessage(ctx, m.renumbered(n))
	relayed()
	s.sendNotes() // what mcp-go sent before it answered goes first
	switch r := resp.(type) {
	case mcp.JSONRPCResponse:
		return answer{JSONRPC: "2.0", ID: m.id, Result: withQuestions(ctx, s.client.restore(r.Result))}
	case mcp.JSONRPCError:
		if read, ok := ctx.Value(readingKey{}).(*reading); ok && read.code != 0 {
			r.Error.Code = read.code
		}
		return answer{JSONRPC: "2.0", ID: m.id, Error: r.Error}
	case nil:
		return nil
	}
	return newFaultAnswer(&fault{m.id, codeInternal, fmt.Sprintf("internal error of bridged: an answer of type %T", resp)})
}

// sendNotes sends the notifications of mcp-go that are waiting. It sends some
// only while it handles a request, and relay has those of one that lasts. The
// lock makes a request whose note another one took wait until that is sent.
func (s *session) sendNotes() {
	s.notes.Lock()
	defer s.notes.Unlock()
	for {
		select {
		case n := <-s.client.notes:
			s.send(s.client.restoreNote(n))
		default:
			return
		}
	}
}

func (s *session) info() SessionInfo {
	who := s.client.GetClientInfo()
	pythons := s.pys.infos()
	running := 0
	for _, p := range pythons {
		running += p.Running
	}
	return SessionInfo{
		ID:            s.id,
		ClientName:    who.Name,
		ClientVersion: who.Version,
		PID:           s.hello.PID,
		CWD:           s.hello.CWD,
		Since:         s.since,
		Calls:         s.calls.Load(),
		Running:       running,
		Pythons:       pythons,
	}
}
