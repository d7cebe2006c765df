package discovery

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// remote reads the URL under any of its names.
func (e *entry) remote() error {
	n, key, ok := e.n.first("url", "serverUrl", "httpUrl", "uri")
	if !ok {
		return nil
	}
	if n.kind != kindString {
		return fmt.Errorf("%s is %s, not a string", key, n.what())
	}
	e.s.URL = strings.TrimSpace(n.text)
	return checkURL(key, e.s.URL)
}

// checkURL refuses what can be no server's address, such as file:. It quotes
// nothing, since a URL may hold a secret.
func checkURL(key, text string) error {
	if text == "" || strings.ContainsAny(text[:1], "${") {
		return nil // empty counts as missing; a variable is checked later
	}
	scheme, _, ok := strings.Cut(text, "://")
	if !ok {
		return fmt.Errorf("%s has no scheme; it should start with http:// or https://", key)
	}
	switch strings.ToLower(scheme) {
	case "http", "https", "ws", "wss", "unix", "pipe":
	default:
		return fmt.Errorf("%s has a scheme that no MCP server uses; it should start with http:// or https://", key)
	}
	if strings.ContainsAny(text, "${}") {
		return nil
	}
	if _, err := url.Parse(text); err != nil {
		return fmt.Errorf("%s is not a valid URL", key)
	}
	return nil
}

// spellings maps the type names of every agent, in lower case without hyphens
// and underscores.
var spellings = map[string]Transport{
	"stdio": Stdio, "local": Stdio,
	"http": HTTP, "streamablehttp": HTTP,
	"sse": SSE, "remote": Auto, "auto": Auto,
	"websocket": Websocket, "ws": Websocket,
}

// transport decides how the server is reached from the type and the fields.
func (e *entry) transport() error {
	declared := e.declaredTransport()
	command, remote := e.s.Command != "", e.s.URL != ""
	switch {
	case command && remote && declared == "":
		return fmt.Errorf("there are both a command and a url and no type; which one counts is unclear")
	case !command && !remote:
		return fmt.Errorf("there is neither a command nor a url")
	case command && (declared == Stdio || declared == "" || !remote):
		if declared != Stdio && declared != "" && declared != Auto {
			return fmt.Errorf("the type is %s but there is no url", declared)
		}
		e.s.Transport, e.s.URL = Stdio, ""
	case declared == Stdio:
		return fmt.Errorf("the type is stdio but there is no command")
	default:
		e.s.Transport, e.s.Command, e.s.Args = e.remoteTransport(declared), "", nil
	}
	return nil
}

// remoteTransport picks the transport of a URL: by the URL's own scheme, the
// field that only one transport uses, the type, or the agent's default.
func (e *entry) remoteTransport(declared Transport) Transport {
	scheme, _, _ := strings.Cut(strings.ToLower(e.s.URL), "://")
	_, key, _ := e.n.first("url", "serverUrl", "httpUrl", "uri")
	switch {
	case scheme == "ws" || scheme == "wss":
		return Websocket
	case key == "httpUrl":
		return HTTP
	case declared != "":
		return declared
	case e.row.untyped != "":
		return e.row.untyped
	}
	return Auto
}

// declaredTransport reads the type. One that nobody knows is told and counts
// as Auto for a URL and as missing for a command.
func (e *entry) declaredTransport() Transport {
	n, key, ok := e.n.first("type", "transport", "transportType")
	if ok && n.kind == kindObject {
		n, _, ok = n.first("type")
		key += ".type"
	}
	if !ok {
		return ""
	}
	text, _ := n.scalar()
	spelling := strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(text))
	if t, ok := spellings[spelling]; ok {
		return t
	}
	e.note(key, n.line, "the type is unknown; known are stdio, http and sse")
	if e.s.URL != "" && e.s.Command == "" {
		return Auto
	}
	return ""
}

func (e *entry) headers() {
	n, key, ok := e.n.first("headers", "http_headers")
	if !ok || e.s.URL == "" {
		return
	}
	if n.kind != kindObject || len(n.fields) > maxItems {
		e.note(key, n.line, "it is not an object of at most %d headers, so it is left out", maxItems)
		return
	}
	for _, f := range n.fields {
		text, ok := f.val.scalar()
		switch {
		case f.val.kind == kindNull:
			continue
		case !ok || strings.ContainsAny(text, "\r\n\x00") || !isHeaderName(f.key):
			e.note(key+"."+f.key, f.line, "it is not a valid header, so it is left out")
			continue
		case e.s.Headers == nil:
			e.s.Headers = map[string]string{}
		}
		e.s.Headers[f.key] = text
	}
}

// isHeaderName reports whether name is a token of RFC 9110.
func isHeaderName(name string) bool {
	for _, r := range name {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return name != ""
}
