package proxy

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"
)

// A statusError is an answer whose HTTP status is no success.
type statusError struct {
	status   int
	session  bool   // the request named a session
	text     string // how the body begins, masked
	location string // host that it redirects to
	wait     string // Retry-After, in seconds
	scope    string // that a token lacks
}

func newStatusError(resp *http.Response, req *http.Request, head []byte) *statusError {
	e := &statusError{status: resp.StatusCode, text: string(head), session: req.Header.Get(transport.HeaderKeySessionID) != "" || req.URL.Query().Has("sessionId") || req.URL.Query().Has("session_id")}
	if at, err := resp.Location(); err == nil {
		e.location = clip(plainText(at.Host), 100)
	}
	if wait := resp.Header.Get("Retry-After"); len(wait) < 7 && wait != "" && strings.Trim(wait, "0123456789") == "" {
		e.wait = wait
	}
	e.scope = challengeOf(resp.Header)["scope"]
	if !strings.HasPrefix(strings.TrimSpace(e.text), "{") && strings.Contains(resp.Header.Get("Content-Type"), "html") {
		e.text = "" // a page for people
	}
	return e
}

// Is reports whether the server may have acted on the request all the same.
func (e *statusError) Is(target error) bool { return target == errBroken && e.acted() }

// decides reports whether the status says more than a JSON-RPC error beside it.
func (e *statusError) decides() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden || e.forgotten()
}

var forgottenText = regexp.MustCompile(`(?i)session|not initialized`)

// forgotten reports whether the server does not know our session any more.
// Many servers say so with 400.
func (e *statusError) forgotten() bool {
	return e.session && (e.status == http.StatusNotFound || e.status == http.StatusBadRequest && forgottenText.MatchString(e.text))
}

// elsewhere reports whether the answer to the first request says that another
// transport is spoken there.
func (e *statusError) elsewhere() bool {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return e.status >= 400 && e.status < 500
}

// acted reports whether the server may have begun with what was asked.
func (e *statusError) acted() bool { return e.status >= 500 || e.status == http.StatusRequestTimeout }

// Error says what the status means for whoever called.
func (e *statusError) Error() string {
	text := fmt.Sprintf("it answered HTTP %d", e.status)
	if name := http.StatusText(e.status); name != "" {
		text += " (" + name + ")"
	}
	if e.location != "" {
		text += ", a redirect to " + e.location + " that is not followed: if it is right, put that address into the server's url"
	}
	if e.text != "" {
		text += ": " + e.text
	}
	if e.wait != "" {
		text += ". It asks to wait " + e.wait + " s"
	}
	return text
}
