package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/mark3labs/mcp-go/client/transport"
)

const (
	// maxGrant bounds a file of the store, in bytes.
	maxGrant = 256 << 10

	// lockPause is the time between two looks at a lock that another process
	// has.
	lockPause = 50 * time.Millisecond
)

// A grant is what a login has brought: who we are to the authorization server,
// and what it lets us do. It is one file of the store.
type grant struct {
	Resource      string          `json:"resource"`              // the server's URL
	Metadata      string          `json:"metadata,omitempty"`    // where the server describes its protection, if it has told
	AuthServer    string          `json:"auth_server,omitempty"` // where the authorization server describes itself, if the definition says
	TokenEndpoint string          `json:"token_endpoint"`        // which alone gets the refresh token
	ClientID      string          `json:"client_id"`
	ClientSecret  string          `json:"client_secret,omitempty"`
	AuthMethod    string          `json:"auth_method,omitempty"`
	Scopes        []string        `json:"scopes,omitempty"`
	Token         transport.Token `json:"token"`
}

// A tokenStore keeps grants in a folder, a file for each server, which only its
// owner can read. It is safe for concurrent use, by several processes too.
type tokenStore struct {
	dir string // "" keeps nothing

	mu    sync.Mutex // guards locks
	locks map[string]chan struct{}
}

// storeKey names the file of a server. Query and fragment don't count: they
// often hold secrets, and tokens are for what is before them.
func storeKey(u *url.URL) string {
	sum := sha256.Sum256([]byte(resourceOf(u)))
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(u.Host))
	return host[:min(len(host), 60)] + "-" + hex.EncodeToString(sum[:12])
}

// resourceOf is what tokens for a server are meant for.
func resourceOf(u *url.URL) string {
	r := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	return r.String()
}

func (s *tokenStore) path(key string) string { return filepath.Join(s.dir, key+".json") }

// A stamp tells one state of a file from another.
type stamp struct {
	modified time.Time
	size     int64
}

// stamp returns the zero stamp for a grant that is not there.
func (s *tokenStore) stamp(key string) stamp {
	info, err := os.Stat(s.path(key))
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// load returns a grant, or nil when there is none.
func (s *tokenStore) load(key string) (*grant, error) {
	if s.dir == "" {
		return nil, nil
	}
	info, err := os.Stat(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > maxGrant {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the login: %w", err)
	}
	text, err := os.ReadFile(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the login: %w", err)
	}
	var g grant
	if err := json.Unmarshal(text, &g); err != nil {
		return nil, fmt.Errorf("reading the login in %s: it is damaged; log in again", s.path(key)) // the error would quote it
	}
	return &g, nil
}

// save writes a grant in place of the one before, whole or not at all.
func (s *tokenStore) save(key string, g *grant) error {
	if s.dir == "" {
		return errors.New("keeping the login: there is no folder for logins")
	}
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the login: %w", err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("making the folder for logins: %w", err)
	}
	if err := renameio.WriteFile(s.path(key), append(text, '\n'), 0o600, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("writing the login: %w", err)
	}
	return nil
}

// remove forgets a grant, and reports whether there was one.
func (s *tokenStore) remove(key string) (bool, error) {
	err := os.Remove(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("removing the login: %w", err)
	}
	return true, nil
}

// lock keeps everybody else from renewing a grant: a refresh token may be good
// for one use only.
func (s *tokenStore) lock(ctx context.Context, key string) (unlock func(), err error) {
	mine := s.local(key)
	select {
	case mine <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	file, err := s.lockFile(ctx, key)
	if err != nil {
		<-mine
		return nil, err
	}
	return func() {
		_ = file.Close() // which unlocks
		<-mine
	}, nil
}

// local is the lock within this process.
func (s *tokenStore) local(key string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks == nil {
		s.locks = map[string]chan struct{}{}
	}
	if s.locks[key] == nil {
		s.locks[key] = make(chan struct{}, 1)
	}
	return s.locks[key]
}

func (s *tokenStore) lockFile(ctx context.Context, key string) (*flock.Flock, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for logins: %w", err)
	}
	lock := flock.New(filepath.Join(s.dir, key+".lock"))
	if _, err := lock.TryLockContext(ctx, lockPause); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("locking the login: %w", err)
	}
	return lock, nil
}
