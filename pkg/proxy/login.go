package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/discovery"
)

// DefaultLoginWait is how long a login waits for the person.
const DefaultLoginWait = 5 * time.Minute

// LoginOptions say how a person logs in to a remote server. The first group is
// required.
type LoginOptions struct {
	Server   discovery.Server           // as discovered
	TokenDir string                     // where the login is kept, as in [Options]
	Show     func(address string) error // shows the person the page to open

	Getenv func(string) (string, bool) // the person's environment; nil means empty
	Home   string
	Cwd    string

	ClientID     string   // of a client that was registered by hand; empty registers one
	ClientSecret string   // of that, if it has one
	Scopes       []string // empty asks for what the server says it needs
	Port         int      // on 127.0.0.1 for the way back; 0 takes any
	Wait         time.Duration
	Version      string // of this program, for servers to see
}

// ErrNoLoginNeeded is returned by Login when a server does not ask for one.
var ErrNoLoginNeeded = errors.New("it does not ask for a login")

// Login lets a person log in to a remote server by OAuth 2.1, and keeps what
// that brings. Proxies with the same TokenDir use it at their next request. It
// listens on 127.0.0.1 until the person comes back, or Wait or ctx ends. No
// error holds a secret.
func Login(ctx context.Context, o LoginOptions) error {
	a, err := newAttempt(&o)
	if err != nil {
		return fmt.Errorf("logging in to %s: %w", o.Server.Name, err)
	}
	defer a.client.CloseIdleConnections()
	if err := a.run(ctx); err != nil {
		return fmt.Errorf("logging in to %s: %w", o.Server.Name, plainURL(err))
	}
	return nil
}

// Logout forgets the login to a server, and reports whether there was one. The
// server is not told.
func Logout(o LoginOptions) (bool, error) {
	e, err := o.endpoint()
	if err != nil {
		return false, fmt.Errorf("logging out of %s: %w", o.Server.Name, err)
	}
	return (&tokenStore{dir: o.TokenDir}).remove(storeKey(e.url))
}

// endpoint resolves the definition as a session would.
func (o *LoginOptions) endpoint() (*endpoint, error) {
	if o.Server.Transport == discovery.Stdio || o.Server.Transport == discovery.Websocket {
		return nil, fmt.Errorf("it is reached by %s, and logins are for servers with an http or https url", o.Server.Transport)
	}
	if o.Getenv == nil {
		o.Getenv = func(string) (string, bool) { return "", false }
	}
	whole, err := o.Server.Expand(o.Getenv, o.Home, o.Cwd)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "server "+o.Server.Name+": "))
	}
	whole.Env = networkOf(o.Getenv)
	return newEndpoint(o.Server, whole, &tokenStore{dir: o.TokenDir}, o.Version)
}

// An attempt is one login under way.
type attempt struct {
	opts   *LoginOptions
	at     *endpoint
	login  *login
	client *http.Client // for authorization servers
	grant  grant

	oauth *transport.OAuthHandler
	meta  *transport.AuthServerMetadata
	back  *redirection
}

func newAttempt(o *LoginOptions) (*attempt, error) {
	e, err := o.endpoint()
	switch {
	case err != nil:
		return nil, err
	case e.login == nil && o.TokenDir == "":
		return nil, errors.New("there is no folder to keep logins in")
	case e.login == nil:
		return nil, fmt.Errorf("its definition says already who calls: %s. Take that out first", e.hint)
	case !safeForTokens(e.url):
		return nil, errors.New("its url is http, where others can read what is sent; a login needs https")
	}
	o.Wait = cmp.Or(o.Wait, DefaultLoginWait)
	a := &attempt{opts: o, at: e, login: e.login, client: newOAuthClient(e.env)}
	a.grant = grant{Resource: e.login.resource.String(), ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes,
		AuthServer: o.Server.OAuth.Metadata}
	return a, nil
}

func (a *attempt) run(ctx context.Context) error {
	var err error
	if a.back, err = newRedirection(a.opts.Port); err != nil {
		return err
	}
	defer a.back.close()
	if err := a.discover(ctx); err != nil {
		return err
	}
	if err := a.register(ctx); err != nil {
		return err
	}
	return a.authorize(ctx)
}

// discover finds out where one logs in, and for what.
func (a *attempt) discover(ctx context.Context) error {
	challenge, asked, err := a.knock(ctx)
	if err != nil {
		return err
	}
	if at, err := url.Parse(challenge["resource_metadata"]); err == nil && at.Host == a.at.url.Host && at.Scheme == a.at.url.Scheme {
		a.grant.Metadata = at.String()
	}
	scopes, described := a.protection(ctx)
	if !asked && !described && a.grant.AuthServer == "" {
		return ErrNoLoginNeeded
	}
	if len(a.grant.Scopes) == 0 {
		a.grant.Scopes = strings.Fields(challenge["scope"])
	}
	if len(a.grant.Scopes) == 0 {
		a.grant.Scopes = scopes
	}
	a.oauth = a.handler()
	a.meta, err = a.oauth.GetServerMetadata(ctx)
	if err != nil && a.grant.Metadata != "" { // mcp-go is stricter with what it is pointed to
		a.grant.Metadata = ""
		a.oauth = a.handler()
		a.meta, err = a.oauth.GetServerMetadata(ctx)
	}
	if err != nil {
		return fmt.Errorf("finding its authorization server: %w", plainURL(err))
	}
	a.grant.TokenEndpoint = a.meta.TokenEndpoint
	if m := a.meta.CodeChallengeMethodsSupported; len(m) > 0 && !slices.Contains(m, "S256") {
		return errors.New("its authorization server cannot keep others from using the login (PKCE with S256)")
	}
	for _, text := range []string{a.meta.AuthorizationEndpoint, a.meta.TokenEndpoint} {
		if at, err := url.Parse(text); err != nil || !safeForTokens(at) {
			return errors.New("its authorization server is reached by http, where others can read what is sent")
		}
	}
	return nil
}

