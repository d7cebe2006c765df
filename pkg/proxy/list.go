package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxPages bounds the pages of one list. Real servers have a few.
	maxPages = 200

	// maxListed bounds the items of one list, and maxListedBytes their size.
	maxListed      = 10_000
	maxListedBytes = 64 << 20
)

// A listKind is something that servers have lists of.
type listKind struct {
	method     string // of MCP
	member     string // of its result
	called     string // in a sentence
	capability string // that a server with such a list declares
}

var (
	toolLists     = listKind{string(mcp.MethodToolsList), "tools", "tools", "tools"}
	resourceLists = listKind{string(mcp.MethodResourcesList), "resources", "resources", "resources"}
	templateLists = listKind{string(mcp.MethodResourcesTemplatesList), "resourceTemplates", "resource templates", "resources"}
	promptLists   = listKind{string(mcp.MethodPromptsList), "prompts", "prompts", "prompts"}
)

// A listing is what the pages of one list gave.
type listing struct {
	items   []json.RawMessage
	next    string // cursor of the page behind them, "" if there is none
	warning string // why it may not be complete; empty if it is
	card    card   // of the server, if somebody needs it
}

// list asks for all of one list, or for what is behind a cursor. When a page
// fails after the first, what came before is kept, with a warning.
func (u *upstream) list(ctx context.Context, kind listKind, cursor string) (listing, error) {
	l := listing{next: cursor}
	bytes := 0
	seen := map[string]bool{}
	for page := 1; ; page++ {
		seen[l.next] = true
		items, next, err := u.listPage(ctx, kind, l.next)
		if err != nil {
			return l.end(kind, page, err)
		}
		for _, item := range items {
			bytes += len(item)
		}
		l.items = append(l.items, items...)
		l.next = next
		switch {
		case next == "":
			return l, nil
		case seen[next]:
			l.next = ""
			l.warning = fmt.Sprintf("its list of %s was cut after page %d, since the server repeats cursor %q", kind.called, page, clip(next, 60))
		case page == maxPages || len(l.items) >= maxListed || bytes >= maxListedBytes:
			l.warning = fmt.Sprintf("its list of %s was cut after page %d with %d %s", kind.called, page, len(l.items), kind.called)
		default:
			continue
		}
		return l, nil
	}
}

// end decides what the failure of a page means.
func (l listing) end(kind listKind, page int, err error) (listing, error) {
	if page > 1 {
		l.warning = fmt.Sprintf("its list of %s is incomplete: page %d failed: %v", kind.called, page, err)
		return l, nil
	}
	failed, ok := errors.AsType[*rpcError](err)
	if ok && failed.details.Code == mcp.METHOD_NOT_FOUND {
		return l, nil // a server without any
	}
	return l, err
}

func (u *upstream) listPage(ctx context.Context, kind listKind, cursor string) (items []json.RawMessage, next string, err error) {
	params := json.RawMessage("{}")
	if cursor != "" {
		if params, err = json.Marshal(map[string]string{"cursor": cursor}); err != nil {
			return nil, "", fmt.Errorf("encoding cursor: %w", err)
		}
	}
	raw, err := u.request(ctx, kind.method, params)
	if err != nil {
		return nil, "", err
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, "", fmt.Errorf("reading its list of %s: %w", kind.called, err)
	}
	if list, ok := result[kind.member]; ok {
		if err := json.Unmarshal(list, &items); err != nil {
			return nil, "", fmt.Errorf("reading its list of %s: %w", kind.called, err)
		}
	}
	_ = json.Unmarshal(result["nextCursor"], &next) // null, or no text: the last page
	return items, next, nil
}
