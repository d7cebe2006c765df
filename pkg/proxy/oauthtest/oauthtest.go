// Package oauthtest runs an MCP server that wants a login, and the
// authorization server where one gets it, for tests.
//
// The MCP server is mcp-go's, by streamable HTTP, with the tool whoami. The
// authorization server has metadata, dynamic registration, codes with PKCE, and
// refresh tokens that are good for one use.
package oauthtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A Server is both servers, at one address. Its fields may be changed before
// the first login.
type Server struct {
	Lifetime int      // of access tokens, in seconds; 0 says nothing of it
	Closed   bool     // no client registers by itself
	Secret   bool     // clients get a secret, and must show it
	Scopes   []string // that the MCP server wants
	Hidden   bool     // nothing leads to the metadata, which are at MetadataURL alone
	Weak     bool     // PKCE is not offered
	Moved    string   // host that the metadata names instead of ours

	http *httptest.Server
	end  func()
	mcp  http.Handler

	mu        sync.Mutex // guards the fields below
	clients   map[string]client
	codes     map[string]code
	access    map[string]bool
	refresh   map[string]bool
	refreshed int
	asked     []string
}

type client struct {
	secret    string
	redirects []string
}

type code struct{ client, redirect, challenge, scope string }

// Start runs both servers until Close.
func Start() *Server {
	s := &Server{Scopes: []string{"tools:read"}, clients: map[string]client{}, codes: map[string]code{}, access: map[string]bool{}, refresh: map[string]bool{}}
	m := server.NewMCPServer("guarded", "1", server.WithToolCapabilities(true))
	m.AddTool(mcp.NewTool("whoami", mcp.WithDescription("Say who is logged in")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("somebody with a token"), nil
	})
	s.mcp = server.NewStreamableHTTPServer(m)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.guard)
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", s.describeResource)
	mux.HandleFunc("/.well-known/oauth-authorization-server", s.describeServer)
	mux.HandleFunc("/tenant/metadata", s.metadata)
	mux.HandleFunc("/register", s.register)
	mux.HandleFunc("/authorize", s.authorize)
	mux.HandleFunc("/token", s.token)
	s.http, s.end = Unstarted(mux)
	s.http.Start()
	return s
}

// Close ends both servers, and the streams that clients have open.
func (s *Server) Close() { s.end() }

// URL is the MCP server's.
func (s *Server) URL() string { return s.http.URL + "/mcp" }

// MetadataURL is where the authorization server describes itself beside the
// usual place.
func (s *Server) MetadataURL() string { return s.http.URL + "/tenant/metadata" }

// Approve does what a person with a browser does with a login page's address:
// agree, and be sent back.
func (s *Server) Approve(address string) error {
	resp, err := http.Get(address) //nolint:noctx // a test's own servers
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the way back answers %s", resp.Status)
	}
	return nil
}

// Expire makes all access tokens worthless, and nothing else.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// Revoke makes all tokens worthless.
func (s *Server) Revoke() {
	s.Expire()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.refresh)
}

// Refreshes counts the refreshes that succeeded.
func (s *Server) Refreshes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshed
}

// Asked returns the parameters of each request for an authorization.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Admit registers a client by hand.
func (s *Server) Admit(id, redirect string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = client{redirects: []string{redirect}}
}

// guard is the MCP server's door.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	known := s.access[token]
	s.mu.Unlock()
	if !known {
		if s.Hidden {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource/mcp", scope=%q`, s.http.URL, strings.Join(s.Scopes, " ")))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.mcp.ServeHTTP(w, r)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone
}

func refuse(w http.ResponseWriter, name string) {
	reply(w, http.StatusBadRequest, map[string]string{"error": name, "error_description": "as the test wants"})
}

func (s *Server) describeResource(w http.ResponseWriter, r *http.Request) {
	if s.Hidden {
		http.NotFound(w, r)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"resource": s.URL(), "authorization_servers": []string{s.http.URL}, "scopes_supported": s.Scopes,
	})
}

func (s *Server) describeServer(w http.ResponseWriter, r *http.Request) {
	if s.Hidden {
		http.NotFound(w, r)
		return
	}
	s.metadata(w, r)
}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	base := s.http.URL
	meta := map[string]any{
		"issuer": base, "authorization_endpoint": base + "/authorize?prompt=consent", "token_endpoint": base + "/token",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
	}
	if s.Moved != "" {
		meta["token_endpoint"] = s.Moved + "/token"
	}
	if s.Weak {
		meta["code_challenge_methods_supported"] = []string{"plain"}
	}
	if !s.Closed {
		meta["registration_endpoint"] = base + "/register"
	}
	reply(w, http.StatusOK, meta)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Redirects []string `json:"redirect_uris"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || len(q.Redirects) == 0 {
		refuse(w, "invalid_client_metadata")
		return
	}
	id, c := random(), client{redirects: q.Redirects}
	answer := map[string]any{"client_id": id, "redirect_uris": q.Redirects}
	if s.Secret {
		c.secret = random()
		answer["client_secret"], answer["token_endpoint_auth_method"] = c.secret, "client_secret_post"
	}
	s.mu.Lock()
	s.clients[id] = c
	s.mu.Unlock()
	reply(w, http.StatusCreated, answer)
}

// authorize is the login page: whoever comes is let in, and sent back.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.RawQuery)
	c, known := s.clients[q.Get("client_id")]
	if !known || !slices.Contains(c.redirects, q.Get("redirect_uri")) || q.Get("code_challenge_method") != "S256" || q.Get("resource") != s.URL() || q.Get("prompt") != "consent" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	id := random()
	s.codes[id] = code{q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("scope")}
	back := url.Values{"code": {id}, "state": {q.Get("state")}, "iss": {s.http.URL}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.clients[r.FormValue("client_id")]
	if !known || c.secret != r.FormValue("client_secret") {
		refuse(w, "invalid_client")
		return
	}
	var err error
	switch r.FormValue("grant_type") {
	case "authorization_code":
		err = s.redeemLocked(r)
	case "refresh_token":
		err = s.renewLocked(r)
	default:
		err = errors.New("unsupported_grant_type")
	}
	if err != nil {
		refuse(w, err.Error())
		return
	}
	access, refresh := random(), random()
	s.access[access], s.refresh[refresh] = true, true
	answer := map[string]any{"access_token": access, "token_type": "bearer", "refresh_token": refresh}
	if s.Lifetime > 0 {
		answer["expires_in"] = s.Lifetime
	}
	reply(w, http.StatusOK, answer)
}

func (s *Server) redeemLocked(r *http.Request) error {
	id := r.FormValue("code")
	c, known := s.codes[id]
	delete(s.codes, id)
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !known || c.client != r.FormValue("client_id") || c.redirect != r.FormValue("redirect_uri") ||
		c.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) || r.FormValue("resource") != s.URL() {
		return errors.New("invalid_grant")
	}
	return nil
}

func (s *Server) renewLocked(r *http.Request) error {
	token := r.FormValue("refresh_token")
	if !s.refresh[token] {
		return errors.New("invalid_grant")
	}
	delete(s.refresh, token)
	s.refreshed++
	return nil
}

func random() string { return rand.Text() }
