package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/tracing"
)

const (
	// traceOff is the value of trace.endpoint that no variable overrules.
	traceOff = "off"

	// tracePath is where a collector takes traces, below its address.
	tracePath = "/v1/traces"

	// maxSpans bounds the spans that wait to be sent, and with them the memory of
	// a daemon whose collector is away: about 2 MiB. Further ones are dropped and
	// counted.
	maxSpans = 2048

	// exportTimeout bounds the sending of one batch, retries included, and
	// flushTimeout all of it when the daemon stops.
	exportTimeout = 10 * time.Second
	flushTimeout  = 3 * time.Second

	// exportWarning is the shortest time between two warnings that spans can't be
	// sent.
	exportWarning = time.Minute

	// maxSpanText bounds each text in a span, in bytes.
	maxSpanText = 256
)

// A ratio is a share of all traces, from 0 to 1. Its zero value is none at all.
type ratio struct {
	given bool
	share float64
}

func (r ratio) String() string {
	if !r.given {
		return ""
	}
	return strconv.FormatFloat(r.share, 'g', -1, 64)
}

// Set parses s.
func (r *ratio) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q is no share: write a number from 0 to 1, such as 0.1", s)
	}
	*r = ratio{given: true, share: v}
	return nil
}

// Type names the kind of value in help texts.
func (*ratio) Type() string { return "share" }

// UnmarshalTOML takes a number.
func (r *ratio) UnmarshalTOML(raw []byte) error { return fromTOML(raw, r, tomlWhole|tomlFraction) }

func (c *config) checkTrace() error {
	if e := string(c.Trace.Endpoint); e != "" && e != traceOff {
		if _, err := collectorURL(e); err != nil {
			return err
		}
	}
	_, err := c.traceHeaders(false)
	return err
}

// collectorURL is where spans are sent.
func collectorURL(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("trace.endpoint: give the address of an OTLP/HTTP collector, such as http://localhost:4318, or %s; credentials go into trace.headers", traceOff)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = tracePath
	}
	return u, nil
}

// traceHeaders returns what is sent to the collector along with spans. With read,
// values that are in files are read.
func (c *config) traceHeaders(read bool) (map[string]string, error) {
	headers := map[string]string{}
	for i, text := range c.Trace.Headers {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t:\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, fmt.Errorf("trace.headers, number %d: write NAME=VALUE, or NAME=file:/path", i+1) // without the value
		}
		if path, is := strings.CutPrefix(value, "file:"); is && read {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("trace.headers, %s: %w", name, err)
			}
			value = strings.TrimSpace(string(text))
		}
		headers[name] = value
	}
	return headers, nil
}

// traceSetting says whether traces are wanted, by the configuration or by the
// variables that OpenTelemetry has for all programs. why says what keeps traces
// from being made that those want.
func (c *config) traceSetting(getenv func(string) string) (on bool, why string) {
	endpoint := string(c.Trace.Endpoint)
	exporters := strings.Split(strings.ReplaceAll(getenv("OTEL_TRACES_EXPORTER"), " ", ""), ",")
	protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	addressed := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != ""
	switch {
	case endpoint == traceOff:
		return false, ""
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"):
		if endpoint != "" {
			why = "OTEL_SDK_DISABLED is true"
		}
		return false, why
	case endpoint != "":
		return true, ""
	case exporters[0] == "none":
		return false, ""
	case exporters[0] != "" && !slices.Contains(exporters, "otlp"):
		return false, fmt.Sprintf("OTEL_TRACES_EXPORTER is %q, and only otlp can be had", strings.Join(exporters, ","))
	case exporters[0] == "" && !addressed:
		return false, ""
	case protocol == "grpc":
		return false, "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and only http/protobuf and http/json can be had: set trace.endpoint to the collector's HTTP address, which has port 4318 mostly"
	}
	return true, ""
}

// A traces is what makes the daemon's traces and sends them. The zero value makes
// none.
type traces struct {
	provider *sdktrace.TracerProvider // nil if it is switched off
	meter    *spanMeter
	patience time.Duration // with the collector, at the end
}

