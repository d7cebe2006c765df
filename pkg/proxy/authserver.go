package proxy

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

// withResource returns a client for the authorization server that a definition
// names (oauth.authServerMetadataUrl). mcp-go knows which resource a token is for
// (RFC 8707) only where the server itself led to that one, so it is added here.
func withResource(client *http.Client, g *grant) *http.Client {
	if g.AuthServer == "" {
		return client
	}
	out := *client
	out.Transport = &resourceAdder{client.Transport, g.Resource}
	return &out
}

// resourceOfAuthorization adds the resource to the address of a login page.
func resourceOfAuthorization(address string, g *grant) string {
	if g.AuthServer == "" {
		return address
	}
	return address + "&" + url.Values{"resource": {g.Resource}}.Encode()
}

type resourceAdder struct {
	base     http.RoundTripper
	resource string
}

// RoundTrip makes one request.
func (a *resourceAdder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return a.base.RoundTrip(req)
	}
	text, err := io.ReadAll(io.LimitReader(req.Body, maxOAuth))
	_ = req.Body.Close() // it was only read
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, err
	}
	form.Set("resource", a.resource)
	body := form.Encode()
	req = req.Clone(req.Context())
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	return a.base.RoundTrip(req)
}
