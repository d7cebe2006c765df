package proxy

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy/oauthtest"
)

func TestCloseEndsCallsOfRemoteServers(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		entered := make(chan struct{})
		f := &httpFake{Legacy: legacy, Gets: []int{0}}
		f.Act = func(_ string, w http.ResponseWriter, r *http.Request) bool {
			if legacy {
				w.WriteHeader(http.StatusAccepted)
			}
			close(entered)
			if !legacy {
				<-r.Context().Done()
			}
			return true
		}
		s := remoteSession(t, f.start(t), quick(), nil)
		ended := make(chan error, 1)
		go func() {
			_, err := s.Call(context.Background(), "tools.call", []byte(`{"server":"fake","tool":"echo"}`))
			ended <- err
		}()
		next(t, entered)
		closeProxy(t, s.proxy)
		select {
		case err := <-ended:
			if !errors.Is(err, ErrClosed) {
				if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeOutcomeUnknown {
					t.Errorf("got %v, want that the proxy is closed", err)
				}
			}
		case <-time.After(hang):
			t.Fatal("the call does not end")
		}
	})
}

func TestRemoteServerThatNeverAnswersFailsItsStart(t *testing.T) {
	silent := listen(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w)
		<-r.Context().Done()
	})
	both(t, func(t *testing.T, legacy bool) {
		o := quick()
		o.StartTimeout = 200 * time.Millisecond
		s := remoteSession(t, (&httpFake{Legacy: legacy}).start(t), o, func(d *discovery.Server) { d.URL = silent.URL })
		_, err := call(t, s, "fake", "echo", args{})
		wantCode(t, err, CodeServerFailed, "did not answer initialize within 200ms")
	})
}

func TestRemoteCallHasItsTimeLimit(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		f := &httpFake{Legacy: legacy}
		f.Act = func(name string, w http.ResponseWriter, r *http.Request) bool {
			if name != "drop" {
				return false
			}
			if legacy {
				w.WriteHeader(http.StatusAccepted)
				return true
			}
			<-r.Context().Done()
			return true
		}
		s := remoteSession(t, f.start(t), quick(), nil)
		must(t, s, "echo", args{})
		limitCalls(s, 2*time.Second)
		_, err := call(t, s, "fake", "drop", args{})
		limitCalls(s, time.Minute)
		wantCode(t, err, CodeTimeout, "2s", "not known")
		must(t, s, "echo", args{})
	})
}

func TestCompanysAuthorityIsTrusted(t *testing.T) {
	f := (&httpFake{}).start(t)
	var hits atomic.Int64
	srv, end := oauthtest.Unstarted(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		f.serve(w, r)
	}))
	t.Cleanup(end)
	srv.StartTLS()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		env map[string]string
		ok  bool
	}{
		"nothing is said":     {nil, false},
		"node's variable":     {map[string]string{"NODE_EXTRA_CA_CERTS": file}, true},
		"openssl's variable":  {map[string]string{"SSL_CERT_FILE": file}, true},
		"a file that is gone": {map[string]string{"SSL_CERT_FILE": file + "x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := f.server(discovery.HTTP)
			server.URL = srv.URL + "/mcp"
			s := newProxy(t, quick()).NewSession(SessionOptions{
				Servers: func() []discovery.Server { return []discovery.Server{server} },
				Getenv:  func(name string) (string, bool) { v, ok := row.env[name]; return v, ok },
			})
			t.Cleanup(s.Close)
			if _, err := s.Load([]string{"fake"}); err != nil {
				t.Fatal(err)
			}
			_, err := call(t, s, "fake", "echo", args{})
			if row.ok && err != nil {
				t.Fatal(err)
			}
			if !row.ok {
				wantCode(t, err, CodeServerFailed, "certificate")
			}
		})
	}
}