// startTraces gets ready to trace, if that is wanted. Nothing is sent before the
// first span has ended.
func startTraces(c *config, getenv func(string) string, log zerolog.Logger) (*traces, error) {
	on, why := c.traceSetting(getenv)
	if why != "" {
		log.Warn().Msg("no traces are made: " + why)
	}
	if !on {
		return &traces{}, nil
	}
	options, endpoint, err := c.exporterOptions(getenv)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("preparing to send traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Debug().Err(err).Msg("opentelemetry") }))
	t := &traces{meter: &spanMeter{endpoint: endpoint, log: log}, patience: flushTimeout}
	t.meter.next = sdktrace.NewBatchSpanProcessor(spanSender{exporter, t.meter}, sdktrace.WithMaxQueueSize(maxSpans),
		sdktrace.WithMaxExportBatchSize(maxSpans/4), sdktrace.WithExportTimeout(exportTimeout))
	t.provider = sdktrace.NewTracerProvider(append(c.providerOptions(log), sdktrace.WithSpanProcessor(t.meter))...)
	log.Info().Str("collector", endpoint).Msg("trace calls")
	return t, nil
}

// exporterOptions are what the configuration says of the collector, and its
// address for people; what it does not say, the library takes from OpenTelemetry's
// variables.
func (c *config) exporterOptions(getenv func(string) string) (options []otlptracehttp.Option, endpoint string, err error) {
	headers, err := c.traceHeaders(true)
	if err != nil {
		return nil, "", err
	}
	if len(headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(headers))
	}
	if c.Trace.Endpoint == "" {
		endpoint = cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "https://localhost:4318")
		return options, withoutUser(endpoint), nil
	}
	u, err := collectorURL(string(c.Trace.Endpoint))
	if err != nil {
		return nil, "", err
	}
	return append(options, otlptracehttp.WithEndpointURL(u.String())), u.String(), nil
}

// withoutUser returns an address without the credentials that it may hold.
func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that can't be read"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

func (c *config) providerOptions(log zerolog.Logger) []sdktrace.TracerProviderOption {
	about, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "bridged"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		log.Warn().Err(err).Msg("read OTEL_RESOURCE_ATTRIBUTES")
	}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(about),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: maxSpanText, AttributeCountLimit: 32, EventCountLimit: 32, LinkCountLimit: 8,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
		}),
	}
	if s := c.Trace.Sample; s.given {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.share))))
	}
	return options
}

// tracer begins the calls' traces; nil if none are made.
func (t *traces) tracer() tracing.Tracer {
	if t.provider == nil {
		return nil
	}
	return t.provider.Tracer(tracing.Scope)
}

// close sends what is left, if the collector takes it in time.
func (t *traces) close() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.patience)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.meter.log.Warn().Err(err).Int64("spans", t.meter.waiting.Load()).Msg("send last traces")
	}
}

// status describes the traces for ops; nil if none are made.
func (t *traces) status() *ops.Traces {
	if t.provider == nil {
		return nil
	}
	m := t.meter
	s := &ops.Traces{
		Endpoint: m.endpoint, Waiting: m.waiting.Load(), Exported: m.exported.Load(), Failed: m.failed.Load(), Dropped: m.dropped.Load(),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lastErr != nil {
		s.Error = m.lastErr.Error()
	}
	return s
}

// A spanMeter stands before the library's queue: it keeps that within its bound,
// and counts what becomes of spans. Whatever the collector does, calls
// neither wait for it nor fail.
type spanMeter struct {
	next     sdktrace.SpanProcessor // the queue, which ends in a spanSender
	endpoint string
	log      zerolog.Logger

	waiting                   atomic.Int64 // ended and not sent yet
	exported, failed, dropped atomic.Int64

	mu      sync.Mutex // guards the fields below
	lastErr error      // of the last batch; nil if it was sent
	warned  time.Time
}

var _ sdktrace.SpanProcessor = (*spanMeter)(nil)

// OnStart is for others.
func (m *spanMeter) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd queues a span, if there is room.
func (m *spanMeter) OnEnd(s sdktrace.ReadOnlySpan) {
	if m.waiting.Add(1) > maxSpans {
		m.waiting.Add(-1)
		m.dropped.Add(1)
		return
	}
	m.next.OnEnd(s)
}

// ForceFlush sends what is queued.
func (m *spanMeter) ForceFlush(ctx context.Context) error { return m.next.ForceFlush(ctx) }

// sent counts a batch that was sent, or could not be.
func (m *spanMeter) sent(n int64, err error) {
	m.waiting.Add(-n)
	if err == nil {
		m.exported.Add(n)
	} else {
		m.failed.Add(n)
	}
	m.note(err)
}

// note remembers how a batch went, and warns now and then.
func (m *spanMeter) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastErr = err
	if err == nil {
		return
	}
	text := strings.ToValidUTF8(err.Error(), "?")
	m.lastErr = errors.New(text[:min(len(text), maxSpanText)])
	if time.Since(m.warned) < exportWarning {
		return
	}
	m.warned = time.Now()
	m.log.Warn().Str("collector", m.endpoint).Err(m.lastErr).Int64("failed", m.failed.Load()).Int64("dropped", m.dropped.Load()).Msg("send traces")
}

// Shutdown sends what is queued and ends the queue.
func (m *spanMeter) Shutdown(ctx context.Context) error { return m.next.Shutdown(ctx) }

// A spanSender is the queue's other end.
type spanSender struct {
	exporter sdktrace.SpanExporter
	meter    *spanMeter
}

// ExportSpans sends a batch. Its error is noted here, and nobody else's concern.
func (s spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.exporter.ExportSpans(ctx, spans)
	s.meter.sent(int64(len(spans)), err)
	return nil
}

// Shutdown ends the exporter.
func (s spanSender) Shutdown(ctx context.Context) error { return s.exporter.Shutdown(ctx) }