// knock makes the first request without a token, to hear what is wanted. asked
// reports whether the server wants a login.
func (a *attempt) knock(ctx context.Context) (challenge map[string]string, asked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, oauthTimeout)
	defer cancel()
	base := a.at.transport()
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &dresser{a.at, base}, CheckRedirect: a.at.redirect}
	resp, err := client.Do(a.firstRequest(ctx))
	if err != nil {
		return nil, false, plainURL(err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is read from it
	return challengeOf(resp.Header), resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden, nil
}

func (a *attempt) firstRequest(ctx context.Context) *http.Request {
	method, body, accept := http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"bridged","version":%q}}}`,
		mcp.LATEST_LEGACY_PROTOCOL_VERSION, a.opts.Version), "application/json, text/event-stream"
	if a.at.kinds()[0] == discovery.SSE {
		method, body, accept = http.MethodGet, "", "text/event-stream"
	}
	req := (&http.Request{Method: method, URL: a.at.url, Header: http.Header{}}).WithContext(ctx)
	if body != "" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", accept)
	return req
}

// A dresser adds a definition's headers to what goes to its host.
type dresser struct {
	at   *endpoint
	base http.RoundTripper
}

// RoundTrip makes one request.
func (d *dresser) RoundTrip(req *http.Request) (*http.Response, error) {
	if !d.at.covers(req.URL) {
		return nil, errors.New("it would go to another host")
	}
	req = req.Clone(req.Context())
	(&gate{at: d.at}).dress(req.Header, "")
	return d.base.RoundTrip(req)
}

// protection reads what the server says of its protection: which scopes there
// are, and that it has one at all.
func (a *attempt) protection(ctx context.Context) (scopes []string, described bool) {
	place := a.grant.Metadata
	if place == "" {
		at := *a.login.resource
		at.Path, at.RawPath = "/.well-known/oauth-protected-resource"+strings.TrimSuffix(at.Path, "/"), ""
		place = at.String()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, false
	}
	req.Header.Set("Accept", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, false
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	var found struct {
		Servers []string `json:"authorization_servers"`
		Scopes  []string `json:"scopes_supported"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&found) != nil {
		return nil, false
	}
	return found.Scopes, len(found.Servers) > 0
}

// register makes us known to the authorization server, unless somebody has.
func (a *attempt) register(ctx context.Context) error {
	if a.grant.ClientID != "" {
		return nil
	}
	const byHand = "register a client there by hand, with the redirect address http://127.0.0.1:PORT/callback, and pass --client-id and --port"
	if a.meta.RegistrationEndpoint == "" {
		return errors.New("its authorization server registers no clients by itself: " + byHand)
	}
	if err := a.oauth.RegisterClient(ctx, "bridged"); err != nil {
		return fmt.Errorf("its authorization server does not register us (%s): %s", clip(plainText(plainURL(err).Error()), 300), byHand)
	}
	a.grant.ClientID, a.grant.ClientSecret = a.oauth.GetClientID(), a.oauth.GetClientSecret()
	a.grant.AuthMethod = a.oauth.GetTokenEndpointAuthMethod()
	return nil
}

// handler returns mcp-go's OAuth client for the login.
func (a *attempt) handler() *transport.OAuthHandler {
	h := transport.NewOAuthHandler(transport.OAuthConfig{
		ClientID: a.grant.ClientID, ClientSecret: a.grant.ClientSecret, RedirectURI: a.back.address(), Scopes: a.grant.Scopes,
		TokenStore: &grantStore{a.login, &a.grant}, PKCEEnabled: true, ProtectedResourceMetadataURL: a.grant.Metadata,
		AuthServerMetadataURL: a.grant.AuthServer, HTTPClient: withResource(a.client, &a.grant),
	})
	h.SetBaseURL(a.login.resource.String())
	return h
}

// authorize sends the person to the authorization server, waits for what comes
// back, and changes that for a token.
func (a *attempt) authorize(ctx context.Context) error {
	verifier, err := transport.GenerateCodeVerifier()
	if err != nil {
		return err
	}
	state, err := transport.GenerateState()
	if err != nil {
		return err
	}
	address, err := a.oauth.GetAuthorizationURL(ctx, state, transport.GenerateCodeChallenge(verifier))
	if err != nil {
		return plainURL(err)
	}
	if base := a.meta.AuthorizationEndpoint; strings.Contains(base, "?") {
		address = base + "&" + strings.TrimPrefix(address, base+"?")
	}
	address = resourceOfAuthorization(address, &a.grant)
	if err := a.opts.Show(address); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, a.opts.Wait, fmt.Errorf("nobody came back from the login page within %s", a.opts.Wait))
	defer cancel()
	code, err := a.back.wait(waiting, state, a.meta.Issuer)
	if err != nil {
		return err
	}
	unlock, err := a.login.store.lock(ctx, a.login.key)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.oauth.ProcessAuthorizationResponse(ctx, code, state, verifier); err != nil {
		return fmt.Errorf("its authorization server gives no token: %s", clip(plainText(a.hide(plainURL(err).Error())), 300))
	}
	return nil
}

// hide masks the client's secret.
func (a *attempt) hide(text string) string {
	if a.grant.ClientSecret == "" {
		return text
	}
	return strings.ReplaceAll(text, a.grant.ClientSecret, "[client secret]")
}
