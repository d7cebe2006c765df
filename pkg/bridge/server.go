package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/tracing"
)

// Defaults of [Options].
const (
	DefaultMaxCode     = 4 << 20
	DefaultMaxMessage  = 16 << 20
	DefaultMaxRequests = 64
	DefaultMaxSessions = 256
	DefaultMaxPythons  = 16
	DefaultMaxTokens   = 4000
)

// Options configure a [Server]. Zero fields have the defaults written beside
// them.
type Options struct {
	Version     string   // of this release
	MaxCode     int      // bytes of code in a call; 0 means DefaultMaxCode
	MaxMessage  int      // bytes of a message from an agent; 0 means DefaultMaxMessage
	MaxRequests int      // requests at once in a session; 0 means DefaultMaxRequests
	MaxSessions int      // sessions at once; 0 means DefaultMaxSessions
	MaxPythons  int      // Python sessions of one connection, the default one included; 0 means DefaultMaxPythons
	Data        []string // files and folders that sandboxes have from the user, to tell agents of

	// Registry has the sessions outlive the daemon; nil has them end with it.
	Registry Registry

	// Mode returns the form of results for a client by the name that it gives
	// itself, which may be empty; nil is Compact for all. It may be called from
	// several goroutines.
	Mode func(client string) Mode

	// MaxTokens returns how many tokens the text of a result may cost a client,
	// likewise; nil is DefaultMaxTokens for all.
	MaxTokens func(client string) int

	// Connected and Gone are told of sessions that begin and have ended. They
	// must not block; nil is nobody.
	Connected, Gone func(SessionInfo)

	// Saved is told what each result does not cost, likewise.
	Saved func(Savings)

	YieldAfter time.Duration  // when a call without progress is answered though its code still runs; 0 means never
	Logger     zerolog.Logger // the zero value writes nothing
	Tracer     tracing.Tracer // begins the trace of each call; nil is none
}

func (o Options) withDefaults() Options {
	o.MaxCode = cmp.Or(o.MaxCode, DefaultMaxCode)
	o.MaxMessage = cmp.Or(o.MaxMessage, DefaultMaxMessage)
	o.MaxRequests = cmp.Or(o.MaxRequests, DefaultMaxRequests)
	o.MaxSessions = cmp.Or(o.MaxSessions, DefaultMaxSessions)
	o.MaxPythons = cmp.Or(o.MaxPythons, DefaultMaxPythons)
	if o.MaxTokens == nil {
		o.MaxTokens = func(string) int { return DefaultMaxTokens }
	}
	return o
}

// Why sessions and requests end.
var (
	errClientGone = errors.New("the agent hung up")
	errShutdown   = errors.New("the daemon is shutting down")
	errCancelled  = errors.New("cancelled by the agent")
)

// acceptPause is the wait after an accept that ran out of file descriptors.
const acceptPause = 100 * time.Millisecond

// A Server serves agents. Make one with [NewServer].
type Server struct {
	open  Opener
	opts  Options
	reads chan struct{} // holds a token per file in memory

	traffic traffic

	mu       sync.Mutex // guards sessions
	sessions map[*session]struct{}
}

// NewServer returns a Server whose sessions run code in what open returns.
func NewServer(open Opener, opts Options) *Server {
	return &Server{open: open, opts: opts.withDefaults(), reads: make(chan struct{}, maxReadsAtOnce), sessions: map[*session]struct{}{}}
}

// Serve accepts connections from ln, one session each, until ctx ends or ln
// fails. Then it closes ln, cancels what runs, tells the agents, and returns
// when every session is closed. The error is nil if ctx ended. When its cause is
// [ErrLeave] the agents are told nothing, and nothing of theirs is forgotten.
func (s *Server) Serve(parent context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer cancel(errShutdown)
	defer context.AfterFunc(parent, func() { cancel(whyEnded(parent)) })()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() }) // Accept reports it
	defer stop()
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			sessions.Go(func() { s.serveConn(ctx, conn) }) // ends with conn or ctx
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accepting agents: %w", err)
		default:
			s.opts.Logger.Warn().Err(err).Msg("accept agent")
			pause(ctx, acceptPause)
		}
	}
}

