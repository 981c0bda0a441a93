package kubestore

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A watch whose scope names a namespace twice shows what is in it once, and then that this
// is all.
func TestANamespaceThatIsNamedTwice(t *testing.T) {
	m := newMirror(resource.Principal, zap.NewNop(), []resource.Kind{resource.Application})
	k := resource.Key{Kind: resource.Application, Namespace: "argocd", Name: "web"}
	m.mu.Lock()
	m.put(m.kinds[resource.Application], record{Object: resource.Object{Key: k, UID: "1", Version: "1"}})
	m.mu.Unlock()

	synced, shown := errors.New("synced"), 0
	err := m.watch(backend.In("argocd", "argocd"))(t.Context(), func(e backend.Event) error {
		if e.Synced != nil {
			return synced
		}
		shown++
		return nil
	})
	require.ErrorIs(t, err, synced)
	require.Equal(t, 1, shown)
}
