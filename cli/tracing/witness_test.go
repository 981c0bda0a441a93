package tracing

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	app  = resource.Key{Kind: resource.Application, Name: "a"}
)

// recorded returns a Witness, and what it has made.
func recorded() (trail.Witness, *tracetest.SpanRecorder) {
	seen := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(seen))
	return (&Tracing{tracer: provider.Tracer("test")}).Witness("edge"), seen
}

// names returns the names of the spans that have ended, and forgets them.
func names(seen *tracetest.SpanRecorder) (out []string) {
	for _, s := range seen.Ended() {
		out = append(out, s.Name())
	}
	seen.Reset()
	return out
}

func send(w trail.Witness, s trail.Sent) string {
	s.Trace = w.Sending(s)
	w.Sent(s)
	return s.Trace
}

const remote = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestWhatIsSaidAgainCarriesTheNewestTrace(t *testing.T) {
	w, seen := recorded()
	again := trail.Sent{Key: app, Owned: true, Again: true, Said: noon, Done: noon}
	require.Empty(t, send(w, again))
	first := send(w, trail.Sent{Key: app, Owned: true, Seen: noon, Said: noon, Done: noon})
	second := send(w, trail.Sent{Key: app, Owned: true, Seen: noon, Said: noon, Done: noon})
	require.NotEqual(t, first[:35], second[:35], "each edit is a trace")
	require.Len(t, names(seen), 4)
	require.Equal(t, second, send(w, again))
	again.Said = noon.Add(Fresh + 1)
	require.Empty(t, send(w, again), "it is none of that any more")
	require.Empty(t, names(seen), "and no span is made")
}

func TestWhatIsReadLaterIsNoPartOfTheTrace(t *testing.T) {
	w, seen := recorded()
	h := trail.Heard{Key: app, Row: engine.Record{}, Digest: "1", Trace: remote, Written: noon, At: noon}
	w.Heard(h)
	require.Equal(t, remote[3:35], seen.Ended()[0].SpanContext().TraceID().String())
	require.Equal(t, []string{"receive"}, names(seen))
	w.Heard(h)
	require.Empty(t, names(seen), "it is said again")

	h.Digest, h.At = "2", noon.Add(time.Hour)
	w.Heard(h)
	late := seen.Ended()[0]
	require.NotEqual(t, remote[3:35], late.SpanContext().TraceID().String())
	require.Equal(t, remote[3:35], late.Links()[0].SpanContext.TraceID().String())
	names(seen)

	h.Digest, h.Kept, h.At = "3", true, noon
	w.Heard(h)
	w.Wrote(trail.Wrote{Key: app, Began: noon, Done: noon})
	require.Empty(t, names(seen), "an earlier process may have told of it")
	h.Digest, h.Kept, h.Trace = "4", false, "no traceparent"
	w.Heard(h)
	require.Equal(t, []string{"receive"}, names(seen))
}

func TestAWriteIsOfItsTraceWhileThatIsFresh(t *testing.T) {
	w, seen := recorded()
	w.Heard(trail.Heard{Key: app, Row: engine.Record{}, Digest: "1", Trace: remote, Written: noon, At: noon})
	w.Wrote(trail.Wrote{Key: app, Began: noon, Done: noon, Outcome: engine.Failed, Text: "no quota"})
	require.Equal(t, sdk.Status{Code: codes.Error, Description: "no quota"}, seen.Ended()[1].Status())
	w.Wrote(trail.Wrote{Key: app, Began: noon, Done: noon})
	w.Wrote(trail.Wrote{Key: app, Began: noon, Done: noon})
	require.Equal(t, []string{"receive", "write", "write"}, names(seen), "the last undoes what somebody else did")

	back := trail.Sent{Key: app, Seen: noon, Said: noon, Done: noon}
	require.Equal(t, remote[3:35], send(w, back)[3:35])
	back.Owned = true
	require.NotEqual(t, remote[3:35], send(w, back)[3:35], "an edit of our own begins anew")
	back.Follows = true
	require.Equal(t, remote[3:35], send(w, back)[3:35], "but not what the write has made of it")
	back.Follows, back.Owned, back.Said = false, false, noon.Add(Fresh+1)
	require.NotEqual(t, remote[3:35], send(w, back)[3:35], "that was long ago")
}

func TestFailuresOfSecretsAreNotQuoted(t *testing.T) {
	w, seen := recorded()
	secret := resource.Key{Kind: resource.Secret, Name: "repo"}
	w.Heard(trail.Heard{Key: secret, Row: engine.Record{}, Digest: "keyed", Trace: remote, Written: noon, At: noon})
	w.Wrote(trail.Wrote{Key: secret, Began: noon, Done: noon, Outcome: engine.Refused, Text: "data: Invalid value: hunter2"})
	s := trail.Sent{Key: secret, Owned: true, Seen: noon, Said: noon, Done: noon}
	w.Sending(s)
	s.Err = errors.New("hunter2 is too large")
	w.Sent(s)
	for _, s := range seen.Ended() {
		require.NotContains(t, s.Status().Description, "hunter2")
		for _, a := range s.Attributes() {
			require.False(t, strings.Contains(a.Value.String(), "keyed"), a.Key)
		}
	}
	require.Len(t, names(seen), 4)
}

func TestWhatIsNotFreshIsForgotten(t *testing.T) {
	w, _ := recorded()
	send(w, trail.Sent{Key: app, Owned: true, Seen: noon, Said: noon, Done: noon})
	later := noon.Add(2*Fresh + 2)
	send(w, trail.Sent{Key: resource.Key{Kind: resource.Application, Name: "b"}, Owned: true, Seen: later, Said: later, Done: later})
	require.Len(t, w.(*witness).ways, 1)
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{}, {Address: "collector", Service: "x"}, {Address: "collector:4317"}, {Address: "collector:4317", Service: "x", Ratio: 1.1}, {Address: ":4317", Service: "x"}, {Address: "collector:", Service: "x"}, {Address: "collector:99999", Service: "x"}} {
		_, err := New(c)
		require.Error(t, err, "%+v", c)
	}
}

// answers is an exporter that answers with an error, or none.
type answers struct{ err error }

func (a *answers) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return a.err }
func (a *answers) Shutdown(context.Context) error                        { return nil }

// Who took nothing before is not waited for at the end, which somebody may wait for who begins anew.
func TestAReceiverThatIsAwayIsNotWaitedFor(t *testing.T) {
	a := &answers{}
	e := &exports{SpanExporter: a, log: zap.NewNop()}
	require.Equal(t, farewell, e.patience())
	for _, a.err = range []error{errors.New("away"), errors.New("away"), nil} {
		require.NoError(t, e.ExportSpans(t.Context(), nil))
		require.Equal(t, a.err == nil, e.patience() > 0)
	}
}

// BenchmarkWitness is what traces cost of a change that is sent, sampled and not.
func BenchmarkWitness(b *testing.B) {
	for name, ratio := range map[string]float64{"sampled": 1, "unsampled": 0} {
		b.Run(name, func(b *testing.B) {
			t, err := New(Config{Address: "127.0.0.1:1", Service: "bench", Ratio: ratio})
			require.NoError(b, err)
			w := t.Witness("edge")
			b.ReportAllocs()
			for range b.N {
				send(w, trail.Sent{Key: app, Owned: true, Seen: noon, Said: noon, Done: noon})
			}
		})
	}
}
