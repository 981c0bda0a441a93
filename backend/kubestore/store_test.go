package kubestore

import (
	"testing"

	"github.com/argocd-fabric/argocd-agent/backend/storetest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestStore runs the suite of every store on a real API server.
func TestStore(t *testing.T) {
	c := startCluster(t)
	storetest.Run(t, func(t *testing.T) storetest.World {
		s, p := c.store(t)
		return storetest.World{
			Store:      s,
			Users:      users{t, c.Dynamic(), p},
			Namespaces: [2]string{c.namespace(), c.namespace()},
			Refuse: func(o *resource.Object) {
				o.Parts[resource.Spec] = `{"destination":{},"project":["a list"],"source":{"repoURL":"https://git.example.com/apps.git"}}`
			},
		}
	})
}
