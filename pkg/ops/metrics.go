package ops

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxServerLabels bounds the servers that have series of their own; those
	// that come later share those of otherServers. Servers come from
	// configuration files, those of projects too, and each costs some forty
	// series.
	maxServerLabels = 64
	otherServers    = "other"

	// maxScrapes bounds the scrapes at once.
	maxScrapes = 4
)

// Buckets of durations, in seconds: of what takes milliseconds when it is warm
// and minutes at its limit, and of what should take no time at all.
var (
	workBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	waitBuckets = []float64{.0001, .0005, .001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// MetricsOptions say what [Metrics] are of.
type MetricsOptions struct {
	Version string
	Status  func() Status // how the daemon is; called for each scrape
	Totals  func() Totals // what its parts have counted; called for each scrape
	Reasons []string      // why sandboxes end
}

// Totals are what parts of the daemon have counted since it started.
type Totals struct {
	AgentReceived, AgentSent     int64 // bytes from and to agents
	AgentRefused                 int64 // messages of agents that were refused
	SandboxReceived, SandboxSent int64 // bytes from and to sandboxes
	SandboxRefused               int64 // lines of sandboxes that are no frames
}

// Metrics are the daemon's, for Prometheus. Make them with [NewMetrics]. They
// are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	snapshot *snapshot
	names    []string // of our own

	launch, leaseWait, runWait prometheus.Observer
	launchFailures, pauses     prometheus.Counter
	ended, saved               *prometheus.CounterVec
	runs, callTime             *prometheus.HistogramVec
	calls, callIn, callOut     *prometheus.CounterVec
	starts, restarts, failures *prometheus.CounterVec

	mu      sync.Mutex // guards servers
	servers []string   // that have series of their own
}

// NewMetrics returns metrics of which nothing has been counted.
func NewMetrics(o MetricsOptions) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.launch = m.histogram("bridged_sandbox_launch_seconds", "How long it took to make a sandbox, warm imports included.", workBuckets).WithLabelValues()
	m.launchFailures = m.counter("bridged_sandbox_launch_failures_total", "Sandboxes that could not be made.").WithLabelValues()
	m.leaseWait = m.histogram("bridged_sandbox_lease_wait_seconds", "How long sessions waited until they had a sandbox.", waitBuckets).WithLabelValues()
	m.pauses = m.counter("bridged_sandbox_pauses_total", "Idle sandboxes that were paused.").WithLabelValues()
	m.ended = m.counter("bridged_sandboxes_ended_total", "Sandboxes that have ended, by reason; stuck, blocked and protocol are kills.", "reason")
	m.runs = m.histogram("bridged_run_duration_seconds", "How long code ran in run_python, by how it ended.", workBuckets, "status")
	m.runWait = m.histogram("bridged_run_wait_seconds", "How long code waited for its turn and for a sandbox.", waitBuckets).WithLabelValues()
	m.saved = m.counter("bridged_result_saved_tokens_total", "Tokens that results did not cost agents, four bytes counted as one: because they were cut, or told as TOON.", "by")
	m.callTime = m.histogram("bridged_server_call_duration_seconds", "How long calls of MCP servers took.", workBuckets, "server")
	m.calls = m.counter("bridged_server_calls_total", "Calls of MCP servers that have ended, by outcome.", "server", "outcome")
	m.callIn = m.counter("bridged_server_request_bytes_total", "Bytes of the arguments of calls.", "server")
	m.callOut = m.counter("bridged_server_response_bytes_total", "Bytes of the results of calls.", "server")
	m.starts = m.counter("bridged_server_starts_total", "Starts of MCP servers that succeeded.", "server")
	m.restarts = m.counter("bridged_server_restarts_total", "Those of them that were not the first.", "server")
	m.failures = m.counter("bridged_server_failures_total", "MCP servers that could not be started, or ended by themselves.", "server")
	for _, reason := range o.Reasons {
		m.ended.WithLabelValues(reason)
	}
	for _, by := range []string{SavedByCut, SavedByTOON} {
		m.saved.WithLabelValues(by)
	}
	m.snapshot = newSnapshot(o)
	m.names = append(m.names, m.snapshot.names...)
	m.registry.MustRegister(m.snapshot, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	m.names = append(m.names, name)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	m.names = append(m.names, name)
	return h
}

// Names returns the names of the metrics, without those of Go and the process.
func (m *Metrics) Names() []string { return slices.Clone(m.names) }

// HandleMetrics adds to a handler
//
//	GET /metrics    the metrics, as Prometheus or OpenMetrics has them
func HandleMetrics(mux *http.ServeMux, m *Metrics) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true, ErrorHandling: promhttp.HTTPErrorOnError,
	}))
}

