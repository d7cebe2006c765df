package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

const (
	// tokenLeeway is how long before its end a token counts as expired.
	tokenLeeway = 30 * time.Second

	// oauthTimeout bounds one request to an authorization server, and
	// refreshTimeout a whole refresh, which goes on when its caller has gone.
	oauthTimeout   = 20 * time.Second
	refreshTimeout = 60 * time.Second

	// maxOAuth bounds what an authorization server answers, in bytes.
	maxOAuth = 1 << 20
)

// A login is the store's entry for one server. A nil login is nobody. It is
// safe for concurrent use.
type login struct {
	store    *tokenStore
	key      string
	resource *url.URL          // without query and fragment
	env      map[string]string // of the network
	seen     atomic.Pointer[stamp]
}

// changed reports whether the store's entry is another than at the last token.
func (l *login) changed() bool {
	if l == nil {
		return false
	}
	now := l.store.stamp(l.key)
	return l.seen.Load() != nil && *l.seen.Load() != now
}

// errNoLogin says that there is no token, or none that is still good.
var errNoLogin = errors.New("nobody is logged in")

func newLogin(store *tokenStore, u *url.URL, env map[string]string) *login {
	resource, err := url.Parse(resourceOf(u))
	if err != nil || store.dir == "" {
		return nil // it was parsed before
	}
	return &login{store: store, key: storeKey(u), resource: resource, env: env}
}

// token returns the token to send, refreshed if it has expired, and "" when
// nobody is logged in. It reads the store each time, so that a login counts at
// once.
func (l *login) token(ctx context.Context) (string, error) {
	if l == nil {
		return "", nil
	}
	at := l.store.stamp(l.key) // before it is read, so that no change is missed
	l.seen.Store(&at)
	g, err := l.store.load(l.key)
	if err != nil || g == nil {
		return "", err
	}
	if !stale(&g.Token) {
		return g.Token.AccessToken, nil
	}
	token, err := l.renew(ctx, g.Token.AccessToken)
	if errors.Is(err, errNoLogin) {
		return "", nil // the server's refusal tells the rest
	}
	return token, err
}

func stale(t *transport.Token) bool {
	return t.AccessToken == "" || !t.ExpiresAt.IsZero() && time.Until(t.ExpiresAt) < tokenLeeway
}

// renew returns another token than the one that is spent. One caller at a time
// asks for it, and the others get what it got. A refresh that has begun is
// finished, whoever gives up: its refresh token may be good for one use only.
func (l *login) renew(ctx context.Context, spent string) (string, error) {
	type outcome struct {
		token string
		err   error
	}
	done := make(chan outcome, 1)
	go func() { // ends with the refresh's own time limit
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		token, err := l.refresh(ctx, spent)
		done <- outcome{token, err}
	}()
	select {
	case o := <-done:
		return o.token, o.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (l *login) refresh(ctx context.Context, spent string) (string, error) {
	unlock, err := l.store.lock(ctx, l.key)
	if err != nil {
		return "", err
	}
	defer unlock()
	g, err := l.store.load(l.key)
	switch {
	case err != nil:
		return "", err
	case g == nil:
		return "", errNoLogin
	case g.Token.AccessToken != spent && !stale(&g.Token):
		return g.Token.AccessToken, nil // somebody was faster
	case g.Token.RefreshToken == "":
		return "", errNoLogin
	}
	return l.exchange(ctx, g)
}

// exchange asks the authorization server for another token, the same one that
// the login was at: a server that has changed its mind about who that is would
// get the refresh token otherwise.
func (l *login) exchange(ctx context.Context, g *grant) (string, error) {
	client := newOAuthClient(l.env)
	defer client.CloseIdleConnections()
	h := l.handler(client, g)
	meta, err := h.GetServerMetadata(ctx)
	if err != nil {
		return "", fmt.Errorf("refreshing its token: %w", plainURL(err))
	}
	if meta.TokenEndpoint != g.TokenEndpoint {
		return "", errNoLogin
	}
	token, err := h.RefreshToken(ctx, g.Token.RefreshToken)
	if refused, ok := errors.AsType[transport.OAuthError](err); ok {
		return "", fmt.Errorf("%w: the authorization server refuses to go on: %s", errNoLogin, clip(plainText(refused.ErrorCode), 60))
	}
	if err != nil {
		return "", fmt.Errorf("refreshing its token: %w", plainURL(err))
	}
	return token.AccessToken, nil
}

// handler returns mcp-go's OAuth client for a grant.
func (l *login) handler(client *http.Client, g *grant) *transport.OAuthHandler {
	h := transport.NewOAuthHandler(transport.OAuthConfig{
		ClientID: g.ClientID, ClientSecret: g.ClientSecret, TokenEndpointAuthMethod: g.AuthMethod, Scopes: g.Scopes,
		TokenStore: &grantStore{l, g}, PKCEEnabled: true, ProtectedResourceMetadataURL: g.Metadata, AuthServerMetadataURL: g.AuthServer, HTTPClient: withResource(client, g),
	})
	h.SetBaseURL(l.resource.String())
	return h
}

// A grantStore keeps the token of one grant where mcp-go wants it kept. The
// store's lock must be held.
type grantStore struct {
	login *login
	grant *grant
}

// GetToken returns the token.
func (s *grantStore) GetToken(ctx context.Context) (*transport.Token, error) {
	if s.grant.Token.AccessToken == "" {
		return nil, transport.ErrNoToken
	}
	return &s.grant.Token, ctx.Err()
}

// SaveToken writes the grant with another token. The old one was spent for it,
// so it is written even when ctx has ended.
func (s *grantStore) SaveToken(_ context.Context, token *transport.Token) error {
	if token.AccessToken == "" || strings.ContainsFunc(token.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the authorization server gave no usable token")
	}
	s.grant.Token = *token
	return s.login.store.save(s.login.key, s.grant)
}

// newOAuthClient returns a client for authorization servers: bounded, and
// without anything of the definition's. The caller closes its idle connections.
func newOAuthClient(env map[string]string) *http.Client {
	return &http.Client{
		Transport: &bounded{networkTransport(env)}, Timeout: oauthTimeout,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects || next.URL.Host != via[0].URL.Host || next.Method != via[0].Method {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// bounded cuts what is answered.
type bounded struct{ *http.Transport }

// RoundTrip makes one request.
func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if !safeForTokens(req.URL) {
		return nil, errors.New("it would go over http, where others can read it")
	}
	resp, err := b.Transport.RoundTrip(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxOAuth), resp.Body}
	}
	return resp, err
}

// safeForTokens reports whether nobody on the way can read what is sent.
func safeForTokens(u *url.URL) bool {
	host := u.Hostname()
	return u.Scheme == "https" || host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// plainURL strips an error of the URL that net/http quotes in it.
func plainURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// challengeOf returns the parameters of a Bearer challenge.
func challengeOf(h http.Header) map[string]string {
	found := map[string]string{}
	for _, value := range h.Values("WWW-Authenticate") {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(clip(value, 4<<10)), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			continue
		}
		for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimLeft(rest, " ,\t") {
			name, after, ok := strings.Cut(rest, "=")
			if !ok {
				break
			}
			var text string
			if quoted, isQuoted := strings.CutPrefix(strings.TrimSpace(after), `"`); isQuoted {
				text, rest, _ = strings.Cut(quoted, `"`)
			} else {
				text, rest, _ = strings.Cut(after, ",")
			}
			found[strings.ToLower(strings.TrimSpace(name))] = plainText(text)
		}
	}
	return found
}
