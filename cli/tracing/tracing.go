// Package tracing has what becomes of a change be one OpenTelemetry trace, from the store in
// which it was seen over the bus to the other side's write, and with what comes back of that. It
// is the only one that knows OpenTelemetry; sessions tell it through trail.Witness.
//
// The spans of a change to an Application on the hub, each the child of the one above:
//
//	change   hub     from when the store showed it until the row is in the log
//	send     hub     the row is put into the log; what travels names this span
//	receive  spoke   the row has come
//	write    spoke   the copy is written; one span for each try
//	change   spoke   the status that comes of it, for as long as the write is fresh
//	send     spoke
//	receive  hub
//	write    hub
//
// What happens later than Fresh after its cause is a trace of its own: that a row was read after
// a long time is told by a link from the new trace to the old one. Of rows that are read again
// after a start from what a link keeps nothing is told, and of one that is said again neither:
// it carries the newest trace of its object, so that a peer to which it is new continues that.
//
// Which traces are sampled is decided where they begin. Spans are dropped, and counted nowhere,
// if they cannot be exported in time; nothing waits for them.
package tracing

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/trail"
)

// Fresh is for how long after a change what comes of it belongs to its trace.
const Fresh = 5 * time.Minute

// farewell is how long the last spans may take to be exported when a program ends. A receiver that took
// none of those before is not waited for: whoever ends may have to begin again soon.
const farewell = 5 * time.Second

// Config says where traces go.
type Config struct {
	Address  string  // of an OTLP receiver that speaks gRPC, host:port
	Insecure bool    // in plaintext; else over TLS, with the CAs of the system or of OTEL_EXPORTER_OTLP_CERTIFICATE
	Ratio    float64 // of the traces that begin here, how many are told: 0 to 1
	Service  string  // the name of this program
	Instance string  // which of them it is
	Version  string
	Log      *zap.Logger // nil is none
}

// A Tracing exports spans while it runs.
type Tracing struct {
	log      *zap.Logger
	exporter *otlptrace.Exporter
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns a Tracing. What happens before it runs is in no trace.
func New(c Config) (*Tracing, error) {
	host, port, err := net.SplitHostPort(c.Address)
	if number, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || host == "" || number == 0 {
		return nil, fmt.Errorf("tracing: address %q: it is to be host:port", c.Address)
	}
	if c.Ratio < 0 || c.Ratio > 1 || c.Service == "" {
		return nil, fmt.Errorf("tracing: service %q, ratio %v: there is to be one, of 0 to 1", c.Service, c.Ratio)
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(c.Address)}
	if c.Insecure {
		options = append(options, otlptracegrpc.WithInsecure())
	}
	provider := sdk.NewTracerProvider(
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.Ratio))),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", c.Service), attribute.String("service.instance.id", c.Instance), attribute.String("service.version", c.Version),
		)),
	)
	return &Tracing{c.Log, otlptracegrpc.NewUnstarted(options...), provider, provider.Tracer("github.com/argocd-fabric/argocd-agent")}, nil
}

// Run exports until ctx is done, then what is left, and returns the cause. A receiver that is
// away is no failure. It is called once.
func (t *Tracing) Run(ctx context.Context) error {
	if err := t.exporter.Start(ctx); err != nil { // it connects when there is something to be sent
		return fmt.Errorf("tracing: %w", err)
	}
	out := &exports{SpanExporter: t.exporter, log: t.log}
	t.provider.RegisterSpanProcessor(sdk.NewBatchSpanProcessor(out, sdk.WithBatchTimeout(time.Second)))
	<-ctx.Done()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), out.patience())
	defer stop()
	if err := t.provider.Shutdown(last); err != nil {
		t.log.Warn("the last traces were not exported", zap.Error(err))
		_ = t.exporter.Shutdown(last) // it ends what is under way
	}
	return context.Cause(ctx)
}

// Witness returns who makes spans of what a session with an agent tells.
func (t *Tracing) Witness(agent string) trail.Witness {
	return &witness{tracer: t.tracer, agent: agent, ways: map[key]*way{}}
}

// exports tell the log when they begin to fail, and when they succeed again.
type exports struct {
	sdk.SpanExporter
	log     *zap.Logger
	failing atomic.Bool
}

// patience is for how long it is worth to wait for the last spans.
func (e *exports) patience() time.Duration {
	if e.failing.Load() {
		return 0
	}
	return farewell
}

// ExportSpans implements sdk.SpanExporter. A failure is told here, and not to a handler of all
// programs' errors.
func (e *exports) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch was := e.failing.Swap(err != nil); {
	case err != nil && !was:
		e.log.Warn("traces cannot be exported, and are dropped until they can", zap.Error(err))
	case err == nil && was:
		e.log.Info("traces are exported again")
	}
	return nil
}
