package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// Scopes, as code names them.
const (
	scopeGlobal  = "global"
	scopeProject = "project"
)

// maxListed bounds the memories of one answer.
const maxListed = 2000

// maxAsked bounds the requests of a session that are answered at once: it must
// not hold up the others.
const maxAsked = 4

// A Session answers what one session's code asks, and tells its sandbox what
// files there are. Call may be called many times at once, Tell once at a time.
type Session struct {
	global, project *Space
	asked           chan struct{} // holds a token for each request that is being answered
	shown           shown
}

// Session returns what answers for a session whose agent works in a folder.
func (s *Store) Session(folder string) *Session {
	return &Session{global: s.Global(), project: s.Project(folder), asked: make(chan struct{}, maxAsked)}
}

// A request is what all methods take.
type request struct {
	Key      string          `json:"key"`
	Scope    string          `json:"scope"`
	Value    json.RawMessage `json:"value"`
	Metadata json.RawMessage `json:"metadata"`
	If       string          `json:"if"`
	Version  *int64          `json:"version"`
	Prefix   string          `json:"prefix"`
	Query    string          `json:"query"`
	Limit    int             `json:"limit"`
}

var methods = map[string]func(*Session, context.Context, request) (any, error){
	"memory.save":    (*Session).save,
	"memory.load":    (*Session).load,
	"memory.list":    (*Session).list,
	"memory.delete":  (*Session).delete,
	"memory.search":  (*Session).search,
	"memory.history": (*Session).history,
	"memory.restore": (*Session).restore,
}

// Repeatable reports whether a request only reads, so that it may be made again.
func (s *Session) Repeatable(method string, _ json.RawMessage) bool {
	switch method {
	case "memory.load", "memory.list", "memory.search", "memory.history":
		return true
	}
	return false
}

// Call answers one request of the sandbox. The package documentation is the
// methods' contract.
func (s *Session) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	answer, ok := methods[method]
	if !ok {
		return nil, errorf(CodeBadRequest, "There is no method %.100q. There are: %s.", method, strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
	}
	var r request
	if err := json.Unmarshal(params, &r); err != nil {
		return nil, errorf(CodeBadRequest, "The parameters of %s cannot be read: %v.", method, err)
	}
	select {
	case s.asked <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.asked }()
	result, err := answer(s, ctx, r)
	if err != nil {
		return nil, withoutPath(err)
	}
	return plainJSON(result)
}

// withoutPath is an error as code may see it: where the files are is the user's
// alone.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("the user's memory folder can't be used (%s): %w", e.Op, e.Err)
	}
	return err
}

// space is the one that a request names.
func (s *Session) space(scope string) (*Space, error) {
	switch scope {
	case "", scopeGlobal:
		return s.global, nil
	case scopeProject:
		return s.project, nil
	}
	return nil, errorf(CodeInvalid, "There is no scope %.50q: use 'global', which all sessions share, or 'project'.", scope)
}

// spaces are those that a list is of: both if none is named.
func (s *Session) spaces(scope string) ([]*Space, error) {
	if scope == "" {
		return []*Space{s.global, s.project}, nil
	}
	sp, err := s.space(scope)
	return []*Space{sp}, err
}

// A wireRow is a memory in an answer. What does not apply is left out.
type wireRow struct {
	Key      string          `json:"key"`
	Value    json.RawMessage `json:"value,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Created  string          `json:"created,omitempty"`
	Updated  string          `json:"updated,omitempty"`
	Version  int64           `json:"version,omitempty"`
	Bytes    int             `json:"bytes,omitempty"`
	Scope    string          `json:"scope,omitempty"`
	Snippet  string          `json:"snippet,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func wireTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (s *Session) save(ctx context.Context, r request) (any, error) {
	sp, err := s.space(r.Scope)
	if err != nil {
		return nil, err
	}
	if len(r.Value) == 0 {
		r.Value = json.RawMessage("null")
	}
	if bytes.Equal(r.Metadata, []byte("null")) {
		r.Metadata = nil
	}
	m, err := sp.Save(ctx, r.Key, Change{Value: r.Value, Metadata: r.Metadata, If: r.If, Version: r.Version})
	if err != nil {
		return nil, err
	}
	return saved(m)
}

