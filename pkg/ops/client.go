package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// respond writes v as JSON.
func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	// A client that hung up is the only way for this to go wrong.
	_ = e.Encode(v)
}

// done writes the outcome of a change.
func done(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, ErrNone):
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// call makes one request of the daemon behind a socket. body is sent as JSON
// unless it is nil, and the answer read into the other, unless that is nil.
func call(ctx context.Context, socket, method, path string, body, into any) error {
	resp, err := request(ctx, socket, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(into); err != nil {
		return fmt.Errorf("reading the daemon's answer for %s: %w", path, err)
	}
	return nil
}

// stream posts a request and has its answer read as it comes.
func stream(ctx context.Context, socket, path string, body any, read func(*json.Decoder) error) error {
	resp, err := request(ctx, socket, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := read(json.NewDecoder(io.LimitReader(resp.Body, maxStatus))); err != nil {
		return fmt.Errorf("reading the daemon's answer for %s: %w", path, err)
	}
	return nil
}

// request returns the answer of the daemon behind a socket, unless it says no.
// Headers are names and values; empty ones are left out. The caller must close
// its body.
func request(ctx context.Context, socket, method, path string, body any, headers ...string) (*http.Response, error) {
	var d net.Dialer
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return nil, fmt.Errorf("asking the daemon for %s: %w", path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://bridged"+path, &text)
	if err != nil {
		return nil, fmt.Errorf("asking the daemon for %s: %w", path, err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for %s at %s: %w", strings.TrimPrefix(path, "/"), socket, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer resp.Body.Close()
		return nil, refused(resp)
	}
	return resp, nil
}

// refused is the error of an answer that says no: its first line, or what the
// code stands for.
func refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what there is of it
	line := strings.TrimSpace(string(text))
	if line == "" {
		line = resp.Status
	}
	if resp.StatusCode == http.StatusNotFound {
		return None(line)
	}
	return errors.New(line)
}
