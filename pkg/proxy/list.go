package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxPages bounds the pages of one tools/list. Real servers have a few.
	maxPages = 200

	// maxTools bounds the tools of one server, and maxToolsBytes their size.
	maxTools      = 10_000
	maxToolsBytes = 64 << 20
)

// A listing is what a server's tools/list gave.
type listing struct {
	tools   []json.RawMessage
	warning string // why it may not be complete; empty if it is
}

// list asks for all of the server's tools. When a page fails after the first,
// what came before is kept, with a warning.
func (u *upstream) list(ctx context.Context) (listing, error) {
	var l listing
	cursor, bytes := "", 0
	seen := map[string]bool{}
	for page := 1; ; page++ {
		tools, next, err := u.listPage(ctx, cursor)
		if err != nil {
			return l.end(page, err)
		}
		for _, t := range tools {
			bytes += len(t)
		}
		l.tools = append(l.tools, tools...)
		if next == "" {
			return l, nil
		}
		switch {
		case seen[next] || next == cursor:
			l.warning = fmt.Sprintf("its list of tools was cut after page %d, since the server repeats cursor %q", page, clip(next, 60))
		case page == maxPages || len(l.tools) >= maxTools || bytes >= maxToolsBytes:
			l.warning = fmt.Sprintf("its list of tools was cut after page %d with %d tools", page, len(l.tools))
		default:
			seen[next] = true
			cursor = next
			continue
		}
		return l, nil
	}
}

// end decides what the failure of a page means.
func (l listing) end(page int, err error) (listing, error) {
	if page > 1 {
		l.warning = fmt.Sprintf("its list of tools is incomplete: page %d failed: %v", page, err)
		return l, nil
	}
	failed, ok := errors.AsType[*rpcError](err)
	if ok && failed.details.Code == mcp.METHOD_NOT_FOUND {
		return l, nil // a server without tools
	}
	return l, err
}

func (u *upstream) listPage(ctx context.Context, cursor string) (tools []json.RawMessage, next string, err error) {
	params := json.RawMessage("{}")
	if cursor != "" {
		if params, err = json.Marshal(map[string]string{"cursor": cursor}); err != nil {
			return nil, "", fmt.Errorf("encoding cursor: %w", err)
		}
	}
	raw, err := u.request(ctx, string(mcp.MethodToolsList), params)
	if err != nil {
		return nil, "", err
	}
	var result struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor json.RawMessage   `json:"nextCursor"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, "", fmt.Errorf("reading its list of tools: %w", err)
	}
	_ = json.Unmarshal(result.NextCursor, &next) // null, or no text: the last page
	return result.Tools, next, nil
}