// saved is the answer to what has changed a memory: with its file, for the
// sandbox to show.
func saved(m Memory) (map[string]any, error) {
	text, err := m.text()
	if err != nil {
		return nil, err
	}
	return map[string]any{"version": m.Version, "name": m.Name, "text": string(text)}, nil
}

func (s *Session) load(_ context.Context, r request) (any, error) {
	sp, err := s.space(r.Scope)
	if err != nil {
		return nil, err
	}
	m, err := sp.Load(r.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]any{"found": false, "if": "0"}, nil
	}
	if err != nil {
		return nil, err
	}
	row := Row{Memory: m}.wire()
	row.Value = m.Value
	return map[string]any{"found": true, "if": m.Stamp, "memory": row}, nil
}

func (s *Session) list(_ context.Context, r request) (any, error) {
	spaces, err := s.spaces(r.Scope)
	if err != nil {
		return nil, err
	}
	rows := []wireRow{}
	for _, sp := range spaces {
		list, err := sp.List(r.Prefix)
		if err != nil {
			return nil, err
		}
		for _, row := range list {
			rows = append(rows, row.wire())
		}
	}
	more := max(len(rows)-maxListed, 0)
	return map[string]any{"memories": rows[:len(rows)-more], "more": more}, nil
}

func (s *Session) delete(ctx context.Context, r request) (any, error) {
	sp, err := s.space(r.Scope)
	if err != nil {
		return nil, err
	}
	name, err := sp.Delete(ctx, r.Key)
	return map[string]any{"deleted": name != "", "name": name}, err
}

func (s *Session) search(_ context.Context, r request) (any, error) {
	spaces, err := s.spaces(r.Scope)
	if err != nil {
		return nil, err
	}
	if len(r.Query) > maxKey {
		return nil, errorf(CodeInvalid, "The query has %d bytes, and %d is the limit: search for some words.", len(r.Query), maxKey)
	}
	var hits []Hit
	for _, sp := range spaces {
		list, err := sp.Search(r.Query)
		if err != nil {
			return nil, err
		}
		hits = append(hits, list...)
	}
	sortHits(hits)
	rows := []wireRow{}
	for _, h := range hits[:min(len(hits), max(r.Limit, 1), maxListed)] {
		row := h.wire()
		row.Snippet = h.Snippet
		rows = append(rows, row)
	}
	return map[string]any{"memories": rows}, nil
}

func (s *Session) history(_ context.Context, r request) (any, error) {
	sp, err := s.space(r.Scope)
	if err != nil {
		return nil, err
	}
	list, err := sp.History(r.Key)
	if err != nil {
		return nil, err
	}
	rows := []map[string]any{}
	for _, e := range list {
		row := map[string]any{"version": e.Version, "updated": wireTime(e.Updated), "bytes": e.Bytes}
		if e.Current {
			row["current"] = true
		}
		rows = append(rows, row)
	}
	return map[string]any{"versions": rows}, nil
}

func (s *Session) restore(ctx context.Context, r request) (any, error) {
	sp, err := s.space(r.Scope)
	if err != nil {
		return nil, err
	}
	number := int64(0)
	if r.Version != nil {
		if number = *r.Version; number <= 0 {
			return nil, errorf(CodeInvalid, "There is no version %d: memory_history(key) lists those that there are.", number)
		}
	}
	m, err := sp.Restore(ctx, r.Key, number)
	if err != nil {
		return nil, err
	}
	answer, err := saved(m)
	if err != nil {
		return nil, err
	}
	answer["value"] = m.Value
	return answer, nil
}
