package ops

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// counted returns metrics of a daemon in which a little of everything happened.
func counted() *Metrics {
	m := NewMetrics(MetricsOptions{
		Version: "1.2.3", Reasons: []string{"closed", "stuck"},
		Status: func() Status {
			return Status{
				Started: time.UnixMilli(1700000000500), Ready: true, Versions: Versions{Go: "go1.26"},
				Engine: Engine{Name: "podman"}, Pool: Pool{Target: 2, Max: 32, Creating: 1, Failures: 3},
				Sandboxes: []Sandbox{{State: "warm", Usage: &Usage{MemoryBytes: 5}}, {State: "paused"}, {State: "warm", Usage: &Usage{MemoryBytes: 7}}},
				Sessions:  []Session{{Pythons: []Python{{State: "paused"}, {State: "none"}, {State: "none"}}}},
				Servers:   []Server{{State: "started"}, {State: "failed"}}, ServerRoom: ServerRoom{Max: 128},
				Queues: Queues{Runs: 1, Leases: 2, Calls: 3, Approvals: 4, Shims: 5}, Audit: &Audit{Waiting: 6, Error: "disk full"},
			}
		},
		Totals: func() Totals { return Totals{1, 2, 3, 4, 5, 6} },
	})
	m.SandboxMade(1500 * time.Millisecond)
	m.SandboxFailed()
	m.SandboxLeased(time.Millisecond)
	m.SandboxPaused()
	m.SandboxEnded("stuck")
	m.Run("ok", 20*time.Millisecond, time.Microsecond)
	m.Run("timeout", 30*time.Second, time.Second)
	m.Call("github", "ok", 300*time.Millisecond, 10, 2000)
	m.Call("github", "timeout", time.Minute, 10, 0)
	m.ServerStarted("github", false)
	m.ServerStarted("github", true)
	m.ServerFailed("broken")
	m.Saved(SavedByCut, 400)
	m.Saved(SavedByTOON, 40)
	return m
}

func TestMetricsFollowTheConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(counted().registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsAreNamed(t *testing.T) {
	m := counted()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "bridged_") {
			got = append(got, f.GetName())
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(m.Names())), got); diff != "" {
		t.Errorf("names (-listed +gathered):\n%s", diff)
	}
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	mux := http.NewServeMux()
	HandleMetrics(mux, m)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetricsTellWhatWasCounted(t *testing.T) {
	text := scrape(t, counted())
	for _, want := range []string{
		`bridged_build_info{goversion="go1.26",version="1.2.3"} 1`,
		`bridged_start_time_seconds 1.7000000005e+09`,
		`bridged_ready 1`, `bridged_engine_up 1`, `bridged_audit_up 0`, `bridged_audit_lines_waiting 6`,
		`bridged_pool_sandboxes{state="warm"} 2`, `bridged_pool_sandboxes{state="leased"} 0`,
		`bridged_pool_sandboxes{state="paused"} 1`, `bridged_pool_sandboxes{state="creating"} 1`,
		`bridged_pool_target_sandboxes 2`, `bridged_pool_max_sandboxes 32`, `bridged_pool_failures 3`,
		`bridged_sandbox_memory_bytes 12`,
		`bridged_sessions 1`, `bridged_python_sessions{state="none"} 2`, `bridged_python_sessions{state="running"} 0`,
		`bridged_queue_length{queue="runs"} 1`, `bridged_queue_length{queue="leases"} 2`,
		`bridged_queue_length{queue="calls"} 3`, `bridged_queue_length{queue="approvals"} 4`, `bridged_queue_length{queue="shims"} 5`,
		`bridged_servers{state="failed"} 1`, `bridged_servers{state="stopped"} 0`, `bridged_servers_max 128`,
		`bridged_agent_received_bytes_total 1`, `bridged_agent_sent_bytes_total 2`, `bridged_agent_messages_refused_total 3`,
		`bridged_sandbox_received_bytes_total 4`, `bridged_sandbox_sent_bytes_total 5`, `bridged_sandbox_frames_refused_total 6`,
		`bridged_sandbox_launch_seconds_sum 1.5`, `bridged_sandbox_launch_failures_total 1`,
		`bridged_sandbox_lease_wait_seconds_bucket{le="0.0005"} 0`, `bridged_sandbox_lease_wait_seconds_bucket{le="0.001"} 1`,
		`bridged_sandbox_pauses_total 1`,
		`bridged_sandboxes_ended_total{reason="stuck"} 1`, `bridged_sandboxes_ended_total{reason="closed"} 0`,
		`bridged_run_duration_seconds_count{status="timeout"} 1`, `bridged_run_duration_seconds_sum{status="ok"} 0.02`,
		`bridged_run_wait_seconds_count 2`,
		`bridged_server_call_duration_seconds_sum{server="github"} 60.3`,
		`bridged_server_calls_total{outcome="timeout",server="github"} 1`,
		`bridged_server_request_bytes_total{server="github"} 20`, `bridged_server_response_bytes_total{server="github"} 2000`,
		`bridged_server_starts_total{server="github"} 2`, `bridged_server_restarts_total{server="github"} 1`,
		`bridged_server_failures_total{server="broken"} 1`,
		`bridged_result_saved_tokens_total{by="cut"} 100`, `bridged_result_saved_tokens_total{by="toon"} 10`,
		`go_goroutines `, `process_resident_memory_bytes `,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestServersWithoutNumberHaveAFewSeries(t *testing.T) {
	m := counted()
	for i := range 1000 {
		name := fmt.Sprintf("server %d\xff\n\"", i)
		m.Call(name, "ok", time.Second, 1, 1)
		m.ServerStarted(name, true)
		m.ServerFailed(name + strings.Repeat("x", 1<<16))
	}
	text := scrape(t, m)
	if n := strings.Count(text, "\nbridged_server_request_bytes_total{"); n > maxServerLabels+1 {
		t.Errorf("%d servers have series, want at most %d", n, maxServerLabels+1)
	}
	if !strings.Contains(text, `bridged_server_calls_total{outcome="ok",server="other"} 9`) {
		t.Error("there are no other servers")
	}
	if len(text) > 256<<10 {
		t.Errorf("a scrape has %d bytes", len(text))
	}
	if problems, err := testutil.GatherAndLint(m.registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestWhatASecondMetricsCounts(t *testing.T) {
	counted()
	m := NewMetrics(MetricsOptions{Status: func() Status { return Status{Engine: Engine{Error: "none"}} }, Totals: func() Totals { return Totals{} }})
	text := scrape(t, m)
	for _, want := range []string{"bridged_ready 0", "bridged_engine_up 0", "bridged_audit_up 1", "bridged_sandbox_launch_failures_total 0"} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	m := counted()
	b.ReportAllocs()
	for b.Loop() {
		m.Call("github", "ok", time.Millisecond, 100, 1000)
	}
}
