package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/policy"
	"github.com/bridged/bridged/pkg/proxy"
)

// maxToolName bounds the name of a tool that is told, in bytes.
const maxToolName = 200

// A catalogue answers ops' requests about the lists of tools.
type catalogue struct{ d *daemon }

var _ ops.Catalog = catalogue{}

// visit opens a place's servers without starting any. The caller must close
// them.
func (c catalogue) visit(at ops.Place) (*upstreams, error) {
	if !filepath.IsAbs(at.Cwd) {
		return nil, fmt.Errorf("the folder %q is not absolute", at.Cwd)
	}
	return c.d.session(at.Cwd, at.Env, proxy.SessionOptions{Label: "bridged catalog", Looks: true})
}

// List tells of the place's servers, and of all other lists that are kept.
func (c catalogue) List(_ context.Context, at ops.Place) ([]ops.Listing, error) {
	servers, err := c.visit(at)
	if err != nil {
		return nil, err
	}
	defer servers.Close()
	known, err := servers.calls.Known()
	if err != nil {
		c.d.log.Warn().Err(err).Msg("list kept tools")
	}
	list := make([]ops.Listing, len(known))
	for i, k := range known {
		list[i] = describeListing(k)
	}
	return list, nil
}

func describeListing(k proxy.Known) ops.Listing {
	l := ops.Listing{
		Server: policy.Plain(k.Server, maxToolName), Here: k.Here, State: k.State, Problem: policy.Plain(k.Problem, maxPart),
		Listed: k.Listed, Name: policy.Plain(k.Name, maxToolName), Version: policy.Plain(k.Version, maxToolName),
		Warning: policy.Plain(k.Warning, maxPart), Stale: policy.Plain(k.Stale, maxPart), Alike: k.Alike,
	}
	if !k.Listed.IsZero() {
		l.Tools = &k.Tools
	}
	return l
}

// Refresh has lists asked for anew.
func (c catalogue) Refresh(ctx context.Context, what ops.Refresh, report func(ops.Refreshed)) error {
	servers, err := c.visit(what.Place)
	if err != nil {
		return err
	}
	defer servers.Close()
	servers.calls.Relist(ctx, what.Servers, what.All, func(r proxy.Relisted) { report(describeRelisted(r)) })
	return nil
}

func describeRelisted(r proxy.Relisted) ops.Refreshed {
	one := ops.Refreshed{Server: policy.Plain(r.Server, maxToolName)}
	if r.Err != nil {
		one.Error = policy.Plain(r.Err.Error(), maxPart)
		return one
	}
	one.Tools, one.Version, one.Took, one.First = r.Tools, policy.Plain(r.Version, maxToolName), milliseconds(r.Took), !r.Had
	if r.Had {
		one.Was = policy.Plain(r.Was, maxToolName)
		one.Added, one.Removed, one.Changed = plainTools(r.Added), plainTools(r.Removed), plainTools(r.Changed)
	}
	return one
}

func plainTools(names []string) []string {
	plain := make([]string, len(names))
	for i, name := range names {
		plain[i] = policy.Plain(name, maxToolName)
	}
	return plain
}

// Clear drops lists.
func (c catalogue) Clear(_ context.Context, what ops.Clear) (ops.Cleared, error) {
	servers, err := c.visit(what.Place)
	if err != nil {
		return ops.Cleared{}, err
	}
	defer servers.Close()
	n, unknown, err := servers.calls.Unlist(what.Servers)
	return ops.Cleared{Lists: n, Unknown: unknown}, err
}
