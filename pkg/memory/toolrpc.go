package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
)

// Call answers a sandbox's request:
//
//	saved.list {}
//	    -> {tools: [SavedTool...]}
//	saved.read {name, version?, digest?}
//	    -> ToolText, or {same: true} if it has that digest
//	saved.save {name, source, description?, version?}
//	    -> ToolSaved
//	saved.restore {name, version?}
//	    -> ToolSaved
//	saved.delete {name}
//	    -> {version}: the last, which is kept
//
// Errors are of type [Error] if the request was at fault.
func (t *Tools) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if t.opts.Off {
		return nil, errorf(CodeToolsOff, "Saved tools are switched off by the user (tools.enabled). Define the function in this session.")
	}
	var p struct {
		Name        string `json:"name"`
		Source      string `json:"source"`
		Description string `json:"description"`
		Version     *int   `json:"version"`
		Digest      string `json:"digest"`
	}
	if len(bytes.TrimSpace(params)) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, errorf(CodeBadRequest, "The parameters of %.40s cannot be read: %v.", method, err)
		}
	}
	version := 0
	if p.Version != nil {
		version = *p.Version
	}
	var result any
	var err error
	switch method {
	case "saved.list":
		result = map[string]any{"tools": t.List()}
	case "saved.read":
		result, err = t.readUnless(p.Name, version, p.Digest)
	case "saved.save":
		result, err = t.Save(ctx, ToolSave{p.Name, p.Source, p.Description, p.Version})
	case "saved.restore":
		result, err = t.Restore(ctx, p.Name, version)
	case "saved.delete":
		version, err = t.Delete(ctx, p.Name)
		result = map[string]any{"version": version}
	default:
		err = errorf(CodeBadRequest, "There is no method %.40q.", method)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// Repeatable reports whether a request only reads, so that it may be made again.
func (t *Tools) Repeatable(method string, _ json.RawMessage) bool {
	return method == "saved.list" || method == "saved.read"
}

// A ToolSession tells one session's sandbox which tools there are.
type ToolSession struct {
	tools *Tools
	told  []string
}

// Session returns what tells a session. It is for one goroutine at a time.
func (t *Tools) Session() *ToolSession { return &ToolSession{tools: t} }

// Tell returns the names of the tools as JSON, see [Tools.Names]; nil if the
// sandbox knows them. anew is that it was told nothing before.
func (s *ToolSession) Tell(anew bool) json.RawMessage {
	if anew {
		s.told = nil
	}
	names := s.tools.Names()
	if slices.Equal(names, s.told) {
		return nil
	}
	s.told = names
	text, err := json.Marshal(append([]string{}, names...))
	if err != nil {
		return nil // no names can do that
	}
	return text
}

// readUnless leaves out a text that the sandbox has.
func (t *Tools) readUnless(name string, version int, has string) (any, error) {
	text, err := t.Read(name, version)
	if err == nil && has != "" && text.Digest == has {
		return map[string]any{"same": true}, nil
	}
	return text, err
}
