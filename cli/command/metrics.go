package command

import (
	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/proxy/redis"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// metrics says what a principal's metrics tell.
func (h hubParts) metrics(p *principal.Principal, letters *ledger.Ledger, conflict func() bool, live func() metrics.Live, cache *redis.Proxy) metrics.Source {
	var stats func() redis.Stats
	if cache != nil {
		stats = cache.Stats
	}
	return metrics.Source{Version: version(), Live: live, Troubles: troubles(h.hub), Expiry: h.own.Credentials.Expiry, Conflict: conflict, Redis: stats, Refused: h.papers.refusals, Paces: h.program.paces, Links: func() (out []metrics.Link) {
		for _, a := range p.Agents() {
			out = append(out, metrics.Link{
				Agent: a.Name, State: a.State.String(), Session: a.Session, Letters: letters.Book(a.Name).Written(), Expires: h.papers.of(a.Name),
			})
		}
		return out
	}}
}

// agentMetrics says what an agent's metrics tell.
func agentMetrics(name string, a *agent.Agent, letters *ledger.Book, end transport.Dialer, own *identity.Credentials, paces *session.Paces, live func() metrics.Live) metrics.Source {
	return metrics.Source{Version: version(), Live: live, Troubles: troubles(end), Expiry: own.Expiry, Paces: paces, Links: func() []metrics.Link {
		return []metrics.Link{{Agent: name, State: principal.Serving.String(), Session: a.Status(), Letters: letters.Written()}}
	}}
}

// troubles returns what says which troubles an end of a transport has; nil if it has none.
func troubles(end any) func() []transport.Trouble {
	if t, ok := end.(transport.Troubled); ok {
		return t.Troubles
	}
	return nil
}
