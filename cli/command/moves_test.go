package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// seen is every value that each series has had, by metric and then by labels. A series that is not
// there has the value "".
type seen map[string]map[string]map[string]bool

// look takes in what a source tells now.
func (s seen) look(t *testing.T, source metrics.Source) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(metrics.NewCollector(source)))
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			s.take(f.GetName(), m)
		}
	}
}

func (s seen) take(name string, m *dto.Metric) {
	if s[name] == nil {
		s[name] = map[string]map[string]bool{}
	}
	var labels []string
	for _, l := range m.Label {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	is := strings.Join(labels, ",")
	if s[name][is] == nil {
		s[name][is] = map[string]bool{}
	}
	s[name][is][fmt.Sprint(m.GetGauge().GetValue(), m.GetCounter().GetValue(), m.GetHistogram().GetSampleCount())] = true
}

// moved reports whether a metric has had two values in one series.
func (s seen) moved(name string) bool {
	for _, values := range s[name] {
		if len(values) > 1 {
			return true
		}
	}
	return false
}

// table returns the names of all metrics.
func tableOfMetrics() (names []string) {
	all := make(chan *prometheus.Desc, 1000)
	metrics.NewCollector(metrics.Source{}).Describe(all)
	close(all)
	for d := range all {
		names = append(names, regexp.MustCompile(`fqName: "([a-z_]+)"`).FindStringSubmatch(d.String())[1])
	}
	return names
}

// TestEachMetricMoves drives the parts that metrics tell of, and holds that each metric there is
// shows two different values of one thing.
func TestEachMetricMoves(t *testing.T) {
	s := seen{}
	synctest.Test(t, func(t *testing.T) { moveLinks(t, s) })
	moveDoors(t, s)
	moveRedis(t, s)
	s.look(t, metrics.Source{Version: "1", Links: noLinks, Expiry: noExpiry})
	s.look(t, metrics.Source{Version: "2", Links: noLinks, Expiry: noExpiry})
	require.Greater(t, len(s["argocd_agent_build_info"]), 1, "it never moves: its label does")
	for _, name := range tableOfMetrics() {
		if name != "argocd_agent_build_info" && !s.moved(name) {
			t.Errorf("nobody has moved %s, which was %v", name, s[name])
		}
	}
}

func noLinks() []metrics.Link { return nil }

func noExpiry() time.Time { return time.Time{} }

// A moody store fails as it is told to.
type moody struct {
	*memstore.Store
	why  atomic.Pointer[error]
	slow atomic.Pointer[chan struct{}] // writes wait until it is closed
	mu   sync.Mutex
	end  context.CancelFunc // of its watch
}

func (m *moody) Write(ctx context.Context, o resource.Object) (resource.Object, error) {
	if wait := m.slow.Load(); wait != nil {
		<-*wait
	}
	if why := m.why.Load(); why != nil {
		return resource.Object{}, *why
	}
	return m.Store.Write(ctx, o)
}

func (m *moody) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	m.mu.Lock()
	m.end = end
	m.mu.Unlock()
	return m.Store.Watch(ctx, scope, f)
}

// cut ends the watch.
func (m *moody) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
}

// A hall is a principal and one managed agent that are watched, in a bubble.
type hall struct {
	t          *testing.T
	s          seen
	net        *memlink.Network
	hub, spoke *moody
	hubSource  metrics.Source
	agents     chan []backend.Agent
	source     func() metrics.Source // of the agent's process that runs
}

// changing is a registry that the test changes.
type changing chan []backend.Agent

