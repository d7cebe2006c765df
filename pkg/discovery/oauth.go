package discovery

import (
	"net/url"
	"strconv"
	"strings"
)

// An OAuth is what a definition says of the login to its server. Zero fields
// say nothing.
type OAuth struct {
	ClientID string   // of a client that was registered by hand
	Scopes   []string // to ask for
	Port     int      // on 127.0.0.1, for the way back from the login page

	// Metadata is the URL of the authorization server's metadata, where the
	// server itself does not lead to it.
	Metadata string `json:",omitempty"`
}

// maxScope bounds a scope and a client's name, in bytes.
const maxScope = 1000

// oauth reads what an entry says of its login. Agents that let it be switched
// off (false) or left to the server (an empty object) say nothing by that.
func (e *entry) oauth() {
	if e.s.URL == "" {
		return
	}
	n, key, ok := e.n.first("oauth")
	if auth, _, has := e.n.first("auth"); !ok && has && auth.kind == kindObject {
		n, key = auth, "auth" // Cursor's word
	}
	if ok && n.kind != kindObject && n.kind != kindNull && n.kind != kindFalse && n.kind != kindTrue {
		e.note(key, n.line, "it is not an object, so it is left out")
	}
	login := &entry{row: e.row, n: n}
	o := &e.s.OAuth
	o.ClientID = login.text("clientId", "client_id", "CLIENT_ID")
	o.Port = login.port("callbackPort", "callback_port")
	o.Metadata = login.metadata("authServerMetadataUrl", "auth_server_metadata_url")
	o.Scopes = login.scopes("scopes", "scope")
	if o.Scopes == nil {
		o.Scopes = e.scopes("oauthScopes", "oauth_scopes", "scopes")
	}
	if len(o.ClientID) > maxScope {
		login.note("clientId", n.line, "it is too long, so it is left out")
		o.ClientID = ""
	}
	for _, n := range login.notes {
		n.field = key + "." + n.field
		e.notes = append(e.notes, n)
	}
}

// metadata reads a URL that is asked where to log in. Whoever answers gets the
// person's login, so it is https, or on this machine.
func (e *entry) metadata(keys ...string) string {
	text := e.text(keys...)
	if text == "" {
		return ""
	}
	at, err := url.Parse(text)
	if err == nil && at.User == nil && (at.Scheme == "https" && at.Host != "" || at.Scheme == "http" && isThisMachine(at.Hostname())) {
		return text
	}
	e.note(keys[0], e.n.line, "it is no URL with https, so it is left out")
	return ""
}

func isThisMachine(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// port reads the number of a port.
func (e *entry) port(keys ...string) int {
	n, key, ok := e.n.first(keys...)
	if !ok {
		return 0
	}
	text, _ := n.scalar()
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		e.note(key, n.line, "it is not the number of a port, so it is left out")
		return 0
	}
	return port
}

// scopes reads a list of scopes, or one text with spaces between them.
func (e *entry) scopes(keys ...string) []string {
	n, key, ok := e.n.first(keys...)
	if !ok {
		return nil
	}
	var scopes []string
	if n.kind == kindString {
		scopes = strings.Fields(n.text)
	}
	for _, item := range n.items {
		if item.kind == kindString && strings.TrimSpace(item.text) != "" {
			scopes = append(scopes, strings.TrimSpace(item.text))
		}
	}
	for _, s := range scopes {
		if len(s) > maxScope || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			e.note(key, n.line, "it has what can be no scope, so it is left out")
			return nil
		}
	}
	if len(scopes) > maxItems {
		e.note(key, n.line, "there are more than %d, so they are left out", maxItems)
		return nil
	}
	return scopes
}
