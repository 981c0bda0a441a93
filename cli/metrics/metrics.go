// Package metrics shows how links stand to Prometheus. All that it tells is read when it
// is asked: nothing is kept beside what the links themselves know, so the series of an
// agent that is removed end with it. METRICS.md in this folder lists them.
//
// Every label has few values. The only one that grows with the fleet is agent, which is there
// once for each agent that is registered, and gone with it.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/argocd-fabric/argocd-agent/proxy/redis"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// A Link is what is told of the link to one agent.
type Link struct {
	Agent   string
	State   string // as principal.State; "serving" on an agent
	Session session.Status
	Letters uint64    // how many dead letters were put since the process began
	Expires time.Time // the peer's certificate, as far as that is known
}

// A Source says how things stand now. Version, Links and Expiry are needed.
type Source struct {
	Version  string // of this program
	Links    func() []Link
	Troubles func() []transport.Trouble // nil is none
	// Conflict reports whether a controller of the control plane reconciles agents'
	// Applications; nil where nobody could know.
	Conflict func() bool
	Expiry   func() time.Time // of this side's certificate
	Live     func() Live      // nil where there is no live access
	// Redis says how it goes with what is read from agents' Redis; nil where nothing is.
	Redis func() redis.Stats
	// Refused says how often whoever has come was not let in, by one of a few reasons; nil where
	// nobody comes.
	Refused func() map[string]uint64
	Paces   *session.Paces // nil is not measured
}

// A Live is what is told of live requests of the Kubernetes API.
type Live struct {
	UnderWay int
	Total    map[string]uint64 // by what has become of them, which are few
}

// A view is what a Source says at one time: all metrics of one answer are of the same moment.
type view struct {
	now      time.Time
	version  string
	links    []Link
	troubles []transport.Trouble
	conflict *bool
	expiry   time.Time
	live     *Live
	redis    *redis.Stats
	refused  map[string]uint64
	paces    *session.Paces
}

func (s Source) look() view {
	v := view{version: s.Version, links: s.Links(), expiry: s.Expiry(), paces: s.Paces}
	if s.Troubles != nil {
		v.troubles = s.Troubles()
	}
	if s.Conflict != nil {
		is := s.Conflict()
		v.conflict = &is
	}
	if s.Live != nil {
		is := s.Live()
		v.live = &is
	}
	if s.Redis != nil {
		is := s.Redis()
		v.redis = &is
	}
	if s.Refused != nil {
		v.refused = s.Refused()
	}
	v.now = time.Now()
	return v
}

// A collector is a Source as Prometheus asks it.
type collector struct {
	source Source
	descs  []*prometheus.Desc // as table, and then as paces
}

// NewCollector returns a collector of a Source.
func NewCollector(s Source) prometheus.Collector {
	c := &collector{source: s}
	for _, m := range table {
		c.descs = append(c.descs, prometheus.NewDesc(prefix+m.name, m.help, m.labels, nil))
	}
	for _, p := range paces {
		c.descs = append(c.descs, prometheus.NewDesc(prefix+p.name, p.help, nil, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	v := c.source.look()
	for i, m := range table {
		m.of(v, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(c.descs[i], m.kind, value, labels...)
		})
	}
	if v.paces == nil {
		return
	}
	for i, p := range paces {
		count, sum, upTo := p.of(v.paces).Sizes()
		out <- prometheus.MustNewConstHistogram(c.descs[len(table)+i], count, sum, upTo)
	}
}
