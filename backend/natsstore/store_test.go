package natsstore

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/argocd-fabric/argocd-agent/backend/storetest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestStore runs the suite of every store on a real NATS server.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.World {
		h := startHost(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
		s, _ := h.store()
		return storetest.World{
			Store:      s,
			Users:      users{t, h.client()},
			Namespaces: [2]string{"one", "two"},
			Refuse: func(o *resource.Object) {
				o.Parts[resource.Spec] = `"` + strings.Repeat("too large ", 1<<20/10) + `"`
			},
		}
	})
}
