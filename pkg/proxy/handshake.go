package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// greet performs the initialize handshake. Versions are dates; we ask for the
// newest that has a handshake and take whatever the server answers with: the
// few methods that we use are the same in all. mcp-go's client does not, it
// refuses versions that it does not know and answers that name none.
func (u *upstream) greet(ctx context.Context) error {
	version, err := u.initialize(ctx, mcp.LATEST_LEGACY_PROTOCOL_VERSION)
	if newer := modernVersion(err); newer != "" {
		return u.discover(ctx, newer)
	}
	if older, ok := olderVersion(err); ok {
		version, err = u.initialize(ctx, older)
	}
	if err != nil {
		return err
	}
	u.version = version
	if c, ok := u.conn.(transport.HTTPConnection); ok {
		c.SetProtocolVersion(version)
	}
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = string(mcp.MethodNotificationInitialized)
	return u.conn.SendNotification(ctx, n)
}

func (u *upstream) initialize(ctx context.Context, version string) (string, error) {
	params, err := json.Marshal(map[string]any{
		"protocolVersion": version,
		"capabilities":    capabilities,
		"clientInfo":      map[string]string{"name": "bridged", "version": u.opts.Version},
	})
	if err != nil {
		return "", fmt.Errorf("encoding initialize: %w", err)
	}
	raw, err := u.request(ctx, string(mcp.MethodInitialize), params)
	if failed, ok := errors.AsType[*rpcError](err); ok {
		return "", fmt.Errorf("it refused initialize with protocol version %s: %w", version, failed)
	}
	if err != nil {
		return "", err
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(raw, &result); err != nil {
		return "", fmt.Errorf("it answered initialize with no object: %s", clip(string(raw), 200))
	}
	var named string
	_ = json.Unmarshal(result["protocolVersion"], &named) // no text, no version
	u.checkVersion(version, named)
	u.card = newCard(result)
	return named, nil
}

// checkVersion notes versions that we don't know. The connection is kept.
func (u *upstream) checkVersion(asked, named string) {
	if !slices.Contains(mcp.ValidProtocolVersions, named) {
		u.opts.Logger.Warn().Str("server", u.name).Str("asked", asked).Str("answered", clip(named, 40)).
			Msg("unknown protocol version")
	}
}

// olderVersion returns the version to try after a refusal. A server names those
// that it speaks in the error's data; if it doesn't, the oldest is tried.
func olderVersion(err error) (string, bool) {
	failed, ok := errors.AsType[*rpcError](err)
	if !ok {
		return olderByText(err)
	}
	best := ""
	for _, v := range supported(failed) {
		if !mcp.IsModernProtocol(v) && slices.Contains(mcp.ValidProtocolVersions, v) {
			best = max(best, v)
		}
	}
	if best == "" && failed.details.Code == mcp.INVALID_PARAMS {
		best = "2024-11-05"
	}
	if best == "" {
		return olderByText(err)
	}
	return best, true
}
