package proxy

import (
	"context"
	"encoding/json"
)

// serversLoad loads servers for code that asks for them.
func (s *Session) serversLoad(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Names []string `json:"names"`
	}
	if err := decode("servers.load", params, &p); err != nil {
		return nil, err
	}
	if len(p.Names) == 0 || len(p.Names) > maxLoaded {
		return nil, errorf(CodeBadRequest, "servers.load needs names, 1 to %d names of servers as servers.list gives them.", maxLoaded)
	}
	if err := s.mayLoad(p.Names); err != nil {
		return nil, err
	}
	loaded, err := s.Load(p.Names)
	if err != nil {
		return nil, err
	}
	rows := make([]loadedRow, len(loaded))
	for i, l := range loaded {
		rows[i] = loadedRow(l)
	}
	return reply(map[string]any{"loaded": rows})
}

// A loadedRow tells code of a server that it may call.
type loadedRow struct {
	Name  string `json:"name"`
	Alias string `json:"alias"`
}

// admitLoad asks whether the session may load servers, each of which it could
// call then.
func (s *Session) admitLoad([]Loaded) error { return nil }
