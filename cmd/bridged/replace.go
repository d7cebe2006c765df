package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/bridged/bridged/pkg/bridge"
)

// handoverTime bounds each step of a handover of the sockets.
const handoverTime = 20 * time.Second

// The words of a handover. Its connection begins as a request of the operations'
// socket. Then the new daemon says that it is there, gets the sockets, and says
// that it has them; the old one leaves its sessions and ends.
const (
	upgradeSockets = "bridged-sockets"
	wordReady      = "ready\n"
	wordTaken      = "taken\n"
)

// handOver is the old daemon's side, of POST /replace. If anything goes wrong
// before the new daemon has the sockets, it goes on as if nothing had been asked.
func (d *daemon) handOver(w http.ResponseWriter, _ *http.Request) {
	if os.Getenv("NOTIFY_SOCKET") != "" {
		http.Error(w, "it runs as a service of systemd, which keeps the sockets itself: `systemctl --user restart bridged` replaces it, and no connection is refused", http.StatusConflict)
		return
	}
	if !d.handing.TryLock() {
		http.Error(w, "another daemon takes its place already", http.StatusConflict)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		d.handing.Unlock()
		http.Error(w, "the connection can't be used: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close() //nolint:errcheck // both sides know how it went
	if err := d.handSockets(conn, buffered.Reader); err != nil {
		bridge.Retake(d.sockets...)
		d.handing.Unlock()
		d.log.Warn().Err(err).Msg("hand sockets over to a new daemon")
		return
	}
	d.log.Info().Msg("sockets were handed over to a new daemon")
	d.replaced <- struct{}{} // once: the lock is not given up
}

func (d *daemon) handSockets(conn net.Conn, r *bufio.Reader) error {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("it was asked for over %s", conn.LocalAddr().Network())
	}
	if err := conn.SetDeadline(time.Now().Add(handoverTime)); err != nil {
		return err
	}
	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgradeSockets + "\r\n\r\n"
	if _, err := io.WriteString(conn, answer); err != nil {
		return err
	}
	if err := expect(r, wordReady); err != nil {
		return err
	}
	if err := bridge.HandOver(unix, d.sockets...); err != nil {
		return err
	}
	return expect(r, wordTaken)
}

// expect reads a word of a handover.
func expect(r *bufio.Reader, word string) error {
	got := make([]byte, len(word))
	if _, err := io.ReadFull(r, got); err != nil {
		return fmt.Errorf("waiting for the other side's %q: %w", word, err)
	}
	if string(got) != word {
		return fmt.Errorf("the other side said %q instead of %q", got, word)
	}
	return nil
}

// errNobody means that no daemon is there to be replaced.
var errNobody = errors.New("no daemon answers")

// takeSockets is the new daemon's side. The error is [errNobody] if there is none
// to be replaced.
func takeSockets(ctx context.Context, p paths) (shims, operators net.Listener, err error) {
	var dialer net.Dialer
	dialed, err := dialer.DialContext(ctx, "unix", p.ops)
	conn, ok := dialed.(*net.UnixConn)
	if err != nil || !ok {
		return nil, nil, fmt.Errorf("%w: %w", errNobody, err)
	}
	defer conn.Close() //nolint:errcheck // both sides know how it went
	list, err := askForSockets(conn, p)
	if err != nil {
		return nil, nil, fmt.Errorf("replacing the daemon at %s: %w", p.ops, err)
	}
	return list[0], list[1], nil
}

func askForSockets(conn *net.UnixConn, p paths) ([]net.Listener, error) {
	if err := conn.SetDeadline(time.Now().Add(handoverTime)); err != nil {
		return nil, err
	}
	const question = "POST /replace HTTP/1.1\r\nHost: bridged\r\nConnection: Upgrade\r\nUpgrade: " + upgradeSockets + "\r\nContent-Length: 0\r\n\r\n"
	if _, err := io.WriteString(conn, question); err != nil {
		return nil, err
	}
	// The daemon says nothing more until it is told to, so the reader takes in
	// none of what comes with the sockets.
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it has none, or was read
	if resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what there is of it
		if resp.StatusCode == http.StatusNotFound {
			return nil, errors.New("it is too old for that; end it with SIGTERM, then start this one")
		}
		return nil, fmt.Errorf("it refused (%s): %s", resp.Status, text)
	}
	if _, err := io.WriteString(conn, wordReady); err != nil {
		return nil, err
	}
	list, err := bridge.Receive(conn, p.socket, p.ops)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, wordTaken); err != nil {
		bridge.Yield(list...)
		for _, ln := range list {
			_ = ln.Close() // the error at hand says more
		}
		return nil, err
	}
	return list, nil
}

// sockets returns the listeners for shims and for operators: of the daemon that
// is replaced, or else new ones.
func sockets(ctx context.Context, p paths, replace bool) (shims, operators net.Listener, err error) {
	if !replace {
		return listenSoon(p)
	}
	shims, operators, err = takeSockets(ctx, p)
	if errors.Is(err, errNobody) {
		return listenSoon(p)
	}
	return shims, operators, err
}
