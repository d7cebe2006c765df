package main

import (
	"path/filepath"
	"strings"

	"github.com/bridged/bridged/pkg/memory"
	"github.com/bridged/bridged/pkg/proxy"
)

// savedTools are the functions that code has saved. They are the user's, and the
// same for all agents.
func savedTools(c *config, p paths, getenv func(string) string) *memory.Tools {
	return memory.NewTools(memory.ToolOptions{
		Off: !bool(c.Tools.Enabled), Folder: p.kept, Shown: tilde(p.kept, getenv("HOME")),
		MaxBytes: int(c.Tools.MaxBytes), MaxTools: int(c.Tools.MaxCount), Versions: int(c.Tools.Versions),
	})
}

// tilde is what people call a path.
func tilde(path, home string) string {
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && home != "" {
		return "~/" + filepath.ToSlash(rest)
	}
	return path
}

// savedDocs are the saved tools as a search finds them.
func (d *daemon) savedDocs() []proxy.Saved {
	tools := d.tools.List()
	list := make([]proxy.Saved, len(tools))
	for i, t := range tools {
		list[i] = proxy.Saved{Name: t.Name, Signature: t.Signature, Description: t.Description, Problem: t.Problem}
	}
	return list
}
