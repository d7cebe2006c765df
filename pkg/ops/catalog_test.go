package ops

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A shelf is a catalogue that works.
type shelf struct {
	at   Place
	list []Listing
	next chan Refreshed // given by the test
}

func (s *shelf) List(_ context.Context, at Place) ([]Listing, error) {
	s.at = at
	if at.Cwd == "" {
		return nil, errors.New("no folder")
	}
	return s.list, nil
}

func (s *shelf) Refresh(ctx context.Context, what Refresh, report func(Refreshed)) error {
	s.at = what.Place
	for range what.Servers {
		select {
		case one := <-s.next:
			report(one)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *shelf) Clear(_ context.Context, what Clear) (Cleared, error) {
	return Cleared{Lists: len(what.Servers), Unknown: []string{"x"}}, nil
}

func TestTheCatalogueTravelsOverTheSocket(t *testing.T) {
	n := 3
	s := &shelf{next: make(chan Refreshed), list: []Listing{
		{Server: "a", Here: true, State: "used", Tools: &n, Listed: time.Unix(1700000000, 0).UTC(), Stale: "it is gone"}, {Server: "b", State: "configured"},
	}}
	mux := Handler(func() Status { return Status{} }, nil)
	HandleCatalog(mux, s)
	path := filepath.Join(t.TempDir(), "ops.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, mux) }()
	at := Place{Cwd: "/p", Env: map[string]string{"HOME": "/h"}}
	list, err := ListCatalog(ctx, path, at)
	if diff := cmp.Diff(s.list, list); err != nil || diff != "" {
		t.Errorf("list: %v (-want +got):\n%s", err, diff)
	}
	if _, err := ListCatalog(ctx, path, Place{}); err == nil || err.Error() != "no folder" {
		t.Errorf("a refusal: %v", err)
	}
	want := []Refreshed{{Server: "a", Tools: 3, Added: []string{"x"}, Was: "1", Version: "2"}, {Server: "b", Error: "it can't start"}}
	var got []Refreshed
	go func() { s.next <- want[0] }()
	err = RefreshCatalog(ctx, path, Refresh{Place: at, Servers: []string{"a", "b"}}, func(one Refreshed) error {
		if got = append(got, one); len(got) == 1 { // it is here while the other is not
			go func() { s.next <- want[1] }()
		}
		return nil
	})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("refresh: %v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(at, s.at); diff != "" {
		t.Errorf("place (-want +got):\n%s", diff)
	}
	cleared, err := ClearCatalog(ctx, path, Clear{Servers: []string{"a", "b"}})
	if diff := cmp.Diff(Cleared{2, []string{"x"}}, cleared); err != nil || diff != "" {
		t.Errorf("clear: %v (-want +got):\n%s", err, diff)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/catalog/clear", strings.NewReader("all")))
	if w.Code != http.StatusBadRequest {
		t.Errorf("what is no request: got %d %q", w.Code, w.Body)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
