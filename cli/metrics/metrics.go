// Package metrics shows how links stand to Prometheus. All that it tells is read when it
// is asked: nothing is kept beside what the links themselves know, so the series of an
// agent that is removed end with it. METRICS.md in this folder lists them.
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
	Letters uint64 // how many dead letters were put since the process began
}

// A Source says how things stand now.
type Source struct {
	Links    func() []Link
	Troubles func() []transport.Trouble // nil is none
	// Conflict reports whether a controller of the control plane reconciles agents'
	// Applications; nil where nobody could know.
	Conflict func() bool
	Expiry   func() time.Time // of this side's certificate
	Live     func() Live      // nil where there is no live access
	// Redis says how it goes with what is read from agents' Redis; nil where nothing is.
	Redis func() redis.Stats
}

// A Live is what is told of live requests of the Kubernetes API.
type Live struct {
	UnderWay int
	Total    map[string]uint64 // by what has become of them, which are few
}

// A series is one metric of each link: a row of the table.
type series struct {
	name, help string
	kind       prometheus.ValueType
	of         func(Link) float64
}

const prefix = "argocd_agent_"

// table is all that is told of each link, with the one label agent.
var table = []series{
	{"connected", "Whether the peer's process answers.", prometheus.GaugeValue, func(l Link) float64 { return number(l.Session.Connected) }},
	{"in_step", "Whether the copy of the peer's table is known to be whole.", prometheus.GaugeValue, func(l Link) float64 { return number(l.Session.Engine.InStep) }},
	{"rows", "Objects that this side has something to say of.", prometheus.GaugeValue, func(l Link) float64 { return float64(l.Session.Engine.Rows) }},
	{"copied_rows", "Objects that the peer has said something of.", prometheus.GaugeValue, func(l Link) float64 { return float64(l.Session.Engine.Copied) }},
	{"writes_in_flight", "Objects that are being written.", prometheus.GaugeValue, func(l Link) float64 { return float64(l.Session.Engine.Writing) }},
	{"writes_failing", "Objects whose last write failed, and is tried again.", prometheus.GaugeValue, func(l Link) float64 { return float64(l.Session.Engine.Failed) }},
	{"writes_withheld", "Objects that an agent would write if it did not observe.", prometheus.GaugeValue, func(l Link) float64 { return float64(l.Session.Engine.Denied) }},
	{"object_errors", "Objects that cannot be kept in step (on a hub: condition AgentError).", prometheus.GaugeValue, func(l Link) float64 { return float64(l.Session.Engine.Faults) }},
	{"object_errors_total", "Times that an object was given the condition AgentError.", prometheus.CounterValue, func(l Link) float64 { return float64(l.Session.Engine.FaultsSet) }},
	{"object_pending", "Objects that say they wait for the agent (condition AgentPending).", prometheus.GaugeValue, func(l Link) float64 { return float64(l.Session.Engine.Pending) }},
	{"object_pending_total", "Times that an object was given the condition AgentPending.", prometheus.CounterValue, func(l Link) float64 { return float64(l.Session.Engine.PendingSet) }},
	{"held_deletions", "Deletions that are held, on either side, until somebody approves them.", prometheus.GaugeValue, func(l Link) float64 { return float64(len(l.Session.Engine.Held) + len(l.Session.Engine.Theirs)) }},
	{"dead_letters", "Dead letters that are kept on this side.", prometheus.GaugeValue, func(l Link) float64 { return float64(l.Session.DeadLetters) }},
	{"dead_letters_total", "Dead letters that were written on this side.", prometheus.CounterValue, func(l Link) float64 { return float64(l.Letters) }},
	{"failing", "Whether the session fails at something, and tries again.", prometheus.GaugeValue, func(l Link) float64 { return number(l.Session.Err != nil) }},
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// A collector is a Source as Prometheus asks it.
type collector struct {
	source Source
	series []*prometheus.Desc // as table
	agents *prometheus.Desc
	since  *prometheus.Desc
	rival  *prometheus.Desc
	expiry *prometheus.Desc
	live   *prometheus.Desc
	lived  *prometheus.Desc
	reads  *prometheus.Desc
	age    *prometheus.Desc
}

// NewCollector returns a collector of a Source.
func NewCollector(s Source) prometheus.Collector {
	c := &collector{
		source: s,
		agents: prometheus.NewDesc(prefix+"agents", "Agents by what is done about them.", []string{"state"}, nil),
		rival:  prometheus.NewDesc(prefix+"controller_conflict", "Whether an application controller of the control plane reconciles agents' Applications.", nil, nil),
		expiry: prometheus.NewDesc(prefix+"certificate_expiry_timestamp_seconds", "When this side's own certificate expires, in seconds since 1970.", nil, nil),
		live:   prometheus.NewDesc(prefix+"live_requests", "Live requests of the Kubernetes API that are under way.", nil, nil),
		lived:  prometheus.NewDesc(prefix+"live_requests_total", "Live requests of the Kubernetes API by what has become of them: answered, unproven, unknown, away, busy, invalid, gone, failed or broken.", []string{"outcome"}, nil),
		since:  prometheus.NewDesc(prefix+"store_trouble_seconds", "For how long a store of the transport has had a trouble: full, quota, read-only, lost, or a copy that cannot be written.", []string{"agent", "what"}, nil),
	}
	c.reads = prometheus.NewDesc(prefix+"redis_reads_total", "What was read from agents' Redis, by how it was answered: fresh or missing (by the agent), kept or unknown (by what it told last, or by nothing, as it did not answer).", []string{"outcome"}, nil)
	c.age = prometheus.NewDesc(prefix+"redis_age_seconds", "Of an agent whose Redis did not answer when it was asked last: how old the oldest is of what was shown in its place, 0 if nothing was.", []string{"agent"}, nil)
	for _, row := range table {
		c.series = append(c.series, prometheus.NewDesc(prefix+row.name, row.help, []string{"agent"}, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.agents
	out <- c.since
	out <- c.rival
	out <- c.expiry
	out <- c.live
	out <- c.lived
	out <- c.reads
	out <- c.age
	for _, d := range c.series {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	states := map[string]int{}
	for _, l := range c.source.Links() {
		states[l.State]++
		for i, row := range table {
			out <- prometheus.MustNewConstMetric(c.series[i], row.kind, row.of(l), l.Agent)
		}
	}
	for state, n := range states {
		out <- prometheus.MustNewConstMetric(c.agents, prometheus.GaugeValue, float64(n), state)
	}
	if c.source.Conflict != nil {
		out <- prometheus.MustNewConstMetric(c.rival, prometheus.GaugeValue, number(c.source.Conflict()))
	}
	if at := c.source.Expiry(); !at.IsZero() {
		out <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, float64(at.Unix()))
	}
	if c.source.Live != nil {
		l := c.source.Live()
		out <- prometheus.MustNewConstMetric(c.live, prometheus.GaugeValue, float64(l.UnderWay))
		for outcome, n := range l.Total {
			out <- prometheus.MustNewConstMetric(c.lived, prometheus.CounterValue, float64(n), outcome)
		}
	}
	if c.source.Redis != nil {
		c.redis(c.source.Redis(), out)
	}
	if c.source.Troubles == nil {
		return
	}
	for _, t := range c.source.Troubles() {
		out <- prometheus.MustNewConstMetric(c.since, prometheus.GaugeValue, time.Since(t.Since).Seconds(), t.Agent, t.What)
	}
}

func (c *collector) redis(s redis.Stats, out chan<- prometheus.Metric) {
	for outcome, n := range s.Read {
		out <- prometheus.MustNewConstMetric(c.reads, prometheus.CounterValue, float64(n), string(outcome))
	}
	for agent, age := range s.Away {
		out <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, age.Seconds(), agent)
	}
}
