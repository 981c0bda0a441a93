package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
)

type key = resource.Key

// A witness makes spans of what one session tells.
type witness struct {
	tracer trace.Tracer
	agent  string

	mu    sync.Mutex
	ways  map[key]*way // of objects of which something is fresh
	swept time.Time
}

var _ trail.Witness = (*witness)(nil)

// A way is what is known of the traces of one object.
type way struct {
	last         time.Time // when something was heard of it
	change, send trace.Span
	sent         cause           // the row that was sent last
	heard        cause           // the row that was heard last
	digest       resource.Digest // of that
	wrote        cause           // what was done about it last
	done         bool            // that was the end of it
}

// A cause is a span that others may be children of, as long as it is fresh.
type cause struct {
	span trace.SpanContext
	at   time.Time
}

func (c cause) fresh(now time.Time) bool { return c.span.IsValid() && now.Sub(c.at) <= Fresh }

// under returns a context in which spans are children of c, if it is fresh.
func (c cause) under(now time.Time) context.Context {
	if !c.fresh(now) {
		return context.Background()
	}
	return trace.ContextWithSpanContext(context.Background(), c.span)
}

// way returns that of an object. Those of which nothing is fresh are dropped now and then.
func (w *witness) way(k key, now time.Time) *way {
	if now.Sub(w.swept) > Fresh {
		w.swept = now
		for other, y := range w.ways {
			if now.Sub(y.last) > Fresh && y.send == nil {
				delete(w.ways, other)
			}
		}
	}
	y := w.ways[k]
	if y == nil {
		y = &way{}
		w.ways[k] = y
	}
	y.last = now
	return y
}

// Sending implements trail.Witness.
func (w *witness) Sending(s trail.Sent) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	y := w.way(s.Key, s.Said)
	if s.Again {
		if !y.sent.fresh(s.Said) {
			return ""
		}
		return parentOf(y.sent.span)
	}
	ctx := context.Background()
	if !s.Owned || s.Follows { // it says what was made of what the peer has said
		ctx = y.wrote.under(s.Said)
	}
	attributes := trace.WithAttributes(w.attributes(s.Key, s.Row, "")...)
	ctx, y.change = w.tracer.Start(ctx, "change", trace.WithTimestamp(s.Seen), attributes)
	_, y.send = w.tracer.Start(ctx, "send", trace.WithSpanKind(trace.SpanKindProducer), attributes)
	return parentOf(y.send.SpanContext())
}

// Sent implements trail.Witness.
func (w *witness) Sent(s trail.Sent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	y := w.way(s.Key, s.Done)
	if y.send == nil {
		return
	}
	for _, span := range []trace.Span{y.send, y.change} {
		if s.Err != nil {
			span.SetStatus(codes.Error, reason(s.Key, s.Err.Error()))
		}
		span.End(trace.WithTimestamp(s.Done))
	}
	y.sent = cause{y.send.SpanContext(), s.Done}
	y.change, y.send = nil, nil
}

// Heard implements trail.Witness.
func (w *witness) Heard(h trail.Heard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	y := w.way(h.Key, h.At)
	if h.Digest == y.digest && h.Digest != "" {
		return // said again
	}
	y.digest, y.done, y.heard, y.wrote = h.Digest, false, cause{}, cause{}
	if h.Kept {
		return
	}
	ctx, options := context.Background(), []trace.SpanStartOption{
		trace.WithTimestamp(h.At), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(w.attributes(h.Key, h.Row, h.Digest)...),
	}
	if from := spanOf(h.Trace); from.IsValid() {
		if h.At.Sub(h.Written).Abs() <= Fresh {
			ctx = trace.ContextWithRemoteSpanContext(ctx, from)
		} else {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
		}
	}
	_, span := w.tracer.Start(ctx, "receive", options...)
	span.End()
	y.heard = cause{span.SpanContext(), h.At}
	y.wrote = y.heard // there may be nothing to write
}

// Wrote implements trail.Witness.
func (w *witness) Wrote(d trail.Wrote) {
	w.mu.Lock()
	defer w.mu.Unlock()
	y := w.ways[d.Key]
	if y == nil || y.done || !y.heard.fresh(d.Began) {
		return // what is written later undoes what others have done to it
	}
	y.last = d.Done
	attributes := append(w.attributes(d.Key, nil, ""), attribute.Bool("argocd_agent.removed", d.Removed), attribute.Bool("argocd_agent.overtaken", d.Overtaken))
	_, span := w.tracer.Start(y.heard.under(d.Began), "write", trace.WithTimestamp(d.Began), trace.WithAttributes(attributes...))
	switch d.Outcome {
	case engine.Done:
	case engine.Withheld:
		span.SetStatus(codes.Error, "withheld")
	default:
		span.SetStatus(codes.Error, reason(d.Key, d.Text))
	}
	span.End(trace.WithTimestamp(d.Done))
	y.done = d.Outcome == engine.Done && !d.Overtaken
	y.wrote = cause{span.SpanContext(), d.Done}
}

// attributes say which object a span is about, and nothing of what is in it.
func (w *witness) attributes(k key, row engine.Body, digest resource.Digest) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("argocd_agent.agent", w.agent),
		attribute.String("argocd_agent.kind", string(k.Kind)), attribute.String("argocd_agent.namespace", k.Namespace), attribute.String("argocd_agent.name", k.Name),
	}
	switch b := row.(type) {
	case engine.Record:
		out = append(out, attribute.String("argocd_agent.phase", b.Phase.String()))
	case engine.Tombstone:
		out = append(out, attribute.String("argocd_agent.phase", "deleted"))
	}
	if digest != "" && !k.Kind.Sealed() {
		out = append(out, attribute.String("argocd_agent.digest", string(digest)))
	}
	return out
}

// reason returns why something has failed, as far as that shows nothing secret: what a store says
// of a Secret may quote it.
func reason(k key, text string) string {
	const most = 500
	if k.Kind.Sealed() {
		return "failed"
	}
	return text[:min(len(text), most)]
}

const header = "traceparent"

// parentOf returns the W3C traceparent of a span.
func parentOf(s trace.SpanContext) string {
	to := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), s), to)
	return to[header]
}

// spanOf is the inverse of parentOf. What is no traceparent is no span.
func spanOf(traceparent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{header: traceparent})
	return trace.SpanContextFromContext(ctx)
}
