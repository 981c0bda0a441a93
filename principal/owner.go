package principal

import (
	"slices"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Owner says whose an Application of the hub's is, and what it is called on the link; false if
// it is no agent's, or of one that is not registered. Under destination mapping it is that of
// the agent that has it, or may have it, which is not always the one that it is aimed at.
func (p *Principal) Owner(namespace, name string) (agent string, link resource.Key, ok bool) {
	k := resource.Key{Kind: resource.Application, Namespace: namespace, Name: name}
	a, err := p.registered(namespace)
	if err != nil || p.placement(a).Destination {
		if p.allot == nil {
			return "", link, false
		}
		if a, err = p.registered(p.allot.holder(k)); err != nil {
			return "", link, false
		}
	}
	link, ok = p.placement(a).Out(k)
	return a.Name, link, ok
}

// holder returns the agent that is shown an Application, "" if none is: of several, the one of
// which it is surest that it has it.
func (a *allotment) holder(k resource.Key) (agent string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	order := []verdict{hidden, parked, leaving, dying, there}
	best := 0
	for name, v := range a.shown[k] {
		if sure := slices.Index(order, v); sure > best || sure == best && sure > 0 && name < agent {
			agent, best = name, sure
		}
	}
	return agent
}