// SandboxMade counts a sandbox by how long it took to make.
func (m *Metrics) SandboxMade(took time.Duration) { m.launch.Observe(took.Seconds()) }

// SandboxFailed counts one that could not be made.
func (m *Metrics) SandboxFailed() { m.launchFailures.Inc() }

// SandboxLeased counts one by how long a session waited for it.
func (m *Metrics) SandboxLeased(waited time.Duration) { m.leaseWait.Observe(waited.Seconds()) }

// SandboxPaused counts a pause.
func (m *Metrics) SandboxPaused() { m.pauses.Inc() }

// SandboxEnded counts a sandbox that has ended, by one of the reasons that there
// are.
func (m *Metrics) SandboxEnded(reason string) { m.ended.WithLabelValues(label(reason)).Inc() }

// Run counts code that ran, by one of the ways in which it may end, how long it
// ran and how long it waited before.
func (m *Metrics) Run(status string, took, waited time.Duration) {
	m.runs.WithLabelValues(label(status)).Observe(took.Seconds())
	m.runWait.Observe(waited.Seconds())
}

// Call counts a call of a server, by one of the outcomes that there are, how
// long it took, and the bytes of its arguments and its result.
func (m *Metrics) Call(server, outcome string, took time.Duration, in, out int64) {
	server = m.server(server)
	m.calls.WithLabelValues(server, label(outcome)).Inc()
	m.callTime.WithLabelValues(server).Observe(took.Seconds())
	m.callIn.WithLabelValues(server).Add(float64(max(0, in)))
	m.callOut.WithLabelValues(server).Add(float64(max(0, out)))
}

// ServerStarted counts a start, which may be another one.
func (m *Metrics) ServerStarted(server string, again bool) {
	server = m.server(server)
	m.starts.WithLabelValues(server).Inc()
	if again {
		m.restarts.WithLabelValues(server).Inc()
	} else {
		m.restarts.WithLabelValues(server) // so that there is a 0 to grow from
	}
}

// ServerFailed counts a server that could not be started or has ended by itself.
func (m *Metrics) ServerFailed(server string) { m.failures.WithLabelValues(m.server(server)).Inc() }

// What saves agents tokens.
const (
	SavedByCut  = "cut"  // of what was too long
	SavedByTOON = "toon" // as against JSON
)

// Saved counts what a result did not cost, by one of the things that save.
func (m *Metrics) Saved(by string, bytes int64) {
	m.saved.WithLabelValues(by).Add(float64(max(0, bytes)) / bytesPerToken)
}

// bytesPerToken is what a token is counted as. Prose has some more, data less.
const bytesPerToken = 4

// server returns the label of a server.
func (m *Metrics) server(name string) string {
	name = label(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case slices.Contains(m.servers, name):
	case len(m.servers) < maxServerLabels:
		m.servers = append(m.servers, name)
	default:
		return otherServers
	}
	return name
}

// label makes a text fit for one.
func label(text string) string { return clip(strings.ToValidUTF8(text, "\uFFFD"), maxWord) }

// A snapshot tells how the daemon is, as metrics.
type snapshot struct {
	options MetricsOptions
	names   []string
	descs   map[string]*prometheus.Desc
}

// gauges and counters are what a snapshot has, with labels.
var snapshotMetrics = []struct {
	name, help string
	labels     []string
}{
	{"bridged_build_info", "What runs; always 1.", []string{"version", "goversion"}},
	{"bridged_start_time_seconds", "When the daemon started, in seconds since 1970.", nil},
	{"bridged_ready", "1 if sessions can start.", nil},
	{"bridged_engine_up", "1 if the container engine answers.", nil},
	{"bridged_pool_sandboxes", "Sandboxes by state.", []string{"state"}},
	{"bridged_pool_target_sandboxes", "Warm sandboxes that there should be.", nil},
	{"bridged_pool_max_sandboxes", "Sandboxes that there may be.", nil},
	{"bridged_pool_failures", "Sandboxes in a row that could not be made; 0 after one that could.", nil},
	{"bridged_sandbox_memory_bytes", "Memory that all sandboxes use, as far as the engine has told.", nil},
	{"bridged_sessions", "Agents that are connected.", nil},
	{"bridged_python_sessions", "Python sessions of agents by the state of their sandbox.", []string{"state"}},
	{"bridged_queue_length", "What waits, by where.", []string{"queue"}},
	{"bridged_servers", "MCP servers by state.", []string{"state"}},
	{"bridged_servers_max", "MCP servers that may run at once.", nil},
	{"bridged_audit_up", "1 if the audit log can be written, or is switched off.", nil},
	{"bridged_audit_lines_waiting", "Lines of the audit log that are not written yet.", nil},
	{"bridged_agent_received_bytes_total", "Bytes from agents.", nil},
	{"bridged_agent_sent_bytes_total", "Bytes to agents.", nil},
	{"bridged_agent_messages_refused_total", "Messages of agents that were refused: no JSON-RPC, too long, or too many at once.", nil},
	{"bridged_sandbox_received_bytes_total", "Bytes from sandboxes.", nil},
	{"bridged_sandbox_sent_bytes_total", "Bytes to sandboxes.", nil},
	{"bridged_sandbox_frames_refused_total", "Lines from sandboxes that are no frames.", nil},
}