// whyEnded returns what ends the sessions with a context.
func whyEnded(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrLeave) {
		return ErrLeave
	}
	return errShutdown
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// serveConn owns conn.
func (s *Server) serveConn(ctx context.Context, conn net.Conn) {
	conn = countedConn{conn, &s.traffic}
	defer conn.Close() //nolint:errcheck // it was written to or is broken
	hangUp := context.AfterFunc(ctx, func() { _ = conn.Close() })
	lines := newLineReader(conn, MaxHello)
	hello, err := readHello(conn, lines)
	if !hangUp() {
		return
	}
	if errors.Is(err, io.EOF) {
		return // somebody looked whether we are here
	}
	if err != nil {
		s.refuse(conn, err)
		return
	}
	lines.max = s.opts.MaxMessage
	ses := newSession(ctx, s, conn, hello)
	defer ses.cancel(errClientGone) // of one that is refused; else it has ended by then
	// From here on a shutdown only ends the reading, so that answers get out. It
	// ends with the session's context and not with ctx, whose end reaches that in
	// no order: reading that ends first would count as the agent's hanging up.
	stop := context.AfterFunc(ses.ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := s.admit(ses); err != nil {
		s.refuse(conn, err)
		return
	}
	defer s.forget(ses)
	if r := s.opts.Registry; r != nil {
		r.Open(ses.id, hello)
		defer func() {
			if !errors.Is(context.Cause(ses.ctx), ErrLeave) {
				r.Close(ses.id)
			}
		}()
	}
	if err := s.greet(conn, ses.id); err != nil {
		s.opts.Logger.Debug().Err(err).Msg("greet shim")
		return
	}
	log := s.opts.Logger.With().Str("session", ses.id[:8]).Logger()
	log.Info().Int("pid", hello.PID).Str("cwd", hello.CWD).Bool("resumed", ses.resumed).Msg("agent connected")
	if s.opts.Connected != nil {
		s.opts.Connected(ses.info())
	}
	ses.serve(lines)
	log.Info().Int64("calls", ses.calls.Load()).Msg("agent gone")
	if s.opts.Gone != nil {
		s.opts.Gone(ses.info())
	}
}

func (s *Server) admit(ses *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= s.opts.MaxSessions {
		return fmt.Errorf("%d sessions are open, which is the limit; close an agent and try again", len(s.sessions))
	}
	s.sessions[ses] = struct{}{}
	return nil
}

func (s *Server) forget(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ses)
}

func (s *Server) greet(conn net.Conn, id string) error {
	return writeWelcome(conn, welcome{Wire: WireVersion, Version: s.opts.Version, Session: id, Resumes: s.opts.Registry != nil})
}

// refuse tells a shim why it is not served.
func (s *Server) refuse(conn net.Conn, why error) {
	s.opts.Logger.Warn().Err(why).Msg("refuse shim")
	if err := writeWelcome(conn, welcome{Wire: WireVersion, Error: why.Error()}); err != nil {
		s.opts.Logger.Debug().Err(err).Msg("tell shim why")
	}
}

func writeWelcome(conn net.Conn, w welcome) error {
	line, err := encodeLine(w)
	if err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(helloTimeout)); err != nil {
		return fmt.Errorf("answering hello: %w", err)
	}
	if _, err := conn.Write(line); err != nil {
		return fmt.Errorf("answering hello: %w", err)
	}
	return nil
}

// ProtocolVersions returns the versions of the protocol that agents may speak,
// the newest first.
func ProtocolVersions() []string { return slices.Clone(mcp.ValidProtocolVersions) }

// SessionInfo is what is known of a session, for people who watch over it.
type SessionInfo struct {
	ID            string
	ClientName    string // as the agent said; "" before it has
	ClientVersion string
	PID           int    // of the shim
	CWD           string // of the agent
	Since         time.Time
	Calls         int64 // of run_python, begun
	Running       int   // of run_python, now, queued ones and those whose call was answered counted
	Pythons       []PythonInfo
}

// Sessions returns the open sessions, the oldest first.
func (s *Server) Sessions() []SessionInfo {
	s.mu.Lock()
	infos := make([]SessionInfo, 0, len(s.sessions))
	for ses := range s.sessions {
		infos = append(infos, ses.info())
	}
	s.mu.Unlock()
	slices.SortFunc(infos, func(a, b SessionInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return infos
}
