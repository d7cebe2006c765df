package ops

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"strings"

	"github.com/google/renameio/v2"
)

const (
	// pageHost is a name of this machine that browsers keep apart from others:
	// they share cookies among all ports of localhost and 127.0.0.1, where
	// other people's programs may listen too.
	pageHost = "bridged.localhost"

	// loginCookie proves that a browser was given the token.
	loginCookie = "bridged_ops"

	// minToken is how long a token must be, in bytes.
	minToken = 16

	// maxToken bounds the file of a token, in bytes.
	maxToken = 4 << 10
)

// ReadToken returns the token in a file, which only its owner may read. A file
// that is not there is made, with a token by chance; its folder must be there.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeToken(path)
	}
	if err != nil {
		return "", fmt.Errorf("reading the token for operations: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was read
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("reading the token for operations: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return "", fmt.Errorf("the token for operations in %s could be read by others (its mode is %s): chmod 600 %s, and change the token", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", fmt.Errorf("reading the token for operations: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("the token for operations in %s is none: it needs at least %d characters, ASCII without blanks. Without the file one is made by chance", path, minToken)
	}
	return token, nil
}

func makeToken(path string) (string, error) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token := hex.EncodeToString(b[:])
	if err := renameio.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("writing the token for operations: %w", err)
	}
	return token, nil
}

// CheckLoopback refuses addresses that other machines could reach. An address is
// IP:PORT or localhost:PORT.
func CheckLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: give an address such as 127.0.0.1:7070", err)
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("%s is not an address of this machine alone, and others may not listen: use 127.0.0.1 or [::1]", host)
	}
	return nil
}

// ListenLoopback listens on such an address.
func ListenLoopback(ctx context.Context, address string) (net.Listener, error) {
	if err := CheckLoopback(address); err != nil {
		return nil, err
	}
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "localhost" { // whatever the name means on this machine
		host = "127.0.0.1"
	}
	var c net.ListenConfig
	ln, err := c.Listen(ctx, "tcp", net.JoinHostPort(host, number))
	if err != nil {
		return nil, fmt.Errorf("listening for operations: %w", err)
	}
	return ln, nil
}

// PageURL is what a browser shows an address by.
func PageURL(address string) string {
	_, number, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return "http://" + net.JoinHostPort(pageHost, number) + "/"
}

// Headers returns h with the headers that keep a browser from doing more with
// its pages than they need: scripts, styles and pictures are our own files,
// scripts make no markup of texts, nobody may frame them, nothing is kept.
func Headers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, v := range [][2]string{
			{"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
				"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"},
			{"X-Content-Type-Options", "nosniff"},
			{"X-Frame-Options", "DENY"},
			{"Referrer-Policy", "no-referrer"},
			{"Cross-Origin-Opener-Policy", "same-origin"},
			{"Cross-Origin-Resource-Policy", "same-origin"},
			{"Cache-Control", "no-store"},
		} {
			w.Header().Set(v[0], v[1])
		}
		h.ServeHTTP(w, r)
	})
}

// Guard returns h for a TCP port of this machine. Programs need the token
// ("Authorization: Bearer TOKEN"); browsers get a cookie for it, by the form at
// POST /login or by GET /?token=TOKEN. Requests for other hosts, which a page
// elsewhere has made up, and those that change something and come from other
// pages, are refused. /healthz needs no token, nor do the files of the page, which
// are the same everywhere.
func Guard(h http.Handler, token string) http.Handler {
	g := &guard{next: http.NewCrossOriginProtection().Handler(h), token: sum(token), cookie: cookieFor(token)}
	return Headers(g)
}

type guard struct {
	next   http.Handler
	token  [sha256.Size]byte // its hash: what is compared has one length then
	cookie string
}

func sum(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// cookieFor is what stands for a token in a browser, which tells nothing of it.
func cookieFor(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("bridged operations in a browser"))
	return hex.EncodeToString(mac.Sum(nil))
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !ours(r.Host):
		http.Error(w, fmt.Sprintf("this is no server for %q: use 127.0.0.1, [::1], localhost or %s", r.Host, pageHost), http.StatusMisdirectedRequest)
	case r.URL.Path == "/healthz", r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, pageFolder):
		g.next.ServeHTTP(w, r)
	case r.URL.Path == "/login" && r.Method == http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxToken)
		g.login(w, r, r.PostFormValue("token"))
	case r.URL.Path == "/" && r.Method == http.MethodGet && r.URL.Query().Has("token"):
		g.login(w, r, r.URL.Query().Get("token"))
	case g.knows(r):
		g.next.ServeHTTP(w, r)
	default:
		refuse(w, r, "")
	}
}

// ours reports whether a Host is a name of this machine. A page that has its own
// name lead here, to be of the same origin, sends that name.
func ours(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") || strings.EqualFold(host, pageHost) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// knows reports whether a request has the token, or a cookie for it.
func (g *guard) knows(r *http.Request) bool {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return g.same(strings.TrimSpace(token))
	}
	c, err := r.Cookie(loginCookie)
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(g.cookie)) == 1
}

func (g *guard) same(token string) bool {
	got := sum(token)
	return subtle.ConstantTimeCompare(got[:], g.token[:]) == 1
}

// login gives a browser its cookie.
func (g *guard) login(w http.ResponseWriter, r *http.Request, token string) {
	if !g.same(strings.TrimSpace(token)) {
		refuse(w, r, "That is not the token.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: loginCookie, Value: g.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// loginPage is what a browser without a cookie gets. It holds nothing of the
// request's.
const loginPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>bridged</title>
<link rel="icon" href="/web/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/web/style.css">
</head>
<body>
<header><h1>bridged</h1></header>
<main>
<form method="post" action="/login" class="card login">
<p class="problem" role="alert">%s</p>
<p><label for="token">Token</label> <input id="token" name="token" type="password" required autofocus autocomplete="current-password"> <button>Show</button></p>
<p class="quiet">It is in the file that <code>bridged status</code> names.</p>
</form>
</main>
</body>
</html>
`

// refuse asks for the token: by a form where there is somebody to fill it in.
func refuse(w http.ResponseWriter, r *http.Request, why string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="bridged"`)
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, strings.TrimSpace(why+" This needs the token in the file that `bridged status` names, as Authorization: Bearer TOKEN"), http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	// A client that hung up is the only way for this to go wrong.
	_, _ = fmt.Fprintf(w, loginPage, why)
}

// HandleProfiles adds to a handler, under /debug/pprof/, what net/http/pprof has.
func HandleProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
