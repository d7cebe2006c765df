package proxy

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/bridged/bridged/pkg/discovery"
)

const (
	// dialTimeout and tlsTimeout bound the making of a connection. A call that
	// fails within them was not made.
	dialTimeout = 15 * time.Second
	tlsTimeout  = 15 * time.Second

	// idleConnection is how long a connection without requests is kept. Common
	// servers close theirs after five seconds; a request that meets the close
	// half-way would have an unknown outcome.
	idleConnection = 3 * time.Second

	// maxRedirects bounds the redirects of one request.
	maxRedirects = 3

	// maxHTTPHeader bounds the headers of an answer, in bytes.
	maxHTTPHeader = 256 << 10
)

// An endpoint is a remote server with everything about it resolved. It belongs
// to a backend, and outlives its connections. It is safe for concurrent use.
type endpoint struct {
	name    string
	url     *url.URL
	headers map[string]string
	hint    string // where its credentials come from; empty if it has none
	mask    *strings.Replacer
	env     map[string]string // the agent's, as far as it is about networks
	login   *login            // nil when the definition has credentials of its own
	version string            // of this program

	// proven is the transport that has worked, which is not doubted again.
	proven atomic.Value // discovery.Transport
}

// networkEnv are the variables that decide how a remote server is reached.
var networkEnv = strings.Fields("HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy " + strings.Join(authorityVars, " "))

// authorityVars name files with certificates of authorities that are trusted
// besides the system's, as companies have them.
var authorityVars = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}

// maxAuthorities bounds such a file, in bytes.
const maxAuthorities = 4 << 20

// resolveRemote decides everything about a definition with a URL.
func (s *Session) resolveRemote(t *target) {
	name := t.server.Name
	if t.server.Transport == discovery.Websocket {
		t.err = errorf(CodeNotAvailable, "Server %s is not available. It is reached by websocket, which bridged does not speak: "+
			"give it an http or https URL, if it has one.", name)
		return
	}
	whole, err := t.server.Expand(s.opts.Getenv, s.opts.Home, s.opts.Cwd)
	if err == nil {
		err = s.proxy.addSecrets(&whole, t.setting)
	}
	if err == nil {
		whole.Env = networkOf(s.opts.Getenv)
		t.remote, err = newEndpoint(t.server, whole, s.proxy.tokens, s.proxy.opts.Version)
	}
	if err != nil {
		t.err = errorf(CodeServerFailed, "Server %s cannot be reached: %v.", name, strings.TrimPrefix(err.Error(), "server "+name+": "))
		return
	}
	t.whole, t.mask = whole, t.remote.mask
	s.assign(t, t.whole)
}

// networkOf returns the variables that are about networks.
func networkOf(getenv func(string) (string, bool)) map[string]string {
	env := map[string]string{}
	for _, key := range networkEnv {
		if value, ok := getenv(key); ok && value != "" {
			env[key] = value
		}
	}
	return env
}

// newEndpoint checks a definition. written is it with its variables, whole
// without. No error quotes the URL, which may hold a secret.
func newEndpoint(written, whole discovery.Server, tokens *tokenStore, version string) (*endpoint, error) {
	u, err := url.Parse(whole.URL)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil, errors.New("its url is not valid; it should look like https://host/path")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("its url begins with %s:, and only http and https are spoken", clip(u.Scheme, 20))
	}
	u.Fragment = ""
	for name, value := range whole.Headers {
		if strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("its header %s has a line break in its value", name)
		}
	}
	e := &endpoint{
		name: whole.Name, url: u, headers: whole.Headers, env: whole.Env, version: version,
		mask: masker(secretsOf(whole, u)), hint: credentials(written),
	}
	if whole.Transport != discovery.Auto {
		e.proven.Store(whole.Transport)
	}
	if !e.hasCredentials() {
		e.login = newLogin(tokens, u, whole.Env)
	}
	return e, nil
}

// hasCredentials reports whether the definition says itself who is calling.
func (e *endpoint) hasCredentials() bool {
	if e.url.User != nil {
		return true
	}
	for name := range e.headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return true
		}
	}
	return false
}

// secretsOf returns what a definition holds that nobody should see, by what it
// is called.
func secretsOf(s discovery.Server, u *url.URL) map[string]string {
	secrets := map[string]string{}
	for name, value := range s.Headers {
		secrets["header "+name] = value
		if _, token, ok := strings.Cut(value, " "); ok { // Bearer and its like
			secrets["token of header "+name] = token
		}
	}
	if password, ok := u.User.Password(); ok {
		secrets["password of the url"] = password
	}
	for name, values := range u.Query() {
		for i, value := range values {
			secrets[fmt.Sprintf("url parameter %s %d", name, i)] = value
			secrets[fmt.Sprintf("url parameter %s %d, escaped", name, i)] = url.QueryEscape(value)
		}
	}
	for name, value := range s.Env { // a proxy's password
		if p, err := url.Parse(value); err == nil {
			if password, ok := p.User.Password(); ok {
				secrets["password of "+name] = password
			}
		}
	}
	return secrets
}

var variable = regexp.MustCompile(`\$\{([^{}]*)\}`)

