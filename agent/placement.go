package agent

import (
	"fmt"

	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Placement says where the objects of the link are on the agent's cluster: in the namespace
// of Argo CD, or, under destination mapping, an Application whose key has a namespace in that
// one, if it may be there.
type Placement struct {
	Namespace   string   // of Argo CD
	Destination bool     // destination mapping
	Allowed     []string // patterns of the other namespaces where Applications may be, see project.MatchNamespace
}

// Namespaces returns those of the cluster in which the objects are, none for all.
func (p Placement) Namespaces() []string {
	if p.Destination && len(p.Allowed) > 0 {
		return nil
	}
	return []string{p.Namespace}
}

// Out returns the object of the cluster's as it is named on the link; false if it is none of
// those in step. A copy stays one where it may be no longer: it is not written any more, but the
// principal must know that it is there before another agent may have the Application.
func (p Placement) Out(o resource.Object) (resource.Object, bool) {
	if o.Key.Namespace == p.Namespace {
		o.Key.Namespace = ""
		return o, true
	}
	copied := p.Destination && o.Key.Kind == resource.Application && o.Origin.UID != ""
	return o, copied || p.forbids(o.Key) == ""
}

// In is the inverse of Out; it says why the object of a key may not be on the cluster.
func (p Placement) In(k resource.Key) (here resource.Key, forbidden string) {
	if k.Namespace == "" {
		k.Namespace = p.Namespace
		return k, ""
	}
	return k, p.forbids(k)
}

func (p Placement) forbids(k resource.Key) string {
	switch {
	case k.Kind != resource.Application:
		return fmt.Sprintf("only Applications may be in namespace %s", k.Namespace)
	case !p.Destination:
		return "this agent keeps its Applications in one namespace: start it with --destination-based-mapping, as the principal was"
	case k.Namespace == p.Namespace:
		return fmt.Sprintf("namespace %s is the agent's own here: the Applications in it are those of the principal's", k.Namespace)
	case !project.MatchNamespace(p.Allowed, k.Namespace):
		return fmt.Sprintf("namespace %s is not among the agent's --allowed-namespaces", k.Namespace)
	}
	return ""
}
