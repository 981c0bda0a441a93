package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/argocd-fabric/argocd-agent/sync/session"
)

const prefix = "argocd_agent_"

// A metric is a row of the table.
type metric struct {
	name, help string
	labels     []string
	kind       prometheus.ValueType
	// of puts what there is of it to tell, with a value for each of labels.
	of func(v view, put func(value float64, labels ...string))
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// The directions of a link. What a side sends goes the same way wherever it is told.
const (
	sent     = "sent"
	received = "received"
)

// link is a metric with one series for each link.
func link(name, help string, kind prometheus.ValueType, of func(Link) float64) metric {
	return metric{name, help, []string{"agent"}, kind, func(v view, put func(float64, ...string)) {
		for _, l := range v.links {
			put(of(l), l.Agent)
		}
	}}
}

// both is a counter with one series for each direction of each link.
func both(name, help string, of func(session.Counts) (out, in uint64)) metric {
	return metric{name, help, []string{"agent", "direction"}, counter, func(v view, put func(float64, ...string)) {
		for _, l := range v.links {
			out, in := of(l.Session.Counts)
			put(float64(out), l.Agent, sent)
			put(float64(in), l.Agent, received)
		}
	}}
}

// table is all that is told, but for the paces.
var table = []metric{
	{"build_info", "Always 1: which version of the program this is.", []string{"version"}, gauge, func(v view, put func(float64, ...string)) { put(1, v.version) }},
	{"agents", "Agents by what is done about them.", []string{"state"}, gauge, states},
	{"certificate_expiry_timestamp_seconds", "When this side's own certificate expires, in seconds since 1970.", nil, gauge, func(v view, put func(float64, ...string)) {
		if !v.expiry.IsZero() {
			put(float64(v.expiry.Unix()))
		}
	}},
	{"peer_certificate_expiry_timestamp_seconds", "When the certificate expires by which the agent has proved its name last, in seconds since 1970.", []string{"agent"}, gauge, func(v view, put func(float64, ...string)) {
		for _, l := range v.links {
			if !l.Expires.IsZero() {
				put(float64(l.Expires.Unix()), l.Agent)
			}
		}
	}},
	{"controller_conflict", "Whether an application controller of the control plane reconciles agents' Applications.", nil, gauge, func(v view, put func(float64, ...string)) {
		if v.conflict != nil {
			put(number(*v.conflict))
		}
	}},
	{"refusals_total", "Connections of agents that were not let in, by why: unproven (nothing proves a name), blocked (it is on the blocklist) or unregistered.", []string{"reason"}, counter, func(v view, put func(float64, ...string)) {
		for reason, n := range v.refused {
			put(float64(n), reason)
		}
	}},
	{"live_requests", "Live requests of the Kubernetes API that are under way.", nil, gauge, func(v view, put func(float64, ...string)) {
		if v.live != nil {
			put(float64(v.live.UnderWay))
		}
	}},
	{"live_requests_total", "Live requests of the Kubernetes API by what has become of them: answered, unproven, unknown, away, busy, invalid, gone, failed or broken.", []string{"outcome"}, counter, func(v view, put func(float64, ...string)) {
		if v.live != nil {
			for outcome, n := range v.live.Total {
				put(float64(n), outcome)
			}
		}
	}},
	{"redis_reads_total", "What was read from agents' Redis, by how it was answered: fresh or missing (by the agent), kept or unknown (by what it told last, or by nothing, as it did not answer).", []string{"outcome"}, counter, func(v view, put func(float64, ...string)) {
		if v.redis != nil {
			for outcome, n := range v.redis.Read {
				put(float64(n), string(outcome))
			}
		}
	}},
	{"redis_age_seconds", "Of an agent whose Redis did not answer when it was asked last: how old the oldest is of what was shown in its place, 0 if nothing was.", []string{"agent"}, gauge, func(v view, put func(float64, ...string)) {
		if v.redis != nil {
			for agent, age := range v.redis.Away {
				put(age.Seconds(), agent)
			}
		}
	}},
	{"store_trouble_seconds", "For how long a store of the transport has had a trouble (full, quota, read-only, lost, or a copy that cannot be written), or an agent has broken the rules.", []string{"agent", "what"}, gauge, func(v view, put func(float64, ...string)) {
		for _, t := range v.troubles {
			put(v.now.Sub(t.Since).Seconds(), t.Agent, t.What)
		}
	}},
	{"lag_seconds", "How long the oldest change has waited that did not arrive: sent, that the peer is not known to have; received, for how long this side has known that it lacks something.", []string{"agent", "direction"}, gauge, lags},
	{"writes_total", "Writes and removals of objects by what became of them: done, overtaken (there was another version), withheld (by an agent that observes), refused (for good) or failed (tried again).", []string{"agent", "outcome"}, counter, writes},
	both("messages_total", "Messages by direction: put into the log, or taken from the peer's.", func(c session.Counts) (out, in uint64) { return c.Sent, c.Received }),
	both("message_bytes_total", "Bytes of the data of messages by direction, before it is packed for the line.", func(c session.Counts) (out, in uint64) { return c.SentBytes, c.ReceivedBytes }),
	link("connections_total", "Times that a process of the peer's has come, or has come back.", counter, func(l Link) float64 { return float64(l.Session.Counts.Met) }),
	link("version_refusals_total", "Processes of the peer's that have come and are not understood: they speak no version of the protocol that this side does.", counter, func(l Link) float64 { return float64(l.Session.Counts.Refusals) }),
	link("unsent_total", "Messages that could not be put into the log, and are tried again unless they never can be.", counter, func(l Link) float64 { return float64(l.Session.Counts.Unsent) }),
	link("watch_restarts_total", "Times that all objects were listed anew because the watch of the store had ended.", counter, func(l Link) float64 { return float64(l.Session.Counts.Relisted) }),
	link("backlog", "Objects of which the peer is not known to have what is said of them now.", gauge, func(l Link) float64 { return float64(l.Session.Engine.Backlog) }),
	link("connected", "Whether the peer's process answers.", gauge, func(l Link) float64 { return number(l.Session.Connected) }),
	link("in_step", "Whether the copy of the peer's table is known to be whole.", gauge, func(l Link) float64 { return number(l.Session.Engine.InStep) }),
	link("rows", "Objects that this side has something to say of.", gauge, func(l Link) float64 { return float64(l.Session.Engine.Rows) }),
	link("copied_rows", "Objects that the peer has said something of.", gauge, func(l Link) float64 { return float64(l.Session.Engine.Copied) }),
	link("writes_in_flight", "Objects that are being written.", gauge, func(l Link) float64 { return float64(l.Session.Engine.Writing) }),
	link("writes_failing", "Objects whose last write failed, and is tried again.", gauge, func(l Link) float64 { return float64(l.Session.Engine.Failed) }),
	link("writes_withheld", "Objects that an agent would write if it did not observe.", gauge, func(l Link) float64 { return float64(l.Session.Engine.Denied) }),
	link("object_errors", "Objects that cannot be kept in step (on a hub: condition AgentError).", gauge, func(l Link) float64 { return float64(l.Session.Engine.Faults) }),
	link("object_errors_total", "Times that an object was given the condition AgentError.", counter, func(l Link) float64 { return float64(l.Session.Engine.FaultsSet) }),
	link("object_pending", "Objects that say they wait for the agent (condition AgentPending).", gauge, func(l Link) float64 { return float64(l.Session.Engine.Pending) }),
	link("object_pending_total", "Times that an object was given the condition AgentPending.", counter, func(l Link) float64 { return float64(l.Session.Engine.PendingSet) }),
	link("held_deletions", "Deletions that are held, on either side, until somebody approves them.", gauge, func(l Link) float64 { return float64(len(l.Session.Engine.Held) + len(l.Session.Engine.Theirs)) }),
	link("dead_letters", "Dead letters that are kept on this side.", gauge, func(l Link) float64 { return float64(l.Session.DeadLetters) }),
	link("dead_letters_total", "Dead letters that were written on this side.", counter, func(l Link) float64 { return float64(l.Letters) }),
	link("failing", "Whether the session fails at something, and tries again.", gauge, func(l Link) float64 { return number(l.Session.Err != nil) }),
}

// paces are the histograms, of all links of this process together.
var paces = []struct {
	name, help string
	of         func(*session.Paces) *session.Pace
}{
	{"send_seconds", "From when a change is seen in this side's store until it is in the log towards the peer.", func(p *session.Paces) *session.Pace { return &p.Send }},
	{"write_seconds", "From when a message of the peer's is taken in until what it asks for is written in this side's store.", func(p *session.Paces) *session.Pace { return &p.Write }},
}

func states(v view, put func(float64, ...string)) {
	n := map[string]int{}
	for _, l := range v.links {
		n[l.State]++
	}
	for state, n := range n {
		put(float64(n), state)
	}
}

func lags(v view, put func(float64, ...string)) {
	for _, l := range v.links {
		put(age(v.now, l.Session.Engine.Oldest), l.Agent, sent)
		put(age(v.now, l.Session.Engine.Lacks), l.Agent, received)
	}
}

func writes(v view, put func(float64, ...string)) {
	for _, l := range v.links {
		c := l.Session.Counts
		for _, o := range []struct {
			outcome string
			n       uint64
		}{{"done", c.Done}, {"overtaken", c.Overtaken}, {"withheld", c.Withheld}, {"refused", c.Refused}, {"failed", c.Failed}} {
			put(float64(o.n), l.Agent, o.outcome)
		}
	}
}

// age returns for how many seconds something has been so; 0 if it is not.
func age(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since).Seconds(), 0)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
