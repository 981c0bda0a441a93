package trace

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/tracing"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	name    = "edge"
	secret  = "hunter2-is-no-password"
	patient = time.Minute
)

// A receiver keeps what it is sent over OTLP.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []span
	raw   []string // all that came, as it came
}

// A span is one that was told, and by whom.
type span struct {
	*otlp.Span
	service string
}

func (r *receiver) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	text, err := proto.Marshal(q)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, string(text))
	for _, from := range q.ResourceSpans {
		service := ""
		for _, a := range from.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				r.spans = append(r.spans, span{s, service})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// of returns the spans about an object.
func (r *receiver) of(object string) (out []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		for _, a := range s.Attributes {
			if a.Key == "argocd_agent.name" && a.Value.GetStringValue() == object {
				out = append(out, s)
			}
		}
	}
	return out
}

// chain returns the spans of one trace from its root, each the only child of the one before. It
// returns what it has if they are no chain.
func chain(all []span) (names []string) {
	parent := ""
	for {
		i, n := 0, 0
		for j, s := range all {
			if hex.EncodeToString(s.ParentSpanId) == parent {
				i, n = j, n+1
			}
		}
		if n != 1 {
			return names
		}
		names, parent = append(names, all[i].service+" "+all[i].Name), hex.EncodeToString(all[i].SpanId)
	}
}

// listen starts a receiver.
func listen(t *testing.T) (*receiver, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r, s := &receiver{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); require.NoError(t, <-ended) })
	return r, l.Addr().String()
}

// A hubEnd is a transport's end at the principal that says where it listens.
type hubEnd interface {
	transport.Hub
	Addr(context.Context) (string, error)
}

var presence = transport.Presence{Version: "test", Oldest: wire.Oldest, Newest: wire.Newest}

// carriers are the transports.
var carriers = map[string]struct {
	hub   func(t *testing.T, ca tlstest.Authority, dir string) (hubEnd, error)
	spoke func(t *testing.T, ca tlstest.Authority, dir, address string) (transport.Dialer, error)
}{
	"nats": {
		func(t *testing.T, ca tlstest.Authority, dir string) (hubEnd, error) {
			return natslink.NewHub(natslink.HubConfig{
				Common: natslink.Common{StoreDir: dir, Logger: zap.NewNop(), Presence: presence}, Listen: "127.0.0.1:0", Credentials: ca.Server(t), Authenticate: identity.SubjectName,
			})
		},
		func(t *testing.T, ca tlstest.Authority, dir, address string) (transport.Dialer, error) {
			return natslink.NewLeaf(natslink.LeafConfig{
				Common: natslink.Common{StoreDir: dir, Logger: zap.NewNop(), Presence: presence}, Agent: name, Connect: address, Credentials: ca.Client(t, name),
			})
		},
	},
	"grpc": {
		func(t *testing.T, ca tlstest.Authority, _ string) (hubEnd, error) {
			return grpclink.NewHub(grpclink.HubConfig{
				Common: grpclink.Common{Heartbeat: time.Second, Logger: zap.NewNop(), Presence: presence}, Listen: "127.0.0.1:0", Credentials: ca.Server(t), Authenticate: identity.SubjectName,
			})
		},
		func(t *testing.T, ca tlstest.Authority, dir, address string) (transport.Dialer, error) {
			return grpclink.NewDialer(grpclink.DialerConfig{
				Common: grpclink.Common{Heartbeat: time.Second, Logger: zap.NewNop(), Presence: presence}, Agent: name, Connect: address, Credentials: ca.Client(t, name), StateDir: dir,
			})
		},
	},
}

// registry has one agent, and never changes.
type registry struct{}

func (registry) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	if err := f([]backend.Agent{{Name: name, Mode: resource.Managed}}); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// run runs f until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

func tracer(t *testing.T, address, service string) *tracing.Tracing {
	tr, err := tracing.New(tracing.Config{Address: address, Insecure: true, Ratio: 1, Service: service, Instance: "1", Version: "test"})
	require.NoError(t, err)
	run(t, tr.Run)
	return tr
}

// expected is the trace of a change on the hub.
var expected = []string{
	"hub change", "hub send", "spoke receive", "spoke write",
	"spoke change", "spoke send", "hub receive", "hub write",
}

func TestAChangeIsOneTraceThereAndBack(t *testing.T) {
	for carrier, c := range carriers {
		t.Run(carrier, func(t *testing.T) {
			got, address := listen(t)
			dir, ca := t.TempDir(), tlstest.NewAuthority(t)
			end, err := c.hub(t, ca, filepath.Join(dir, "hub"))
			require.NoError(t, err)
			hub, spoke := memstore.New(memstore.Config{Name: "hub"}), memstore.New(memstore.Config{Name: "spoke"})
			ours := tracer(t, address, "hub")
			p, err := principal.New(principal.Config{
				Namespace: "argocd", Identity: "hub-1", Hub: end, Store: hub, Registry: registry{}, Tick: time.Second, Unscoped: true,
				Witness: func(agent string) trail.Witness { return ours.Witness(agent) }, Log: zap.NewNop(),
			})
			require.NoError(t, err)
			run(t, p.Run)
			at, err := end.Addr(t.Context())
			require.NoError(t, err)
			dialer, err := c.spoke(t, ca, filepath.Join(dir, "spoke"), at)
			require.NoError(t, err)
			a, err := agent.New(agent.Config{
				Name: name, Namespace: "argocd", Dialer: dialer, Store: spoke, Rules: resource.Rules{Mode: resource.Managed, Adopt: true}, Tick: time.Second,
				Witness: tracer(t, address, "spoke").Witness(name), Log: zap.NewNop(),
			})
			require.NoError(t, err)
			run(t, a.Run)
			require.Eventually(t, func() bool { return a.Status().Engine.InStep }, patient, 20*time.Millisecond)

			from, to := resource.Key{Kind: resource.Application, Namespace: name, Name: "a"}, resource.Key{Kind: resource.Application, Namespace: "argocd", Name: "a"}
			hub.Edit(from, func(o *resource.Object) { o.Parts[resource.Spec] = `{"n":1}` })
			require.Eventually(t, func() bool { _, there := spoke.Get(to); return there }, patient, 20*time.Millisecond)
			spoke.Edit(to, func(o *resource.Object) { o.Parts[resource.Status] = `{"health":"Healthy"}` })
			require.Eventually(t, func() bool { return len(got.of("a")) >= len(expected) }, patient, 20*time.Millisecond)
			all := got.of("a")
			require.Equal(t, expected, chain(all))
			require.Len(t, all, len(expected))
			for _, s := range all {
				require.Equal(t, all[0].TraceId, s.TraceId)
				require.LessOrEqual(t, s.StartTimeUnixNano, s.EndTimeUnixNano)
			}

			key := resource.Key{Kind: resource.Secret, Namespace: "argocd", Name: "repo"}
			hub.Edit(key, func(o *resource.Object) {
				o.Parts[resource.Spec] = `{"data":{"` + secret + `":"` + secret + `"},"type":"Opaque"}`
				o.Parts[resource.Meta] = `{"labels":{"argocd.argoproj.io/secret-type":"repository"}}`
			})
			require.Eventually(t, func() bool { return len(got.of("repo")) >= 4 }, patient, 20*time.Millisecond)
			require.Equal(t, expected[:4], chain(got.of("repo")))
			got.mu.Lock()
			defer got.mu.Unlock()
			require.False(t, strings.Contains(strings.Join(got.raw, ""), secret))
		})
	}
}