func (c changing) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	for {
		select {
		case set := <-c:
			if err := f(set); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func background(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() { cancel(); <-ended }
}

// rest lets virtual time pass, and looks before, meanwhile and after.
func (h *hall) rest(d time.Duration) {
	for range 4 {
		synctest.Wait()
		h.s.look(h.t, h.hubSource)
		if h.source != nil {
			h.s.look(h.t, h.source())
		}
		<-time.After(d / 4)
	}
}

func (h *hall) edit(name string, p resource.Part, text string) {
	h.hub.Edit(resource.Key{Kind: resource.Application, Namespace: "edge", Name: name}, func(o *resource.Object) { o.Parts[p] = text })
}

// run runs the agent as a program that speaks some versions of the protocol.
func (h *hall) run(p transport.Presence, observe bool) (stop func()) {
	book := ledger.InMemory().Book("principal")
	cfg := agent.Config{
		Name: "edge", Namespace: "argocd", Dialer: h.net.Agent("edge", p), Store: h.spoke, Letters: book, Tick: time.Second,
		Paces: &session.Paces{}, Log: zap.NewNop(), Protocol: wire.Range{Oldest: p.Oldest, Newest: p.Newest},
	}
	if observe {
		cfg.Adopted = ledger.InMemory().Set("adopted")
	}
	a, err := agent.New(cfg)
	require.NoError(h.t, err)
	h.source = func() metrics.Source {
		return metrics.Source{Links: func() []metrics.Link {
			return []metrics.Link{{Agent: "edge", State: "serving", Session: a.Status(), Letters: book.Written()}}
		}, Expiry: noExpiry, Paces: cfg.Paces}
	}
	end := background(h.t, a.Run)
	return func() { end(); h.source = nil }
}

func moveLinks(t *testing.T, s seen) {
	here := transport.Presence{Version: "test", Oldest: wire.Oldest, Newest: wire.Newest}
	h := &hall{
		t: t, s: s, net: memlink.New(memlink.Config{Keeps: true, Rows: 60}), agents: make(chan []backend.Agent),
		hub: &moody{Store: memstore.New(memstore.Config{Name: "hub"})}, spoke: &moody{Store: memstore.New(memstore.Config{Name: "edge"})},
	}
	letters, paces := ledger.InMemory(), &session.Paces{}
	hub, err := principal.New(principal.Config{
		Identity: "hub-1", Namespace: "argocd", Hub: h.net.Hub(here), Store: h.hub, Registry: changing(h.agents), Ledger: letters, Tick: time.Second, Paces: paces, Log: zap.NewNop(),
	})
	require.NoError(t, err)
	parts := hubParts{papers: newPapers(), program: program{paces: paces}, own: identity.Renewal{Credentials: credentials(t, time.Hour)}}
	h.hubSource = parts.metrics(hub, letters, func() bool { return false }, func() metrics.Live { return metrics.Live{} }, nil)
	defer h.rest(time.Minute) // what crosses the network arrives
	defer background(t, hub.Run)()
	h.agents <- []backend.Agent{{Name: "edge"}}
	h.rest(time.Minute)
	h.agents <- []backend.Agent{{Name: "edge"}, {Name: "other"}}
	for i := range 10 {
		h.edit(fmt.Sprint("web-", i), resource.Spec, `"1"`)
	}
	h.rest(time.Minute)
	stop := h.run(here, true)
	h.rest(time.Minute) // it observes
	stop()
	stop = h.run(here, false)
	h.rest(time.Minute)
	h.trouble()

	stop()
	stop = h.run(transport.Presence{Version: "of later times", Oldest: 1000, Newest: 1000}, false)
	h.rest(time.Minute)
	stop()
}

// trouble makes one trouble after the other, and ends it.
func (h *hall) trouble() {
	h.net.Set("edge", memlink.Weather{Line: memlink.Cut})
	h.rest(time.Minute)
	h.edit("web-1", resource.Operation, `{"sync":{}}`)
	h.rest(time.Hour)
	h.net.Set("edge", memlink.Weather{})
	h.rest(time.Minute)

	for _, why := range []error{errors.New("the disk is on fire"), fmt.Errorf("it is no name: %w", backend.ErrRefused)} {
		h.spoke.why.Store(&why)
		h.edit("web-2", resource.Spec, fmt.Sprintf("%q", why))
		h.rest(time.Minute)
		h.spoke.why.Store(nil)
		h.edit("web-2", resource.Spec, fmt.Sprintf("%q", "not "+why.Error()))
		h.rest(10 * time.Minute)
	}

	wait := make(chan struct{})
	h.spoke.slow.Store(&wait)
	h.edit("web-3", resource.Spec, `"2"`)
	h.rest(time.Minute)
	h.spoke.slow.Store(nil)
	close(wait)
	h.rest(time.Minute)

	h.spoke.cut()
	h.rest(time.Minute)

	for i := range 8 {
		h.hub.Lose(resource.Key{Kind: resource.Application, Namespace: "edge", Name: fmt.Sprint("web-", i)})
	}
	h.rest(time.Minute) // so many that they are held
	for i := range 100 {
		h.edit(fmt.Sprint("many-", i), resource.Spec, `"1"`)
	}
	h.rest(time.Minute) // more than the log may hold
}

// credentials are of a principal whose certificate is good for some time.
func credentials(t *testing.T, life time.Duration) *identity.Credentials {
	now := time.Now()
	own, err := identity.NewCredentials(bundle(t, now, life), now)
	require.NoError(t, err)
	return own
}

func bundle(t *testing.T, now time.Time, life time.Duration) identity.Bundle {
	o := pki.Options{Now: now, Lifetime: 10 * life}
	ca, err := pki.NewCA("ca", o)
	require.NoError(t, err)
	o.Lifetime = life
	pair, err := ca.IssueServer("principal", []string{"127.0.0.1"}, o)
	require.NoError(t, err)
	text := func(b []byte) identity.Text { return identity.Text{Where: "a test", PEM: b} }
	return identity.Bundle{CA: text(ca.Pair().Cert), Cert: text(pair.Cert), Key: text(pair.Key)}
}

// leafOf returns what a certificate that is good for some time says of that.
func leafOf(now time.Time, life time.Duration) []*x509.Certificate {
	return []*x509.Certificate{{NotAfter: now.Add(life)}}
}

// A bad hub has what is wrong with its store.
type badHub struct {
	transport.Hub
	transport.Complaints
}

func (b *badHub) Troubles() []transport.Trouble { return b.Complaints.Troubles(time.Now()) }

// moveDoors moves what is told of who comes to a principal, and of live requests.
func moveDoors(t *testing.T, s seen) {
	own, end := credentials(t, time.Hour), &badHub{}
	scene, papers := newHubScene(), newPapers()
	away := make(chan struct{})
	live, err := kubeapi.NewHub(kubeapi.HubConfig{
		Listen: "127.0.0.1:0", TLS: &tls.Config{}, Name: func(*http.Request, time.Time) (string, error) { return "edge", nil }, Log: zap.NewNop(),
		Open: func(context.Context, string, string) (net.Conn, error) {
			away <- struct{}{}
			<-away
			return nil, transport.ErrAway
		},
	})
	require.NoError(t, err)
	source := metrics.Source{
		Expiry: own.Expiry, Troubles: end.Troubles, Conflict: scene.conflict.Load, Refused: papers.refusals,
		Live:  func() metrics.Live { return metrics.Live{UnderWay: live.UnderWay(), Total: totals(live.Count)} },
		Links: func() []metrics.Link { return []metrics.Link{{Agent: "edge", Expires: papers.of("edge")}} },
	}
	s.look(t, source)
	for _, life := range []time.Duration{time.Hour, 2 * time.Hour} {
		now := time.Now()
		_, err := own.Replace(bundle(t, now, life), now)
		require.NoError(t, err)
		prove := papers.watch(func(*identity.Credentials, identity.Shown) (identity.Proof, error) {
			return identity.Proof{Agent: "edge", Certificates: leafOf(now, life)}, nil
		})
		_, err = prove(own, identity.Shown{})
		require.NoError(t, err)
		_, err = papers.watch(identity.SubjectName)(own, identity.Shown{})
		require.Error(t, err)
		end.Note("edge", transport.RulesBroken, errors.New("it writes where it may not"), now)
		scene.facts.Store(&hubFacts{found: controllerIn("edge"), agents: []string{"edge"}})
		_, err = scene.look(t.Context(), func() ([]string, error) { return []string{"edge"}, nil })
		require.NoError(t, err)
		s.look(t, source)
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			live.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
		}()
		<-away
		s.look(t, source)
		away <- struct{}{}
		<-asked
		s.look(t, source)
	}
}

// moveRedis moves what is told of agents' Redis.
func moveRedis(t *testing.T, s seen) {
	l, ctx := newLive(t, false, "127.0.0.1:1"), t.Context()
	source := metrics.Source{Links: noLinks, Expiry: noExpiry, Redis: l.proxy.Stats}
	spoke, argocd := redisClient(t, l.spoke.Address, "spoke"), redisClient(t, l.proxy.Addr().String(), "hub")
	require.NoError(t, spoke.Set(ctx, "app|resources-tree|web|1.8.3.gz", "one", time.Hour).Err())
	l.hubStore.Edit(resource.Key{Kind: resource.Application, Namespace: "edge-1", Name: "web"}, func(o *resource.Object) { o.Parts[resource.Spec] = `{"project":"default"}` })
	reads(t, argocd, "app|resources-tree|edge-1_web|1.8.3.gz", "one")
	s.look(t, source)
	l.net.Set("edge-1", memlink.Weather{Line: memlink.Cut})
	reads(t, argocd, "app|resources-tree|edge-1_web|1.8.3.gz", "one")
	s.look(t, source)
	reads(t, argocd, "app|resources-tree|edge-1_web|1.8.3.gz", "one")
	s.look(t, source)
}

// TestSeriesEndWithTheirAgents holds that of many agents that come and go nothing is told
// afterwards.
func TestSeriesEndWithTheirAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, agents := memlink.New(memlink.Config{}), make(changing)
		papers := newPapers()
		hub, err := principal.New(principal.Config{
			Identity: "hub-1", Namespace: "argocd", Hub: net.Hub(transport.Presence{Oldest: wire.Oldest, Newest: wire.Newest}), Registry: agents,
			Store: memstore.New(memstore.Config{}), Tick: time.Second, Log: zap.NewNop(),
		})
		require.NoError(t, err)
		defer background(t, hub.Run)()
		parts := hubParts{papers: papers, own: identity.Renewal{Credentials: credentials(t, time.Hour)}}
		count := func() (n int) {
			s := seen{}
			s.look(t, parts.metrics(hub, ledger.InMemory(), nil, nil, nil))
			for _, series := range s {
				n += len(series)
			}
			return n
		}
		agents <- []backend.Agent{{Name: "stays"}}
		synctest.Wait()
		few := count()
		for round := range 20 {
			set := []backend.Agent{{Name: "stays"}}
			for i := range 50 {
				set = append(set, backend.Agent{Name: fmt.Sprintf("job-%d-%d", round, i)})
				papers.note(identity.Proof{Agent: set[i+1].Name, Certificates: leafOf(time.Now(), 0)})
			}
			agents <- set
			<-time.After(time.Second)
			synctest.Wait()
			require.Greater(t, count(), 50*few/2)
			agents <- set[:1]
			<-time.After(time.Minute)
			synctest.Wait()
			papers.keep(names(hub))
		}
		require.Equal(t, few, count())
		require.Empty(t, papers.expire)
	})
}
