package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"
	"unicode/utf8"
)

// Limits of the greeting between shim and daemon.
const (
	WireVersion = 1
	MaxEnv      = 1 << 20 // bytes of names and values
	MaxHello    = 2 << 20 // bytes of the hello line; JSON may double what it quotes

	// helloTimeout bounds the wait for a hello. A shim sends it at once, so a
	// connection without one is no shim.
	helloTimeout = 10 * time.Second
)

// A Hello is what a shim says about itself and the agent that started it.
type Hello struct {
	Wire    int               `json:"bridged"`
	Version string            `json:"version"`
	PID     int               `json:"pid"`
	CWD     string            `json:"cwd"` // absolute
	Env     map[string]string `json:"env"`
	Omitted []string          `json:"omitted,omitempty"` // variables left out of Env
	Session string            `json:"session,omitempty"` // the one that it lost, if any
	Link    int               `json:"link,omitempty"`    // of the shim's connections, this one, from 1; 0 for a shim that goes to no other daemon
	Resent  []Resent          `json:"resent,omitempty"`  // requests that another daemon may have begun
}

// A Resent is a request that a shim sends again because the daemon that had it is
// gone.
type Resent struct {
	ID   json.RawMessage `json:"id"`
	Link int             `json:"link"` // on which of the shim's connections it was sent first
	Line int64           `json:"line"` // and in which line there, the one after the hello being 1
}

// welcome is the daemon's answer to a [Hello].
type welcome struct {
	Wire    int    `json:"bridged"`
	Version string `json:"version,omitempty"`
	Session string `json:"session,omitempty"`
	Resumes bool   `json:"resumes,omitempty"` // requests may be sent again
	Error   string `json:"error,omitempty"`
}

// endNotice tells a shim that its session ends for good, so that it looks for no
// other daemon until its agent wants something.
var endNotice = []byte(`{"jsonrpc":"2.0","method":"notifications/bridged/end"}` + "\n")

// readHello reads and checks the first line of a connection.
func readHello(conn net.Conn, lines *lineReader) (Hello, error) {
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return Hello{}, fmt.Errorf("reading hello: %w", err)
	}
	line, err := lines.next()
	var long *longLine
	switch {
	case errors.As(err, &long):
		return Hello{}, fmt.Errorf("the hello has %d bytes, more than %d", long.size, MaxHello)
	case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
		return Hello{}, fmt.Errorf("reading hello: %w", err)
	}
	h, err := parseHello(line)
	if err != nil {
		return Hello{}, err
	}
	return h, conn.SetReadDeadline(time.Time{})
}

func parseHello(line []byte) (Hello, error) {
	var h Hello
	if !utf8.Valid(line) {
		return h, errors.New("the hello is not UTF-8")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("the first line must be a hello such as {\"bridged\":1,...}; start the agent's side with bridge-shim: %v", err)
	}
	if h.Wire != WireVersion {
		return h, fmt.Errorf("the shim speaks version %d of the wire and this daemon %d; install bridged and bridge-shim of one release", h.Wire, WireVersion)
	}
	if !filepath.IsAbs(h.CWD) {
		return h, fmt.Errorf("the hello's cwd %q is not absolute", h.CWD)
	}
	size := 0
	for k, v := range h.Env {
		size += len(k) + len(v)
	}
	if size > MaxEnv {
		return h, fmt.Errorf("the hello's environment has %d bytes, more than %d", size, MaxEnv)
	}
	return h, nil
}