func newSnapshot(o MetricsOptions) *snapshot {
	s := &snapshot{options: o, descs: map[string]*prometheus.Desc{}}
	for _, d := range snapshotMetrics {
		s.descs[d.name] = prometheus.NewDesc(d.name, d.help, d.labels, nil)
		s.names = append(s.names, d.name)
	}
	return s
}

// Describe lists all of them.
func (s *snapshot) Describe(out chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		out <- d
	}
}

// Collect looks once.
func (s *snapshot) Collect(out chan<- prometheus.Metric) {
	now, totals := s.options.Status(), s.options.Totals()
	set := func(name string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(s.descs[name], kind, value, labels...)
	}
	set("bridged_build_info", 1, label(s.options.Version), label(now.Versions.Go))
	set("bridged_start_time_seconds", float64(now.Started.UnixMilli())/1000)
	set("bridged_ready", one(now.Ready))
	set("bridged_engine_up", one(now.Engine.Error == ""))
	setPool(set, now)
	setSessions(set, now)
	setServers(set, now)
	set("bridged_audit_up", one(now.Audit == nil || now.Audit.Error == ""))
	waiting := 0
	if now.Audit != nil {
		waiting = now.Audit.Waiting
	}
	set("bridged_audit_lines_waiting", float64(waiting))
	for name, n := range map[string]int64{
		"bridged_agent_received_bytes_total": totals.AgentReceived, "bridged_agent_sent_bytes_total": totals.AgentSent,
		"bridged_agent_messages_refused_total": totals.AgentRefused, "bridged_sandbox_received_bytes_total": totals.SandboxReceived,
		"bridged_sandbox_sent_bytes_total": totals.SandboxSent, "bridged_sandbox_frames_refused_total": totals.SandboxRefused,
	} {
		set(name, float64(n))
	}
}

// A setter tells one metric.
type setter func(name string, value float64, labels ...string)

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func setPool(set setter, now Status) {
	states := map[string]int{"warm": 0, "leased": 0, "paused": 0, "creating": now.Pool.Creating}
	var memory int64
	for _, v := range now.Sandboxes {
		states[v.State]++
		if v.Usage != nil {
			memory += v.Usage.MemoryBytes
		}
	}
	setAll(set, "bridged_pool_sandboxes", states)
	set("bridged_pool_target_sandboxes", float64(now.Pool.Target))
	set("bridged_pool_max_sandboxes", float64(now.Pool.Max))
	set("bridged_pool_failures", float64(now.Pool.Failures))
	set("bridged_sandbox_memory_bytes", float64(memory))
}

func setSessions(set setter, now Status) {
	set("bridged_sessions", float64(len(now.Sessions)))
	states := map[string]int{"none": 0, "running": 0, "idle": 0, "paused": 0}
	for _, v := range now.Sessions {
		for _, p := range v.Pythons {
			states[p.State]++
		}
	}
	setAll(set, "bridged_python_sessions", states)
	setAll(set, "bridged_queue_length", map[string]int{
		"runs": now.Queues.Runs, "leases": now.Queues.Leases, "calls": now.Queues.Calls, "approvals": now.Queues.Approvals, "shims": now.Queues.Shims,
	})
}

func setServers(set setter, now Status) {
	states := map[string]int{"stopped": 0, "starting": 0, "started": 0, "failed": 0}
	for _, v := range now.Servers {
		states[v.State]++
	}
	setAll(set, "bridged_servers", states)
	set("bridged_servers_max", float64(now.ServerRoom.Max))
}

func setAll(set setter, name string, by map[string]int) {
	for label, n := range by {
		set(name, float64(n), label)
	}
}