// credentials says where a definition's credentials come from, as the object of
// "check".
func credentials(written discovery.Server) string {
	var places []string
	for _, name := range slices.Sorted(maps.Keys(written.Headers)) {
		place := "header " + name
		if vars := variable.FindAllStringSubmatch(written.Headers[name], -1); len(vars) > 0 {
			place += " (its value comes from " + vars[0][1] + ")"
		}
		places = append(places, place)
	}
	if len(places) == 0 && strings.ContainsAny(written.URL, "?@") {
		places = append(places, "what its url says of the caller")
	}
	return strings.Join(places, ", ")
}

// covers reports whether a URL is the endpoint's: only there go its headers.
// From http the same host's https is reached too.
func (e *endpoint) covers(u *url.URL) bool {
	if strings.EqualFold(u.Host, e.url.Host) {
		return u.Scheme == e.url.Scheme || u.Scheme == "https"
	}
	upgrade := e.url.Scheme == "http" && u.Scheme == "https"
	return upgrade && strings.EqualFold(u.Hostname(), e.url.Hostname()) && e.url.Port() == "" && cmp.Or(u.Port(), "443") == "443"
}

// kinds returns the transports to try, in order.
func (e *endpoint) kinds() []discovery.Transport {
	if kind, ok := e.proven.Load().(discovery.Transport); ok {
		return []discovery.Transport{kind}
	}
	return []discovery.Transport{discovery.HTTP, discovery.SSE}
}

// spoken names the transport that has worked.
func (e *endpoint) spoken() string {
	if kind, _ := e.proven.Load().(discovery.Transport); kind == discovery.SSE {
		return "HTTP and SSE"
	}
	return "streamable HTTP"
}

// transport returns what carries requests. The caller closes its idle
// connections when it is done.
func (e *endpoint) transport() *http.Transport {
	return networkTransport(e.env)
}

// networkTransport makes connections through the proxies that env names.
func networkTransport(env map[string]string) *http.Transport {
	get := func(name string) string { return cmp.Or(env[strings.ToLower(name)], env[name]) }
	proxies := (&httpproxy.Config{
		HTTPProxy:  cmp.Or(get("HTTP_PROXY"), get("ALL_PROXY")),
		HTTPSProxy: cmp.Or(get("HTTPS_PROXY"), get("ALL_PROXY")),
		NoProxy:    get("NO_PROXY"),
	}).ProxyFunc()
	return &http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: authorities(env), MinVersion: tls.VersionTLS12},
		Proxy:                  func(r *http.Request) (*url.URL, error) { return proxies(r.URL) },
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    tlsTimeout,
		IdleConnTimeout:        idleConnection,
		MaxIdleConnsPerHost:    16,
		MaxResponseHeaderBytes: maxHTTPHeader,
		ForceAttemptHTTP2:      true,
	}
}

// authorities returns whom to trust, nil for the system's. A file that can't be
// read adds nobody; the connection's failure tells then.
func authorities(env map[string]string) *x509.CertPool {
	var pool *x509.CertPool
	for _, name := range authorityVars {
		if env[name] == "" {
			continue
		}
		text, err := readUpTo(env[name], maxAuthorities)
		if err != nil {
			continue
		}
		if pool == nil {
			if pool, err = x509.SystemCertPool(); err != nil {
				pool = x509.NewCertPool()
			}
		}
		pool.AppendCertsFromPEM(text)
	}
	return pool
}

// readUpTo reads a regular file of at most limit bytes.
func readUpTo(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, limit)
	}
	return os.ReadFile(path)
}

// redirect decides whether a redirect is followed: not to another host, since
// the headers would go there, and not when the request would lose its body.
func (e *endpoint) redirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || !e.covers(next.URL) || next.Method != via[0].Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// explain says what to do about a refusal. Those that need a person say who
// and how.
func (e *endpoint) explain(refusal *statusError) error {
	denied := refusal.status == http.StatusUnauthorized || refusal.status == http.StatusForbidden
	login := "`bridged login " + shellWord(e.name) + "` in a terminal, in the project's folder"
	switch {
	case denied && e.hint != "" && e.login == nil:
		return errorf(CodeServerFailed, "Server %s refuses what its definition says of the caller: %v. The person should check %s.", e.name, refusal, e.hint)
	case denied && e.hint != "":
		return errorf(CodeNotAvailable, "Server %s refuses what its definition says of the caller: %v. The person should check %s or, if the server has logins, run %s.",
			e.name, refusal, e.hint, login)
	case refusal.status == http.StatusUnauthorized && e.login != nil:
		return errorf(CodeNotAvailable, "Server %s needs a login. Ask the person to run %s, and then make the call again; nothing has to be started anew.", e.name, login)
	case denied && e.login != nil && refusal.scope != "":
		return errorf(CodeNotAvailable, "Server %s wants a login that allows more (%s). Ask the person to run %s.", e.name, clip(refusal.scope, 200), login)
	}
	return refusal
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@/+-]*$`)

// shellWord quotes a name for a line that a person is asked to type: it may
// come from a repository that somebody else wrote.
func shellWord(name string) string {
	if plainWord.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(plainText(name), "'", `'\''`) + "'"
}
